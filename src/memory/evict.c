/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/evict.h"

#include "memory/failure.h"
#include "memory/flight.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/policy.h"
#include "memory/victim.h"
#include "memory/waiter.h"
#include "memory/watch.h"

/* ---- removing an object ---- */

static void evict_locked(kilni_object *object, kiln_eviction reason, kilni_followup *followup)
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

/* ---- admission ---- */

bool kilni_cache_is_off(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    const bool is_off = cache->disabled;
    pthread_mutex_unlock(&cache->lock);
    return is_off;
}

/* Returns true if the capacity has room for this many more bytes and entries. */
static bool has_room_for(const kiln_cache *cache, uint64_t bytes, uint64_t entries)
{
    return cache->bytes <= cache->max_bytes && bytes <= cache->max_bytes - cache->bytes &&
           cache->entries <= cache->max_entries && entries <= cache->max_entries - cache->entries;
}

/* Each pass of the loop checks the capacity, because other threads can change it whenever the lock
 * is given up. */
static void make_room_locked(kiln_cache *cache, uint64_t bytes, uint64_t entries,
                             kilni_followup *followup)
{
    size_t step = 0;
    while (cache->entries > 0 && bytes <= cache->max_bytes && entries <= cache->max_entries &&
           !has_room_for(cache, bytes, entries)) {
        kilni_object *victim = kilni_victim_choose_locked(cache, KILNI_ORDER_POLICY);
        kilni_policy_evicted_locked(victim);
        evict_locked(victim, KILN_EVICTED_CAPACITY, followup);
        kilni_cache_step_locked(cache, &step);
    }
}

void kilni_shrink_locked(kiln_cache *cache, kilni_followup *followup)
{
    make_room_locked(cache, 0, 0, followup);
}

void kilni_make_room_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup)
{
    if (cache->policy != KILN_POLICY_NO_EVICT) {
        make_room_locked(cache, bytes, 1, followup);
    }
}

/* Called for a cached object whose size has grown. Evicts other objects until all objects fit. If
 * this object alone exceeds the capacity, evicts only this object. Under KILN_POLICY_NO_EVICT,
 * evicts nothing. Sometimes gives up the lock for a while. */
static void readmit_locked(kilni_object *object, kilni_followup *followup)
{
    kiln_cache *cache = object->cache;
    if (cache->policy == KILN_POLICY_NO_EVICT) {
        return;
    }
    if (object->bytes > cache->max_bytes) {
        evict_locked(object, KILN_EVICTED_CAPACITY, followup);
    }
    kilni_shrink_locked(cache, followup);
}

/* Returns true if there is room for @bytes in addition to the resident objects and the reservations
 * of flights. */
static bool has_free_room(const kiln_cache *cache, uint64_t bytes)
{
    uint64_t taken = cache->bytes + cache->reserved_bytes;
    return taken <= cache->max_bytes && bytes <= cache->max_bytes - taken &&
           cache->entries + cache->flights < cache->max_entries;
}

bool kilni_may_begin_locked(const kiln_cache *cache, uint64_t bytes)
{
    return cache->policy != KILN_POLICY_NO_EVICT || has_free_room(cache, bytes > 0 ? bytes : 1);
}

void kilni_admit_locked(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    bool fits = cache->policy == KILN_POLICY_NO_EVICT ? has_free_room(cache, object->bytes)
                                                      : has_room_for(cache, object->bytes, 1);
    if (!fits || cache->residents.count == KILNI_MOST_RESIDENTS) {
        return;
    }
    object->slot.state = KILNI_SLOT_READY;
    object->slot.was_visible = true;
    cache->lingering_entries--;
    cache->lingering_bytes -= object->bytes;
    cache->entries++;
    cache->bytes += object->bytes;
    kilni_policy_insert_locked(object);
    atomic_fetch_add_explicit(&object->holds, KILNI_HOLD_RESIDENT, memory_order_relaxed);
    kilni_groups_add(&cache->groups, object);
    kilni_residents_add(&cache->residents, object);
    kilni_victim_consider_locked(object);
    kilni_table_insert(&cache->ready, &object->slot);
}

