/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of an object's use, and what that makes it worth.
 *
 * A use changes one word of the object, and only where that says something new: so much used
 * already, and since the cache's clock went on. An object that is hot is thus only read, as long as
 * nothing comes or goes.
 */
#pragma once

#include "memory/memory.h"

/* Where frequency saturates: it bounds how long an object that was once hot can stay. */
enum { KILNI_POLICY_FREQUENCY_BITS = 4, KILNI_POLICY_MAX_FREQUENCY = 15 };

/* What a policy of the user's means here: KILN_POLICY_AUTO becomes the one that is chosen. */
kiln_policy kilni_policy_choose(uint32_t policy);

/* Notes an object's insertion. It can't be reached yet. */
void kilni_policy_insert_locked(kilni_object *object);

/* Notes a use; without the lock. True for the first one since the insertion. */
static inline bool kilni_policy_use(kilni_object *object)
{
    uint64_t use = atomic_load_explicit(&object->use, memory_order_relaxed);
    uint64_t frequency = use & KILNI_POLICY_MAX_FREQUENCY;
    uint64_t clock = atomic_load_explicit(&object->cache->clock, memory_order_relaxed);
    uint64_t next = clock << KILNI_POLICY_FREQUENCY_BITS |
                    (frequency < KILNI_POLICY_MAX_FREQUENCY ? frequency + 1 : frequency);
    if (next != use) {
        atomic_store_explicit(&object->use, next, memory_order_relaxed);
    }
    return frequency == 1;
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
