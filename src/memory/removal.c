/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/removal.h"

#include "memory/failure.h"
#include "memory/flight.h"
#include "memory/object.h"
#include "memory/policy.h"
#include "memory/victim.h"
#include "memory/wait.h"
#include "memory/watch.h"

void kilni_evict_locked(kilni_object *object, kiln_eviction reason, kilni_followup *followup)
{
    kiln_cache *cache = object->cache;
    kilni_table_remove(&cache->ready, &object->slot);
    kilni_groups_remove(&cache->groups, object);
    kilni_victim_forget_locked(object);
    kilni_residents_remove(&cache->residents, object);
    object->slot.state = KILNI_SLOT_NONE;
    cache->entries--;
    cache->bytes -= object->bytes;
    cache->lingering_entries++;
    cache->lingering_bytes += object->bytes;
    if (reason == KILN_EVICTED_CAPACITY || reason == KILN_EVICTED_RESOURCES) {
        cache->evictions++;
    }
    kilni_watch_clear(object->watch);
    kilni_followup_add_evicted_locked(followup, object, reason);
}

/* Removes what a slot has. A flight goes on without the cache. */
static void remove_slot_locked(kilni_slot *slot, kiln_eviction reason, kilni_followup *followup)
{
    switch (slot->state) {
    case KILNI_SLOT_NONE:
        break;
    case KILNI_SLOT_READY:
        kilni_evict_locked((kilni_object *)slot, reason, followup);
        break;
    case KILNI_SLOT_BUILDING:
        kilni_flight_detach_locked((kilni_flight *)slot);
        break;
    case KILNI_SLOT_FAILED:
        kilni_failure_drop_locked((kilni_flight *)slot);
        break;
    }
}

/* Walks all objects from the last one to the first. Begins with SIZE_MAX; returns NULL at the end.
 * The object returned may be removed: the one that takes its position was seen before. The lock may
 * be given up between two calls; an object that is inserted meanwhile may or may not be returned.
 */
static kilni_object *walk_locked(const kiln_cache *cache, size_t *position)
{
    if (*position > cache->residents.count) {
        *position = cache->residents.count;
    }
    return *position > 0 ? kilni_resident_at(&cache->residents, --*position) : NULL;
}

void kilni_clear_locked(kiln_cache *cache, kilni_followup *followup)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        remove_slot_locked(slot, KILN_EVICTED_CLEARED, followup);
    }
    /* Objects that are inserted while the lock is given up stay. */
    const uint64_t now = kilni_policy_clock(cache);
    size_t step = 0;
    kilni_object *object;
    position = SIZE_MAX;
    while ((object = walk_locked(cache, &position))) {
        if (object->inserted <= now) {
            kilni_evict_locked(object, KILN_EVICTED_CLEARED, followup);
        }
        kilni_cache_step_locked(cache, &step);
    }
}

/* Removes a key. One that is being built is removed only if @flights is true. */
static kiln_status remove_key(kiln_cache *cache, const kiln_key *key, bool flights)
{
    if (!cache || !key) {
        return KILN_E_INVALID;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    kilni_slot *slot = kilni_table_find(&cache->ready, key);
    slot = slot ? slot : kilni_table_find(&cache->pending, key);
    bool removable = slot && (flights || slot->state != KILNI_SLOT_BUILDING);
    if (removable) {
        remove_slot_locked(slot, KILN_EVICTED_REMOVED, &followup);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
    return removable ? KILN_OK : KILN_MISS;
}

kiln_status kiln_cache_remove(kiln_cache *cache, const kiln_key *key)
{
    return remove_key(cache, key, false);
}

kiln_status kilni_cache_forget(kiln_cache *cache, const kiln_key *key)
{
    return remove_key(cache, key, true);
}

/* Removes the flights and failures that match. */
static void remove_pending_locked(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted,
                                  kilni_followup *followup)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        if (matches(wanted, slot)) {
            if (slot->state == KILNI_SLOT_BUILDING) {
                kilni_wait_bypass_all_locked((kilni_flight *)slot);
            }
            remove_slot_locked(slot, KILN_EVICTED_REMOVED, followup);
        }
    }
}

