/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/sized_struct.h"
#include "memory/evict.h"
#include "memory/failure.h"
#include "memory/flight.h"
#include "memory/fork.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/notify.h"
#include "memory/orphan.h"
#include "memory/policy.h"
#include "memory/read_section.h"
#include "memory/reader.h"

static const uint64_t DEFAULT_MAX_BYTES = (uint64_t)256 << 20;
static const uint64_t DEFAULT_MAX_ENTRIES = 65536;

/* The table of objects, which readers search, has at least 4 KiB of cells. The table of flights,
 * which is walked when a thread ends, has at least 512 bytes. */
enum { LEAST_READY_CELLS = 512, LEAST_PENDING_CELLS = 64 };

/* Any number except 0. */
static const uint64_t RANDOM_SEED = 0x9e3779b97f4a7c15;

/* ---- threads ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool handles_forks;

static void leave_sections(kilni_reader *reader)
{
    for (int i = 0; i < KILNI_READER_PLACES; i++) {
        kilni_place *place = &reader->places[i];
        kiln_cache *cache = atomic_load_explicit(&place->cache, memory_order_relaxed);
        if (cache) {
            kiln_section section = {.cache = cache, .slot = place};
            kiln_section_leave(&section);
        }
    }
}

/* Called when a thread ends. Leaves the thread's sections, and ensures that other threads no longer
 * wait for the thread's tickets. */
static void end_thread(kilni_reader *reader)
{
    leave_sections(reader);
    if (!kilni_thread_may_own_tickets()) {
        return;
    }
    for (kiln_cache *cache = kilni_caches_lock(); cache; cache = cache->next) {
        kilni_cache_lock(cache);
        kilni_flights_orphan_locked(cache, kilni_thread_number());
        pthread_mutex_unlock(&cache->lock);
    }
    kilni_caches_unlock();
    kilni_notices_send();
}

static void begin(void)
{
    handles_forks = kilni_forks_handle();
    if (handles_forks) {
        kilni_reader_begin(end_thread);
    }
}

/* Registers the handlers for the end of a thread and for forks. */
static kiln_status begin_once(void)
{
    pthread_once(&once, begin);
    return handles_forks ? KILN_OK : KILN_E_NO_MEMORY;
}

/* ---- creating and freeing ---- */

