/* SPDX-License-Identifier: Apache-2.0
 *
 * The policies, and the records of the objects' uses. The policies use these records to rank
 * objects (victim.h).
 *
 * Recency is measured by the cache's clock. Each insertion advances the clock, and so does each
 * eviction that raises GreedyDual's L. An object's use is one word. Its high bits are the clock at
 * the last use, and its low bits are the frequency. A thread stores the word only if the word
 * changes. So threads that use an object often only read it, as long as nothing is inserted or
 * evicted.
 */
#pragma once

#include "memory/memory.h"

/* The frequency saturates. This limits how long an object can stay if it was once used often, but
 * is no longer used. */
enum { KILNI_POLICY_FREQUENCY_BITS = 4, KILNI_POLICY_MAX_FREQUENCY = 15 };

/* Returns the policy to use for a user's choice. For KILN_POLICY_AUTO, this is the policy that Kiln
 * chooses. */
kiln_policy kilni_policy_choose(uint32_t policy);

/* Records an object's insertion. Other threads can't reach the object yet. */
void kilni_policy_insert_locked(kilni_object *object);

/* Sets whether the threads that use objects report hits. If they do, the frequency in
 * kiln_cache.settled_use is 0. */
void kilni_policy_report_hits_locked(kiln_cache *cache, bool reports_hits);

static inline uint64_t kilni_policy_settled_use(const kiln_cache *cache)
{
    return atomic_load_explicit(&cache->settled_use, memory_order_relaxed);
}

static inline bool kilni_policy_reports_hits(const kiln_cache *cache)
{
    return (kilni_policy_settled_use(cache) & KILNI_POLICY_MAX_FREQUENCY) == 0;
}

/* Returns true if a use of an object would change nothing and need not be reported. */
static inline bool kilni_policy_is_settled(const kiln_cache *cache, const kilni_object *object)
{
    return atomic_load_explicit(&object->use, memory_order_relaxed) ==
           kilni_policy_settled_use(cache);
}

/* Records a use of an object. The caller need not hold the lock. Returns true if this is the first
 * use since the insertion. */
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

/* Returns the clock, in the unit of kilni_object.inserted. */
static inline uint64_t kilni_policy_clock(const kiln_cache *cache)
{
    return kilni_policy_settled_use(cache) >> KILNI_POLICY_FREQUENCY_BITS;
}

/* Returns the bits of a use that kilni_object.seen_use keeps. */
static inline uint16_t kilni_policy_seen_bits(uint64_t use)
{
    return (uint16_t)(use >> KILNI_POLICY_FREQUENCY_BITS);
}

/* Returns the value H of GreedyDual-Size-Frequency for an object whose use is @use. */
static inline double kilni_policy_merit(const kilni_object *object, uint64_t use)
{
    double size = object->bytes > 0 ? (double)object->bytes : 1.0;
    double frequency = (double)(use & KILNI_POLICY_MAX_FREQUENCY);
    return object->inflation + frequency * ((double)object->cost_ns / size);
}

/* Records that an object was evicted to make room. */
void kilni_policy_evicted_locked(kilni_object *victim);
