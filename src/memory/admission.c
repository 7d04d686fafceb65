/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/admission.h"

#include "memory/object.h"
#include "memory/policy.h"
#include "memory/removal.h"
#include "memory/victim.h"

/* Whether the capacity has room for this many more bytes and entries. */
static bool has_room_for(const kiln_cache *cache, uint64_t bytes, uint64_t entries)
{
    return cache->bytes <= cache->max_bytes && bytes <= cache->max_bytes - cache->bytes &&
           cache->entries <= cache->max_entries && entries <= cache->max_entries - cache->entries;
}

/* The capacity may change whenever the lock is given up. */
static void make_room_locked(kiln_cache *cache, uint64_t bytes, uint64_t entries,
                             kilni_followup *followup)
{
    size_t step = 0;
    while (cache->entries > 0 && bytes <= cache->max_bytes && entries <= cache->max_entries &&
           !has_room_for(cache, bytes, entries)) {
        kilni_object *victim = kilni_victim_choose_locked(cache, KILNI_ORDER_POLICY, step);
        kilni_policy_evicted_locked(victim);
        kilni_evict_locked(victim, KILN_EVICTED_CAPACITY, followup);
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

void kilni_readmit_locked(kilni_object *object, kilni_followup *followup)
{
    kiln_cache *cache = object->cache;
    if (cache->policy == KILN_POLICY_NO_EVICT) {
        return;
    }
    if (object->bytes > cache->max_bytes) {
        kilni_evict_locked(object, KILN_EVICTED_CAPACITY, followup);
    }
    kilni_shrink_locked(cache, followup);
}

/* Whether there is room beside what is resident and what flights have reserved. */
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
    if (!fits) {
        return;
    }
    object->slot.state = KILNI_SLOT_READY;
    object->slot.was_visible = true;
    cache->lingering_entries--;
    cache->lingering_bytes -= object->bytes;
    cache->entries++;
    cache->bytes += object->bytes;
    kilni_policy_insert_locked(object);
    kilni_object_hold(object);
    kilni_groups_add(&cache->groups, object);
    kilni_residents_add(&cache->residents, object);
    kilni_victim_consider_locked(object);
    kilni_table_insert(&cache->ready, &object->slot);
}
