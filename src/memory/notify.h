/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners, which are notified of what happens in a cache, and followups. A followup contains what
 * a call still has to do once it has given up the lock: notify the listeners, release its holds,
 * and destroy objects. The call begins with a zeroed followup, fills it while it holds the lock,
 * and finishes it afterwards.
 */
#pragma once

#include "memory/memory.h"
#include "memory/read_section.h"

typedef struct kilni_followup {
    kilni_departure departure; /* of the objects below */
    kilni_queue evicted;       /* objects whose eviction is to be reported, each with a hold */
    kiln_eviction reason;
    kilni_object *object; /* with a hold, or NULL */
    uint32_t event;       /* of that object: KILN_EVENT_INSERTED, KILN_EVENT_HIT, or 0 */
    bool cleared;
    uint64_t last_listener; /* listeners added after this one are not notified */
} kilni_followup;

/* Takes over the caller's hold on an object. When the followup is finished, reports @event for the
 * object, unless @event is 0, and then releases the hold. */
void kilni_followup_keep_locked(kilni_followup *followup, kilni_object *object, uint32_t event);

/* Reports a use of an object if it is the object's first use, or if it belongs to the sample of
 * this thread's uses that is reported. The object must be held or be visible in a section. Called
 * with no lock held. */
void kilni_followup_report_hit(kilni_object *object, bool first);

/* Takes over the cache's hold on an object that was removed, and reports the eviction. All
 * evictions of one call have the same reason. */
void kilni_followup_add_evicted_locked(kilni_followup *followup, kilni_object *object,
                                       kiln_eviction reason);

/* Reports the clearing of the cache, after the evictions. */
void kilni_followup_add_cleared_locked(kilni_followup *followup, kiln_cache *cache);

/* Notifies the listeners, releases the holds, and destroys objects. Called with no lock held. */
void kilni_followup_finish(kiln_cache *cache, kilni_followup *followup);

/* Adds a listener as kiln_cache_listen does. @user must have been allocated with malloc, and is
 * freed with the listener. If the call fails, @user still belongs to the caller. */
kiln_status kilni_cache_listen_owning(kiln_cache *cache, uint32_t events, kiln_listener_fn listener,
                                      void *user, uint64_t *ret_id);

/* Removes a listener as kiln_cache_unlisten does, but does not wait inside a listener of @beside
 * either, so that listeners of the two caches may remove each other. @beside may be NULL. */
void kilni_cache_unlisten(kiln_cache *cache, uint64_t id, const kiln_cache *beside);

/* Frees all listeners. None of them may be running on another thread. */
void kilni_listeners_free(kiln_cache *cache);

/* In a forked child: forgets the calls of listeners on the parent's other threads. */
void kilni_listeners_forget_threads_locked(kiln_cache *cache);