/* Removes the objects that match. Returns how many. */
static size_t remove_ready_locked(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted,
                                  kilni_followup *followup)
{
    size_t removed = 0, position = SIZE_MAX, step = 0;
    kilni_object *object;
    while ((object = walk_locked(cache, &position))) {
        if (matches(wanted, &object->slot)) {
            kilni_evict_locked(object, KILN_EVICTED_REMOVED, followup);
            removed++;
        }
        kilni_cache_step_locked(cache, &step);
    }
    return removed;
}

size_t kilni_cache_remove_matching(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted)
{
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    remove_pending_locked(cache, matches, wanted, &followup);
    size_t removed = remove_ready_locked(cache, matches, wanted, &followup);
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
    return removed;
}

static bool is_of_group(uint64_t group, const kilni_slot *slot)
{
    return slot->group == group;
}

/* Returns the first object of a group in its chain, or NULL. */
static kilni_object *first_of_group(const kiln_cache *cache, uint64_t group)
{
    kilni_object *object = kilni_groups_first(&cache->groups, group);
    while (object && object->slot.group != group) {
        object = kilni_group_links_of(object)->next;
    }
    return object;
}

/* Removes a group's objects. Returns how many. */
static size_t remove_chained_locked(kiln_cache *cache, uint64_t group, kilni_followup *followup)
{
    size_t removed = 0;
    kilni_object *object;
    while ((object = first_of_group(cache, group))) {
        kilni_evict_locked(object, KILN_EVICTED_REMOVED, followup);
        kilni_cache_step_locked(cache, &removed);
    }
    return removed;
}

size_t kiln_cache_remove_group(kiln_cache *cache, uint64_t group)
{
    if (!cache || group == 0) {
        return 0;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    if (cache->pending.slot_count > 0) {
        remove_pending_locked(cache, is_of_group, group, &followup);
    }
    const size_t removed = remove_chained_locked(cache, group, &followup);
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
    return removed;
}

void kiln_cache_clear(kiln_cache *cache)
{
    if (!cache) {
        return;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    kilni_followup_add_cleared_locked(&followup, cache);
    kilni_clear_locked(cache, &followup);
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
}

static uint64_t evict_locked(kilni_object *object, kilni_followup *followup)
{
    uint64_t bytes = object->bytes;
    kilni_evict_locked(object, KILN_EVICTED_RESOURCES, followup);
    return bytes;
}

/* Evicts the cheapest objects first, as long as it finds any that is not pinned. */
static uint64_t evict_cheapest_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup)
{
    uint64_t freed = 0;
    size_t step = 0;
    kilni_object *cheapest;
    while (freed < bytes &&
           (cheapest = kilni_victim_choose_locked(cache, KILNI_ORDER_COST, step)) &&
           !kilni_object_is_pinned(cheapest)) {
        freed += evict_locked(cheapest, followup);
        kilni_cache_step_locked(cache, &step);
    }
    return freed;
}

/* Evicts objects in no order. Finds all that are not pinned, however few they are. */
static uint64_t evict_any_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup)
{
    uint64_t freed = 0;
    size_t position = SIZE_MAX, step = 0;
    kilni_object *object;
    while (freed < bytes && (object = walk_locked(cache, &position))) {
        if (!kilni_object_is_pinned(object)) {
            freed += evict_locked(object, followup);
        }
        kilni_cache_step_locked(cache, &step);
    }
    return freed;
}

kiln_status kiln_cache_evict_bytes(kiln_cache *cache, uint64_t bytes, uint64_t *ret_freed)
{
    if (!cache) {
        return KILN_E_INVALID;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    kilni_failures_drop_all_locked(cache);
    uint64_t freed = 0;
    if (bytes <= cache->bytes) {
        freed = evict_cheapest_locked(cache, bytes, &followup);
    }
    if (freed < bytes) {
        freed += evict_any_locked(cache, bytes - freed, &followup);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_followup_finish(cache, &followup);
    if (ret_freed) {
        *ret_freed = freed;
    }
    return KILN_OK;
}