void kilni_object_grow(kilni_object *object, uint64_t more_bytes)
{
    kiln_cache *cache = object->cache;
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    object->bytes += more_bytes;
    if (kilni_object_is_resident(object)) {
        cache->bytes += more_bytes;
        readmit_locked(object, &followup);
    } else {
        cache->lingering_bytes += more_bytes;
    }
    kilni_followup_finish_and_unlock(cache, &followup);
}

/* ---- removal ---- */

/* Removes the object, flight or failure of a slot. A removed flight continues, but its result is
 * not kept. */
static void remove_slot_locked(kilni_slot *slot, kiln_eviction reason, kilni_followup *followup)
{
    switch (slot->state) {
    case KILNI_SLOT_NONE:
        break;
    case KILNI_SLOT_READY:
        evict_locked((kilni_object *)slot, reason, followup);
        break;
    case KILNI_SLOT_BUILDING:
        kilni_flight_detach_locked((kilni_flight *)slot);
        break;
    case KILNI_SLOT_FAILED:
        kilni_failure_drop_locked((kilni_flight *)slot);
        break;
    }
}

/* Returns the next object of a walk from the last object to the first. Returns NULL at the end. The
 * caller sets *@position to SIZE_MAX before the walk. The caller may remove the returned object,
 * because the object that takes its position has already been returned. The caller may also give up
 * the lock between two calls. If other threads insert objects during that time, the walk might not
 * return them. If other threads remove objects, it might return an object twice. */
static kilni_object *walk_locked(const kiln_cache *cache, size_t *position)
{
    if (*position > cache->residents.count) {
        *position = cache->residents.count;
    }
    return *position > 0 ? kilni_resident_at(&cache->residents, --*position) : NULL;
}

void kilni_clear_locked(kiln_cache *cache, kilni_followup *followup)
{
    /* The only failures left are those that were added while the caller had given up the lock. */
    while (cache->oldest_failure) {
        kilni_failure_drop_locked(cache->oldest_failure);
    }
    /* Objects that are inserted while the lock is given up are not removed. */
    const uint64_t now = kilni_policy_clock(cache);
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        if (slot->state == KILNI_SLOT_BUILDING) {
            kilni_flight_detach_locked((kilni_flight *)slot);
        }
    }
    size_t step = 0;
    kilni_object *object;
    position = SIZE_MAX;
    while ((object = walk_locked(cache, &position))) {
        if (object->inserted <= now) {
            evict_locked(object, KILN_EVICTED_CLEARED, followup);
        }
        kilni_cache_step_locked(cache, &step);
    }
}

/* Removes a key. If the key is being built, removes it only if @flights is true. */
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
    kilni_followup_finish_and_unlock(cache, &followup);
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

/* Removes the flights and failures that match @wanted. */
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

