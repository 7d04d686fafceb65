/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call still has to do once it has given up the lock: notify the listeners, release its
 * holds, and destroy objects. The call begins with a zeroed structure, fills it while it holds the
 * lock, and finishes it afterwards.
 */
#pragma once

#include "memory/departure.h"
#include "memory/memory.h"

typedef struct kilni_followup {
    kilni_departure departure; /* of the objects below */
    kilni_queue evicted;       /* objects whose eviction is to be reported, each with a hold */
    kiln_eviction reason;
    kilni_object *object; /* with a hold, or NULL */
    uint32_t event;       /* of that object: KILN_EVENT_INSERTED, KILN_EVENT_HIT, or 0 */
    bool cleared;
    uint64_t last_listener; /* listeners added after this one are not notified */
} kilni_followup;

/* Keeps the caller's hold on an object until the end of the call. Reports @event for the object
 * unless @event is 0. */
void kilni_followup_keep_locked(kilni_followup *followup, kilni_object *object, uint32_t event);

/* Reports a use of an object if this use is one to report: the first use, then one in so many of
 * the thread's. The object must be held or be visible in a section. No lock held. */
void kilni_followup_report_hit(kilni_object *object, bool first);

/* Takes over the cache's hold on an object that was removed. All evictions of one call have the
 * same reason. */
void kilni_followup_add_evicted_locked(kilni_followup *followup, kilni_object *object,
                                       kiln_eviction reason);

/* Has the clearing of the cache reported, after the evictions. */
void kilni_followup_add_cleared_locked(kilni_followup *followup, kiln_cache *cache);

/* Notifies, releases and destroys. No lock held. */
void kilni_followup_finish(kiln_cache *cache, kilni_followup *followup);
