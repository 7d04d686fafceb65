/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call has to do once it holds no lock: tell the listeners, let go, destroy. A call begins
 * with a zeroed one, fills it under the lock, and finishes it after.
 */
#pragma once

#include "memory/departure.h"
#include "memory/memory.h"

typedef struct kilni_aftermath {
    kilni_departure departure; /* of the objects below */
    kilni_queue evicted;       /* those that a listener is told of, each with a hold */
    kiln_eviction reason;
    kilni_object *object; /* with a hold, or NULL */
    uint32_t event;       /* of that object: KILN_EVENT_INSERTED, KILN_EVENT_HIT, or 0 */
    bool cleared;
    uint64_t last_listener; /* who came later is not told */
} kilni_aftermath;

/* Keeps a hold on an object, which the caller made, until the end of the call; tells of @event
 * unless it is 0. */
void kilni_aftermath_keep_locked(kilni_aftermath *after, kilni_object *object, uint32_t event);

/* Tells of a use of an object where it is its turn: the first use, then one in some of the
 * thread's. For one that is held or seen in a section. No lock held. */
void kilni_aftermath_tell_hit(kilni_object *object, bool first);

/* Takes an object that was removed, with the cache's hold on it; one call has one reason for all.
 */
void kilni_aftermath_evict_locked(kilni_aftermath *after, kilni_object *object,
                                  kiln_eviction reason);

/* Tells that the cache was cleared, after what was evicted. */
void kilni_aftermath_clear_locked(kilni_aftermath *after, kiln_cache *cache);

/* No lock held. */
void kilni_aftermath_finish(kiln_cache *cache, kilni_aftermath *after);