/* Performs the part of creating a cache that can fail. */
static kiln_status init(kiln_cache *cache)
{
    if (kilni_table_init(&cache->ready, LEAST_READY_CELLS) != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
    if (kilni_table_init(&cache->pending, LEAST_PENDING_CELLS) != KILN_OK) {
        goto no_second_table;
    }
    if (kilni_groups_init(&cache->groups) != KILN_OK) {
        goto no_groups;
    }
    if (pthread_mutex_init(&cache->lock, NULL) != 0) {
        goto no_lock;
    }
    if (pthread_cond_init(&cache->listener_gone, NULL) != 0) {
        goto no_condition;
    }
    if (pthread_cond_init(&cache->departed, NULL) != 0) {
        goto no_second_condition;
    }
    return KILN_OK;

no_second_condition:
    pthread_cond_destroy(&cache->listener_gone);
no_condition:
    pthread_mutex_destroy(&cache->lock);
no_lock:
    kilni_groups_fini(&cache->groups);
no_groups:
    kilni_table_fini(&cache->pending);
no_second_table:
    kilni_table_fini(&cache->ready);
    return KILN_E_NO_MEMORY;
}

kiln_status kiln_cache_new(const kiln_cache_params *params, kiln_cache **ret_cache)
{
    kiln_cache_params known;
    kiln_status status = kilni_sized_struct_copy(params, &known, sizeof known);
    if (status != KILN_OK || !ret_cache) {
        return KILN_E_INVALID;
    }
    const uint32_t known_flags =
        KILN_CACHE_RETAIN_FAILURES | KILN_CACHE_DISABLED | KILN_CACHE_DEFER_DESTRUCTION;
    if (!kiln_policy_name(known.policy) || (known.flags & ~known_flags)) {
        return KILN_E_INVALID;
    }
    if (begin_once() != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
    kiln_cache *cache = aligned_alloc(_Alignof(kiln_cache), sizeof *cache);
    if (!cache) {
        return KILN_E_NO_MEMORY;
    }
    memset(cache, 0, sizeof *cache);
    status = init(cache);
    if (status != KILN_OK) {
        free(cache);
        return status;
    }
    atomic_init(&cache->references, 1);
    cache->destroy = known.destroy;
    cache->is_busy = known.is_busy;
    cache->user = known.user;
    cache->retains_failures = known.flags & KILN_CACHE_RETAIN_FAILURES;
    cache->disabled = known.flags & KILN_CACHE_DISABLED;
    cache->defers_destruction = known.flags & KILN_CACHE_DEFER_DESTRUCTION;
    cache->max_bytes = known.max_bytes > 0 ? known.max_bytes : DEFAULT_MAX_BYTES;
    cache->max_entries = known.max_entries > 0 ? known.max_entries : DEFAULT_MAX_ENTRIES;
    cache->policy = kilni_policy_choose(known.policy);
    kilni_policy_report_hits_locked(cache, false);
    cache->random_state = RANDOM_SEED;
    kilni_caches_add(cache);
    *ret_cache = cache;
    return KILN_OK;
}

void kiln_cache_free(kiln_cache **cache)
{
    if (!cache || !*cache) {
        return;
    }
    kiln_cache *ending = *cache;
    *cache = NULL;
    kilni_followup followup = {0};
    kilni_cache_lock(ending);
    /* A listener or a destroy function that asks for a key now must not fill the cache again. */
    ending->disabled = true;
    ending->defers_destruction = false;
    kilni_failures_drop_locked(ending, ending->retained_failures);
    kilni_clear_locked(ending, &followup);
    kilni_followup_finish_and_unlock(ending, &followup);
    kiln_cache_collect(ending);
    kilni_listeners_free(ending);
    kilni_cache_release(ending);
}

kiln_status kiln_cache_set_cost(kiln_cache *cache, const kiln_key *key, uint64_t cost_ns)
{
    if (!cache || !key) {
        return KILN_E_INVALID;
    }
    kilni_cache_lock(cache);
    kilni_object *object = kilni_cache_find(cache, key);
    if (object) {
        object->cost_ns = cost_ns;
    }
    pthread_mutex_unlock(&cache->lock);
    return object ? KILN_OK : KILN_MISS;
}

static kiln_status set_capacity(kiln_cache *cache, uint64_t max_bytes, uint64_t max_entries,
                                bool flush)
{
    if (!cache) {
        return KILN_E_INVALID;
    }
    bool disabled = max_bytes == 0 || max_entries == 0;
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    if (flush || disabled) {
        /* Failures are dropped before the capacity changes. The call gives up the lock, and other
         * threads must never see a cache that exceeds its capacity. */
        kilni_failures_drop_locked(cache, cache->retained_failures);
    }
    cache->max_bytes = max_bytes;
    cache->max_entries = max_entries;
    cache->disabled = disabled;
    if (flush || disabled) {
        kilni_followup_add_cleared_locked(&followup, cache);
        kilni_clear_locked(cache, &followup);
    } else {
        kilni_shrink_locked(cache, &followup);
        kilni_failures_shrink_locked(cache);
    }
    kilni_followup_finish_and_unlock(cache, &followup);
    return KILN_OK;
}

kiln_status kiln_cache_set_capacity(kiln_cache *cache, uint64_t max_bytes, uint64_t max_entries)
{
    return set_capacity(cache, max_bytes, max_entries, false);
}

kiln_status kiln_cache_set_capacity_flush(kiln_cache *cache, uint64_t max_bytes,
                                          uint64_t max_entries)
{
    return set_capacity(cache, max_bytes, max_entries, true);
}

kiln_status kiln_cache_set_policy(kiln_cache *cache, uint32_t policy)
{
    if (!cache || !kiln_policy_name(policy)) {
        return KILN_E_INVALID;
    }
    kilni_cache_lock(cache);
    cache->policy = kilni_policy_choose(policy);
    pthread_mutex_unlock(&cache->lock);
    return KILN_OK;
}

static uint64_t sum_of(const kilni_counters *counters, kilni_counter counter)
{
    uint64_t sum = 0;
    for (int i = 0; i <= KILNI_COUNTER_LINES; i++) {
        sum += atomic_load_explicit(&counters->lines[i].counts[counter], memory_order_relaxed);
    }
    return sum;
}

kiln_status kiln_cache_get_stats(kiln_cache *cache, kiln_cache_stats *ret_stats)
{
    if (!cache || !ret_stats || ret_stats->struct_size < sizeof ret_stats->struct_size) {
        return KILN_E_INVALID;
    }
    size_t size = ret_stats->struct_size;
    kilni_cache_lock(cache);
    kiln_cache_stats stats = {
        .struct_size = size,
        .hits = sum_of(&cache->counters, KILNI_COUNTER_HITS),
        .misses = sum_of(&cache->counters, KILNI_COUNTER_MISSES),
        .waits = cache->waits,
        .bypasses = cache->bypasses,
        .failures = cache->failures,
        .evictions = cache->evictions,
        .entries = cache->entries,
        .bytes = cache->bytes,
        .reserved_bytes = cache->reserved_bytes,
        .lingering_entries = cache->lingering_entries,
        .lingering_bytes = cache->lingering_bytes,
        .max_bytes = cache->max_bytes,
        .max_entries = cache->max_entries,
        .policy = cache->policy,
        .retained_failures = cache->retained_failures,
        .retained_failure_bytes = cache->retained_failure_bytes,
    };
    pthread_mutex_unlock(&cache->lock);
    memcpy(ret_stats, &stats, size < sizeof stats ? size : sizeof stats);
    return KILN_OK;
}
