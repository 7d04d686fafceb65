/* SPDX-License-Identifier: Apache-2.0
 *
 * How long caches and objects exist: the list of all caches, references to a cache, objects, and
 * the holds on objects (the cache's own, pins, and notifications under way).
 */
#pragma once

#include "memory/memory.h"

/* Called after each step by a call that holds the lock for many steps. After every KILNI_STEPS
 * steps, lets threads that wait for the lock have it, and takes it again. */
void kilni_cache_step_locked(kiln_cache *cache, size_t *step);

/* Locks the list of all caches until kilni_caches_unlock. Returns the first cache; the others are
 * linked by kiln_cache.next. Called with no lock held. */
kiln_cache *kilni_caches_lock(void);
void kilni_caches_unlock(void);

/* Adds a cache to the list, where it stays until its last reference is released. */
void kilni_caches_add(kiln_cache *cache);

/* Adds a reference. Returns its argument. */
kiln_cache *kilni_cache_retain(kiln_cache *cache);

/* Adds a reference unless the last one has been released. Returns whether it did. The cache must
 * not be freed during the call. */
bool kilni_cache_try_retain(kiln_cache *cache);

/* Releases a reference. The release of the last one frees the cache. Called with no lock held. */
void kilni_cache_release(kiln_cache *cache);

void kilni_cells_free(kilni_cells *cells);

/* Makes a place for an object, with one hold.
 *
 * @key    NULL if the object will be one caller's alone
 * @group  0: the object can never have a group
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object);

/* Frees a place that never got its object, or whose object was destroyed. The lock may be held only
 * if the cache has another reference. */
void kilni_object_free(kilni_object *object);

/* Puts the user's object in its place. The object lingers until it is admitted to the cache or
 * nothing holds it. */
void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns);

/* As kilni_object_fill_locked, but called with no lock held, for an object that is one caller's
 * alone. The hold with which the place was made is the caller's pin. */
void kilni_object_fill_alone(kilni_object *object, void *user_object, uint64_t bytes,
                             uint64_t cost_ns);

/* Adds a hold to an object that something holds already; with the lock held, also to an object in
 * the cache; in a section, also to an object that was shared when the section saw it. */
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

/* Whether a pin, or a notification under way, holds an object in the cache. A pin that is taken or
 * released meanwhile may be missed. If the object is shared, looks at all threads' tallies. */
bool kilni_object_is_pinned(const kilni_object *object);

/* Whether the user's is_busy function reports that an object in the cache is in use. */
bool kilni_object_is_busy_locked(const kilni_object *object);

/* Whether an object in the cache is in use: it is pinned, or the user's is_busy function reports
 * it. */
bool kilni_object_is_used_locked(const kilni_object *object);

/* Destroys a queue of objects that nothing can reach any longer. Called with no lock held. */
void kilni_object_destroy_all(kilni_queue *doomed);

void kilni_queue_push(kilni_queue *queue, kilni_object *object);

/* Removes the first object and returns it; returns NULL if the queue is empty. */
kilni_object *kilni_queue_pop(kilni_queue *queue);
