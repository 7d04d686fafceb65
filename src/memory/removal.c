/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/removal.h"

#include "memory/failure.h"
#include "memory/flight.h"
#include "memory/object.h"
#include "memory/victim.h"
#include "memory/wait.h"
#include "memory/watch.h"

void kilni_evict_locked(kilni_object *object, kiln_eviction reason, kilni_aftermath *after)
{
    kiln_cache *cache = object->cache;
    kilni_table_remove(&cache->ready, &object->slot);
    kilni_groups_remove(&cache->groups, object);
    object->slot.state = KILNI_SLOT_NONE;
    cache->entries--;
    cache->bytes -= object->bytes;
    cache->lingering_entries++;
    cache->lingering_bytes += object->bytes;
    if (reason == KILN_EVICTED_CAPACITY || reason == KILN_EVICTED_RESOURCES) {
        cache->evictions++;
    }
    kilni_watch_turn(object->watch);
    kilni_aftermath_evict_locked(after, object, reason);
}

/* Removes what a slot has; a flight goes on without the cache. */
static void remove_slot_locked(kilni_slot *slot, kiln_eviction reason, kilni_aftermath *after)
{
    switch (slot->state) {
    case KILNI_SLOT_NONE:
        break;
    case KILNI_SLOT_READY:
        kilni_evict_locked((kilni_object *)slot, reason, after);
        break;
    case KILNI_SLOT_BUILDING:
        kilni_flight_detach_locked((kilni_flight *)slot);
        break;
    case KILNI_SLOT_FAILED:
        kilni_failure_drop_locked((kilni_flight *)slot);
        break;
    }
}

void kilni_clear_locked(kiln_cache *cache, kilni_aftermath *after)
{
    const kilni_table *tables[] = {&cache->ready, &cache->pending};
    for (int i = 0; i < 2; i++) {
        size_t position = 0;
        kilni_slot *slot;
        while ((slot = kilni_table_walk(tables[i], &position))) {
            remove_slot_locked(slot, KILN_EVICTED_CLEARED, after);
        }
    }
}

/* Removes a key; one that is building where @flights says so. */
static kiln_status remove_key(kiln_cache *cache, const kiln_key *key, bool flights)
{
    if (!cache || !key) {
        return KILN_E_INVALID;
    }
    kilni_aftermath after = {0};
    pthread_mutex_lock(&cache->lock);
    kilni_slot *slot = kilni_table_find(&cache->ready, key);
    slot = slot ? slot : kilni_table_find(&cache->pending, key);
    bool removable = slot && (flights || slot->state != KILNI_SLOT_BUILDING);
    if (removable) {
        remove_slot_locked(slot, KILN_EVICTED_REMOVED, &after);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
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

/* Removes what matches in one table; returns how many were ready. */
static size_t remove_matching_locked(const kilni_table *table, kilni_match_fn matches,
                                     uint64_t wanted, kilni_aftermath *after)
{
    size_t removed = 0;
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(table, &position))) {
        if (matches(wanted, slot)) {
            if (slot->state == KILNI_SLOT_BUILDING) {
                kilni_wait_bypass_all_locked((kilni_flight *)slot);
            }
            removed += slot->state == KILNI_SLOT_READY;
            remove_slot_locked(slot, KILN_EVICTED_REMOVED, after);
        }
    }
    return removed;
}

size_t kilni_cache_remove_matching(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted)
{
    kilni_aftermath after = {0};
    pthread_mutex_lock(&cache->lock);
    size_t removed = remove_matching_locked(&cache->ready, matches, wanted, &after);
    remove_matching_locked(&cache->pending, matches, wanted, &after);
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
    return removed;
}

static bool is_of_group(uint64_t group, const kilni_slot *slot)
{
    return slot->group == group;
}

/* Removes a group's objects; returns how many. */
static size_t remove_chained_locked(kiln_cache *cache, uint64_t group, kilni_aftermath *after)
{
    size_t removed = 0;
    kilni_object *next;
    for (kilni_object *object = kilni_groups_first(&cache->groups, group); object; object = next) {
        next = kilni_group_links_of(object)->next;
        if (object->slot.group == group) {
            kilni_evict_locked(object, KILN_EVICTED_REMOVED, after);
            removed++;
        }
    }
    return removed;
}

size_t kiln_cache_remove_group(kiln_cache *cache, uint64_t group)
{
    if (!cache || group == 0) {
        return 0;
    }
    kilni_aftermath after = {0};
    pthread_mutex_lock(&cache->lock);
    const size_t removed = remove_chained_locked(cache, group, &after);
    if (cache->pending.slot_count > 0) {
        remove_matching_locked(&cache->pending, is_of_group, group, &after);
    }
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
    return removed;
}

void kiln_cache_clear(kiln_cache *cache)
{
    if (!cache) {
        return;
    }
    kilni_aftermath after = {0};
    pthread_mutex_lock(&cache->lock);
    kilni_aftermath_clear_locked(&after, cache);
    kilni_clear_locked(cache, &after);
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
}

static uint64_t evict_locked(kilni_object *object, kilni_aftermath *after)
{
    uint64_t bytes = object->bytes;
    kilni_evict_locked(object, KILN_EVICTED_RESOURCES, after);
    return bytes;
}

static uint64_t evict_all_unpinned_locked(kiln_cache *cache, kilni_aftermath *after)
{
    uint64_t freed = 0;
    size_t position = 0;
    kilni_object *object;
    while ((object = (kilni_object *)kilni_table_walk(&cache->ready, &position))) {
        if (!kilni_object_is_pinned(object)) {
            freed += evict_locked(object, after);
        }
    }
    return freed;
}

static uint64_t evict_cheapest_locked(kiln_cache *cache, uint64_t bytes, kilni_aftermath *after)
{
    uint64_t freed = 0;
    kilni_victims victims = {.order = KILNI_ORDER_COST};
    kilni_object *cheapest;
    while (freed < bytes && (cheapest = kilni_victims_next_unpinned_locked(cache, &victims))) {
        freed += evict_locked(cheapest, after);
    }
    return freed;
}

kiln_status kiln_cache_evict_bytes(kiln_cache *cache, uint64_t bytes, uint64_t *ret_freed)
{
    if (!cache) {
        return KILN_E_INVALID;
    }
    kilni_aftermath after = {0};
    pthread_mutex_lock(&cache->lock);
    kilni_failures_drop_all_locked(cache);
    uint64_t freed = bytes > cache->bytes ? evict_all_unpinned_locked(cache, &after)
                                          : evict_cheapest_locked(cache, bytes, &after);
    pthread_mutex_unlock(&cache->lock);
    kilni_aftermath_finish(cache, &after);
    if (ret_freed) {
        *ret_freed = freed;
    }
    return KILN_OK;
}
