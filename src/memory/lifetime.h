/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines how long caches and objects exist. The functions below manage the list of all caches,
 * references to caches, objects, and holds on objects. A hold is the cache's own, a pin, or a
 * notification under way.
 */
#pragma once

#include "memory/memory.h"

/* Called after each step of work for which a thread holds the lock over many steps. After every
 * KILNI_STEPS steps, gives up the lock so that waiting threads can take it, and then takes it
 * again. */
void kilni_cache_step_locked(kiln_cache *cache, size_t *step);

/* Locks the list of all caches until kilni_caches_unlock is called. Returns the first cache; the
 * others are linked by kiln_cache.next. Called with no lock held. */
kiln_cache *kilni_caches_lock(void);
void kilni_caches_unlock(void);

/* Adds a cache to the list, where it stays until its last reference is released. */
void kilni_caches_add(kiln_cache *cache);

/* Adds a reference to a cache. Returns @cache. */
kiln_cache *kilni_cache_retain(kiln_cache *cache);

/* Adds a reference, unless the last reference has been released. Returns true if it added one. The
 * cache must not be freed during the call. */
bool kilni_cache_try_retain(kiln_cache *cache);

/* Releases a reference. Frees the cache if this was the last reference. Called with no lock held.
 */
void kilni_cache_release(kiln_cache *cache);

void kilni_cells_free(kilni_cells *cells);

/* Makes a place for an object, with one hold.
 *
 * @key    NULL if the object will belong to one caller alone
 * @group  0: the object can never have a group
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object);

/* Frees a place that never got its object, or whose object was destroyed. If the caller holds the
 * lock, the cache must have at least one other reference. */
void kilni_object_free(kilni_object *object);

/* Puts the user's object into the place. The object lingers until the cache admits it or nothing
 * holds it. */
void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns);

/* Does the same as kilni_object_fill_locked, but is called with no lock held, for an object that
 * belongs to one caller alone. The hold with which the place was made becomes the caller's pin. */
void kilni_object_fill_alone(kilni_object *object, void *user_object, uint64_t bytes,
                             uint64_t cost_ns);

/* Adds a hold to an object. The object must already have a hold, with two exceptions: a caller that
 * holds the lock can hold any object in the cache, and a caller in a section can hold any object
 * that was shared when the section saw it. */
static inline void kilni_object_hold(kilni_object *object)
{
    atomic_fetch_add_explicit(&object->holds, 1, memory_order_relaxed);
}

/* Releases a hold. Returns true if it was the last one. In that case, the caller must retire the
 * object, which exists until then. */
static inline bool kilni_object_drop_hold(kilni_object *object)
{
    return atomic_fetch_sub_explicit(&object->holds, 1, memory_order_acq_rel) == 1;
}

/* Returns true if a pin, or a notification under way, holds an object that is in the cache. The
 * result might not reflect a pin that is taken or released during the call. If the object is
 * shared, the call looks at all threads' tallies. */
bool kilni_object_is_pinned(const kilni_object *object);

/* Returns true if the user's is_busy function reports that an object in the cache is in use. */
bool kilni_object_is_busy_locked(const kilni_object *object);

/* Returns true if an object in the cache is in use: it is pinned, or the user's is_busy function
 * reports that it is in use. */
bool kilni_object_is_used_locked(const kilni_object *object);

/* Destroys all objects in a queue. Nothing must be able to reach them any longer. Called with no
 * lock held. */
void kilni_object_destroy_all(kilni_queue *doomed);

void kilni_queue_push(kilni_queue *queue, kilni_object *object);

/* Removes the first object and returns it; returns NULL if the queue is empty. */
kilni_object *kilni_queue_pop(kilni_queue *queue);
