/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/lifetime.h"

#include <sched.h>
#include <stdlib.h>

#include "memory/reader.h"

/* ---- locks ---- */

void kilni_cache_step_locked(kiln_cache *cache, size_t *step)
{
    /* If a running thread and a sleeping thread both want a mutex, the running thread usually gets
     * it. So this thread does not take the lock again while other threads wait for it. But it waits
     * no longer than other threads need to wake up. */
    enum { PATIENCE = 256 };
    if (++*step % KILNI_STEPS != 0) {
        return;
    }
    pthread_mutex_unlock(&cache->lock);
    for (int i = 0;
         i < PATIENCE && atomic_load_explicit(&cache->lock_waiters, memory_order_relaxed) > 0;
         i++) {
        sched_yield();
    }
    kilni_cache_lock(cache);
}

/* ---- caches ---- */

/* Guards the list of caches. It is taken before any cache's lock, and a cache's lock is taken
 * before the lock of the readers. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t cache_count; /* caches created so far */
static kiln_cache *caches;   /* linked by kiln_cache.next and previous */

kiln_cache *kilni_caches_lock(void)
{
    pthread_mutex_lock(&list_lock);
    return caches;
}

void kilni_caches_unlock(void)
{
    pthread_mutex_unlock(&list_lock);
}

void kilni_caches_add(kiln_cache *cache)
{
    pthread_mutex_lock(&list_lock);
    atomic_store_explicit(&cache->epoch, ++cache_count << KILNI_EPOCH_BITS, memory_order_relaxed);
    cache->next = caches;
    if (caches) {
        caches->previous = cache;
    }
    caches = cache;
    pthread_mutex_unlock(&list_lock);
}

static void remove_from_list(kiln_cache *cache)
{
    pthread_mutex_lock(&list_lock);
    if (cache->next) {
        cache->next->previous = cache->previous;
    }
    *(cache->previous ? &cache->previous->next : &caches) = cache->next;
    pthread_mutex_unlock(&list_lock);
}

kiln_cache *kilni_cache_retain(kiln_cache *cache)
{
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    return cache;
}

void kilni_cells_free(kilni_cells *cells)
{
    while (cells) {
        kilni_cells *next = cells->next;
        free(cells);
        cells = next;
    }
}

bool kilni_cache_try_retain(kiln_cache *cache)
{
    size_t references = atomic_load_explicit(&cache->references, memory_order_relaxed);
    while (references > 0 &&
           !atomic_compare_exchange_weak_explicit(&cache->references, &references, references + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return references > 0;
}

void kilni_cache_release(kiln_cache *cache)
{
    if (atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) == 1) {
        remove_from_list(cache);
        kilni_reader_wait_for_leaving(cache);
        pthread_cond_destroy(&cache->departed);
        pthread_cond_destroy(&cache->listener_gone);
        pthread_mutex_destroy(&cache->lock);
        kilni_groups_fini(&cache->groups);
        kilni_table_fini(&cache->pending);
        kilni_table_fini(&cache->ready);
        kilni_residents_fini(&cache->residents);
        kilni_cells_free(cache->retired_cells);
        free(cache);
    }
}

/* ---- objects ---- */

kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object)
{
    kilni_object *object =
        kilni_slot_calloc(sizeof *object + (group != 0 ? sizeof(kilni_group_links) : 0));
    if (!object) {
        return KILN_E_NO_MEMORY;
    }
    if (key) {
        kilni_slot_init(&object->slot, key, KILNI_SLOT_NONE);
    }
    if (group != 0) {
        object->slot.can_have_group = true;
        kilni_group_links_of(object)->group = group;
    }
    atomic_init(&object->holds, 1);
    object->cache = kilni_cache_retain(cache);
    *ret_object = object;
    return KILN_OK;
}

void kilni_object_free(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    kiln_watch_free(&object->watch);
    kiln_key_release(&object->slot.key);
    free(object);
    kilni_cache_release(cache);
}

void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns)
{
    object->object = user_object;
    object->bytes = bytes;
    object->cost_ns = cost_ns;
    object->cache->lingering_entries++;
    object->cache->lingering_bytes += bytes;
}

void kilni_object_fill_alone(kilni_object *object, void *user_object, uint64_t bytes,
                             uint64_t cost_ns)
{
    kilni_cache_lock(object->cache);
    kilni_object_fill_locked(object, user_object, bytes, cost_ns);
    pthread_mutex_unlock(&object->cache->lock);
}

bool kilni_object_is_pinned(const kilni_object *object)
{
    const int64_t holds = atomic_load_explicit(&object->holds, memory_order_relaxed);
    if (!kilni_holds_are_shared(holds)) {
        return holds > KILNI_HOLD_RESIDENT;
    }
    return holds + kilni_reader_tallied(object) > KILNI_HOLD_RESIDENT + KILNI_HOLD_SHARED;
}

bool kilni_object_is_busy_locked(const kilni_object *object)
{
    const kiln_cache *cache = object->cache;
    return cache->is_busy && cache->is_busy(cache->user, object->object);
}

bool kilni_object_is_used_locked(const kilni_object *object)
{
    return kilni_object_is_pinned(object) || kilni_object_is_busy_locked(object);
}

/* A cleanup handler, called after a destroy function, even if the function ends its thread or
 * throws an exception. */
static void free_object(void *object)
{
    kilni_object_free(object);
}

void kilni_object_destroy_all(kilni_queue *doomed)
{
    kilni_object *object;
    while ((object = kilni_queue_pop(doomed))) {
        const kiln_cache *cache = object->cache;
        pthread_cleanup_push(free_object, object);
        if (cache->destroy) {
            cache->destroy(cache->user, object->object);
        }
        pthread_cleanup_pop(1);
    }
}

void kilni_queue_push(kilni_queue *queue, kilni_object *object)
{
    object->link = NULL;
    if (queue->last) {
        queue->last->link = object;
    } else {
        queue->first = object;
    }
    queue->last = object;
}

kilni_object *kilni_queue_pop(kilni_queue *queue)
{
    kilni_object *object = queue->first;
    if (object) {
        queue->first = object->link;
        if (!queue->first) {
            queue->last = NULL;
        }
        object->link = NULL;
    }
    return object;
}
