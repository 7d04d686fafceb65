/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/admission.h"

#include "memory/object.h"
#include "memory/policy.h"
#include "memory/removal.h"
#include "memory/victim.h"

/* Evicts by policy until no more than this is in the cache. */
static void shrink_to_locked(kiln_cache *cache, uint64_t bytes, uint64_t entries,
                             kilni_aftermath *after)
{
    kilni_victims victims = {.order = KILNI_ORDER_POLICY};
    while (cache->bytes > bytes || cache->entries > entries) {
        kilni_object *victim = kilni_victims_next_locked(cache, &victims);
        kilni_policy_evicted_locked(victim);
        kilni_evict_locked(victim, KILN_EVICTED_CAPACITY, after);
    }
}

void kilni_shrink_locked(kiln_cache *cache, kilni_aftermath *after)
{
    shrink_to_locked(cache, cache->max_bytes, cache->max_entries, after);
}

void kilni_readmit_locked(kilni_object *object, kilni_aftermath *after)
{
    kiln_cache *cache = object->cache;
    if (cache->policy == KILN_POLICY_NO_EVICT) {
        return;
    }
    if (object->bytes > cache->max_bytes) {
        kilni_evict_locked(object, KILN_EVICTED_CAPACITY, after);
    }
    kilni_shrink_locked(cache, after);
}

/* Room beside what is resident and what flights have reserved. */
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

void kilni_admit_locked(kilni_object *object, kilni_aftermath *after)
{
    kiln_cache *cache = object->cache;
    bool fits = cache->policy == KILN_POLICY_NO_EVICT ? has_free_room(cache, object->bytes)
                                                      : object->bytes <= cache->max_bytes;
    if (!fits) {
        return;
    }
    if (cache->policy != KILN_POLICY_NO_EVICT) {
        shrink_to_locked(cache, cache->max_bytes - object->bytes, cache->max_entries - 1, after);
    }
    object->slot.state = KILNI_SLOT_READY;
    cache->lingering_entries--;
    cache->lingering_bytes -= object->bytes;
    cache->entries++;
    cache->bytes += object->bytes;
    kilni_policy_insert_locked(object);
    kilni_object_hold(object);
    kilni_groups_add(&cache->groups, object);
    kilni_table_insert(&cache->ready, &object->slot);
}
