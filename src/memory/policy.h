/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of an object's use, and what that makes it worth.
 *
 * Recency is counted by the cache's clock, which insertions move on, and evictions to make room. A
 * use is a clock above a frequency, in one word of the object, which is stored only where it
 * changes: an object that is hot is only read, as long as nothing comes or goes.
 */
#pragma once

#include "memory/memory.h"

/* Where frequency saturates: it bounds how long an object that was once hot can stay. */
enum { KILNI_POLICY_FREQUENCY_BITS = 4, KILNI_POLICY_MAX_FREQUENCY = 15 };

/* What a policy of the user's means here: KILN_POLICY_AUTO becomes the one that is chosen. */
kiln_policy kilni_policy_choose(uint32_t policy);

/* Notes an object's insertion. It can't be reached yet. */
void kilni_policy_insert_locked(kilni_object *object);

/* Has those who use objects tell of it, or not. A settled use has no frequency where they do. */
void kilni_policy_tell_hits_locked(kiln_cache *cache, bool tells_hits);

static inline uint64_t kilni_policy_settled_use(const kiln_cache *cache)
{
    return atomic_load_explicit(&cache->settled_use, memory_order_relaxed);
}

static inline bool kilni_policy_tells_hits(const kiln_cache *cache)
{
    return (kilni_policy_settled_use(cache) & KILNI_POLICY_MAX_FREQUENCY) == 0;
}

/* True where a use of an object would change nothing, and nobody is to be told. */
static inline bool kilni_policy_is_settled(const kiln_cache *cache, const kilni_object *object)
{
    return atomic_load_explicit(&object->use, memory_order_relaxed) ==
           kilni_policy_settled_use(cache);
}

/* Notes a use; without the lock. True for the first one since the insertion. */
static inline bool kilni_policy_use(kilni_object *object)
{
    const uint64_t most = KILNI_POLICY_MAX_FREQUENCY;
    uint64_t use = atomic_load_explicit(&object->use, memory_order_relaxed);
    uint64_t frequency = use & most;
    uint64_t clock = kilni_policy_settled_use(object->cache) & ~most;
    uint64_t next = clock | (frequency < most ? frequency + 1 : most);
    if (next != use) {
        atomic_store_explicit(&object->use, next, memory_order_relaxed);
    }
    return frequency == 1;
}

/* The clock, in the unit of kilni_object.inserted. */
static inline uint64_t kilni_policy_clock(const kiln_cache *cache)
{
    return kilni_policy_settled_use(cache) >> KILNI_POLICY_FREQUENCY_BITS;
}

/* GreedyDual-Size-Frequency's H. */
static inline double kilni_policy_merit(const kilni_object *object, uint64_t use)
{
    double size = object->bytes > 0 ? (double)object->bytes : 1.0;
    double frequency = (double)(use & KILNI_POLICY_MAX_FREQUENCY);
    return object->inflation + frequency * ((double)object->cost_ns / size);
}

/* Notes that an object was evicted to make room. */
void kilni_policy_evicted_locked(kilni_object *victim);