/* Removes the objects that match @wanted. Returns how many objects it removed. */
static size_t remove_ready_locked(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted,
                                  kilni_followup *followup)
{
    size_t removed = 0, position = SIZE_MAX, step = 0;
    kilni_object *object;
    while ((object = walk_locked(cache, &position))) {
        if (matches(wanted, &object->slot)) {
            evict_locked(object, KILN_EVICTED_REMOVED, followup);
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
    kilni_followup_finish_and_unlock(cache, &followup);
    kilni_notices_send();
    return removed;
}

static bool is_of_group(uint64_t group, const kilni_slot *flight)
{
    return ((const kilni_flight *)flight)->group == group;
}

/* Removes a group's objects. Returns how many it removed. */
static size_t remove_grouped_locked(kiln_cache *cache, uint64_t group, kilni_followup *followup)
{
    size_t removed = 0;
    kilni_object *object;
    while ((object = kilni_groups_first(&cache->groups, group))) {
        evict_locked(object, KILN_EVICTED_REMOVED, followup);
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
    const size_t removed = remove_grouped_locked(cache, group, &followup);
    kilni_followup_finish_and_unlock(cache, &followup);
    kilni_notices_send();
    return removed;
}

void kiln_cache_clear(kiln_cache *cache)
{
    if (!cache) {
        return;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    kilni_failures_drop_locked(cache, cache->retained_failures);
    kilni_followup_add_cleared_locked(&followup, cache);
    kilni_clear_locked(cache, &followup);
    kilni_followup_finish_and_unlock(cache, &followup);
}

static uint64_t evict_for_resources_locked(kilni_object *object, kilni_followup *followup)
{
    uint64_t bytes = object->bytes;
    evict_locked(object, KILN_EVICTED_RESOURCES, followup);
    return bytes;
}

/* Evicts the cheapest objects first. Stops when it has freed @bytes or finds no object that is not
 * in use. */
static uint64_t evict_cheapest_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup)
{
    uint64_t freed = 0;
    size_t step = 0;
    kilni_object *cheapest;
    while (freed < bytes && (cheapest = kilni_victim_choose_locked(cache, KILNI_ORDER_COST)) &&
           !kilni_object_is_used_locked(cheapest)) {
        freed += evict_for_resources_locked(cheapest, followup);
        kilni_cache_step_locked(cache, &step);
    }
    return freed;
}

/* Evicts objects in no particular order. Finds every object that is not in use, even if there are
 * only a few. */
static uint64_t evict_any_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup)
{
    uint64_t freed = 0;
    size_t position = SIZE_MAX, step = 0;
    kilni_object *object;
    while (freed < bytes && (object = walk_locked(cache, &position))) {
        if (!kilni_object_is_used_locked(object)) {
            freed += evict_for_resources_locked(object, followup);
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
    kilni_failures_drop_locked(cache, cache->retained_failures);
    uint64_t freed = 0;
    if (bytes <= cache->bytes) {
        freed = evict_cheapest_locked(cache, bytes, &followup);
    }
    if (freed < bytes) {
        freed += evict_any_locked(cache, bytes - freed, &followup);
    }
    kilni_followup_finish_and_unlock(cache, &followup);
    if (ret_freed) {
        *ret_freed = freed;
    }
    return KILN_OK;
}

/* ---- listing ---- */

enum { VISITED_AT_ONCE = 64 };

/* A batch of objects, each with a hold. */
typedef struct listing {
    kilni_object *objects[VISITED_AT_ONCE];
    kiln_resident residents[VISITED_AT_ONCE];
    size_t count;
} listing;

static void list_some_locked(kiln_cache *cache, size_t *position, listing *some)
{
    kilni_object *object;
    some->count = 0;
    while (some->count < VISITED_AT_ONCE && (object = walk_locked(cache, position))) {
        some->residents[some->count] = (kiln_resident){
            .struct_size = sizeof(kiln_resident),
            .key = object->slot.key,
            .object = object->object,
            .bytes = object->bytes,
            .cost_ns = object->cost_ns,
            .group = kilni_group_of(object),
            .is_used = kilni_object_is_used_locked(object),
        };
        kilni_object_hold(object);
        some->objects[some->count++] = object;
    }
}

/* Returns false if @visit asks to end the listing. */
static bool visit_some(const listing *some, kiln_visit_fn visit, void *user)
{
    size_t i = 0;
    while (i < some->count && visit(user, &some->residents[i])) {
        i++;
    }
    return i == some->count;
}

kiln_status kiln_cache_visit(kiln_cache *cache, kiln_visit_fn visit, void *user)
{
    if (!cache || !visit) {
        return KILN_E_INVALID;
    }
    size_t position = SIZE_MAX;
    listing some;
    bool goes_on = true;
    while (goes_on) {
        kilni_cache_lock(cache);
        list_some_locked(cache, &position, &some);
        pthread_mutex_unlock(&cache->lock);
        goes_on = visit_some(&some, visit, user) && some.count > 0;
        for (size_t i = 0; i < some.count; i++) {
            kiln_pin_release(&some.objects[i]);
        }
    }
    return KILN_OK;
}
