/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners and followups. Listeners are notified of what happens in a cache. A followup records
 * what a call still has to do at its end: notify the listeners, release holds, and destroy objects.
 * The call begins with a zeroed followup, fills the followup while it holds the lock, and then
 * finishes it, which gives up the lock.
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

/* Takes over the caller's hold on an object. kilni_followup_finish_and_unlock then reports
 * @event for the object, unless @event is 0, and releases the hold. */
void kilni_followup_keep_locked(kilni_followup *followup, kilni_object *object, uint32_t event);

/* Reports a use of an object to the listeners if it is the object's first use. Of a thread's other
 * uses, only a sample is reported. The caller must hold the object or be in a section that sees it.
 * Called with no lock held. */
void kilni_followup_report_hit(kilni_object *object, bool first);

/* Takes over the cache's hold on an object that was removed. kilni_followup_finish_and_unlock then
 * reports the eviction. All evictions of one call have the same reason. */
void kilni_followup_add_evicted_locked(kilni_followup *followup, kilni_object *object,
                                       kiln_eviction reason);

/* Makes kilni_followup_finish_and_unlock report, after the evictions, that the cache was cleared.
 */
void kilni_followup_add_cleared_locked(kilni_followup *followup, kiln_cache *cache);

/* Gives up the lock, notifies the listeners, releases the holds, and destroys objects. */
void kilni_followup_finish_and_unlock(kiln_cache *cache, kilni_followup *followup);

/* Adds a listener as kiln_cache_listen does. @user must have been allocated with malloc, and is
 * freed with the listener. If the call fails, @user still belongs to the caller. */
kiln_status kilni_cache_listen_owning(kiln_cache *cache, uint32_t events, kiln_listener_fn listener,
                                      void *user, uint64_t *ret_id);

/* Removes a listener as kiln_cache_unlisten does. Does not wait if it is called inside a listener
 * of @cache or of @beside, so that listeners of the two caches can remove each other. @beside can
 * be NULL. */
void kilni_cache_unlisten(kiln_cache *cache, uint64_t id, const kiln_cache *beside);

/* Frees all listeners. No other thread must be inside one of them. */
void kilni_listeners_free(kiln_cache *cache);

/* Called in a forked child. Forgets the calls of listeners by the parent's other threads. */
void kilni_listeners_forget_threads_locked(kiln_cache *cache);
