/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "memory/admission.h"
#include "memory/failure.h"
#include "memory/followup.h"
#include "memory/listener.h"
#include "memory/policy.h"
#include "memory/process.h"
#include "memory/removal.h"
#include "memory/section.h"

static const uint64_t DEFAULT_MAX_BYTES = (uint64_t)256 << 20;
static const uint64_t DEFAULT_MAX_ENTRIES = 65536;

/* For the table that readers search, 4 KiB; and for the one that they do not search, which is
 * walked when a thread ends, half a KiB. */
enum { LEAST_READY_CELLS = 512, LEAST_PENDING_CELLS = 64 };

/* Anything except 0. */
static const uint64_t RANDOM_SEED = 0x9e3779b97f4a7c15;

/* Does everything that may fail for a new cache. */
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
    kiln_status status = kilni_params_copy(params, &known, sizeof known);
    if (status != KILN_OK || !ret_cache) {
        return KILN_E_INVALID;
    }
    const uint32_t known_flags = KILN_CACHE_RETAIN_FAILURES | KILN_CACHE_DISABLED;
    if (!kiln_policy_name(known.policy) || (known.flags & ~known_flags)) {
        return KILN_E_INVALID;
    }
    if (kilni_process_begin() != KILN_OK) {
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
    cache->user = known.user;
    cache->retains_failures = known.flags & KILN_CACHE_RETAIN_FAILURES;
    cache->disabled = known.flags & KILN_CACHE_DISABLED;
    cache->max_bytes = known.max_bytes > 0 ? known.max_bytes : DEFAULT_MAX_BYTES;
    cache->max_entries = known.max_entries > 0 ? known.max_entries : DEFAULT_MAX_ENTRIES;
    cache->policy = kilni_policy_choose(known.policy);
    kilni_policy_report_hits_locked(cache, false);
    cache->random_state = RANDOM_SEED;
    kilni_process_add(cache);
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
    /* A listener or a destroy function that now asks for a key must not fill the cache again. */
    ending->disabled = true;
    kilni_clear_locked(ending, &followup);
    pthread_mutex_unlock(&ending->lock);
    kilni_followup_finish(ending, &followup);
    kilni_section_collect(ending);
    kilni_listeners_free(ending);
    kilni_cache_release(ending);
}

kiln_cache *kilni_cache_retain(kiln_cache *cache)
{
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    return cache;
}

/* Once the last reference is gone, no section is open. */
static void free_cells(kilni_cells *cells)
{
    while (cells) {
        kilni_cells *next = cells->next;
        free(cells);
        cells = next;
    }
}

void kilni_cache_release(kiln_cache *cache)
{
    if (atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) == 1) {
        kilni_process_remove(cache);
        pthread_cond_destroy(&cache->departed);
        pthread_cond_destroy(&cache->listener_gone);
        pthread_mutex_destroy(&cache->lock);
        kilni_groups_fini(&cache->groups);
        kilni_table_fini(&cache->pending);
        kilni_table_fini(&cache->ready);
        kilni_residents_fini(&cache->residents);
        free_cells(cache->retired_cells);
        free(cache);
    }
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
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
    return KILN_OK;
}

bool kilni_cache_is_off(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    const bool is_off = cache->disabled;
    pthread_mutex_unlock(&cache->lock);
    return is_off;
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

kiln_status kiln_cache_get_stats(kiln_cache *cache, kiln_cache_stats *ret_stats)
{
    if (!cache || !ret_stats || ret_stats->struct_size < sizeof ret_stats->struct_size) {
        return KILN_E_INVALID;
    }
    size_t size = ret_stats->struct_size;
    kilni_cache_lock(cache);
    kiln_cache_stats stats = {
        .struct_size = size,
        .hits = kilni_counter_sum(&cache->counters, KILNI_COUNTER_HITS),
        .misses = kilni_counter_sum(&cache->counters, KILNI_COUNTER_MISSES),
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
