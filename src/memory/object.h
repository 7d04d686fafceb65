/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects and the holds on them: the cache's own, pins, and notifications under way. An object that
 * nothing holds is retired, and destroyed as soon as no section can see it.
 */
#pragma once

#include "memory/memory.h"

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

/* Puts the user's object in its place. It lingers until it is admitted or nothing holds it. */
void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns);

/* The same, without the lock held, for an object that is one caller's alone. The place's own hold
 * is the pin. */
void kilni_object_fill_alone(kilni_object *object, void *user_object, uint64_t bytes,
                             uint64_t cost_ns);

/* Adds to the bytes that an object occupies, which must be held. Other objects may be evicted for
 * it, or the object itself. No lock held. */
void kilni_object_grow(kilni_object *object, uint64_t more_bytes);

/* Adds a hold to an object that is held, or that is in the cache while the lock is held. */
static inline void kilni_object_hold(kilni_object *object)
{
    atomic_fetch_add_explicit(&object->holds, 1, memory_order_relaxed);
}

/* Adds a hold to an object that a section sees. Returns false if it was retired meanwhile. */
static inline bool kilni_object_try_hold(kilni_object *object)
{
    size_t holds = atomic_load_explicit(&object->holds, memory_order_relaxed);
    while (holds > 0) {
        if (atomic_compare_exchange_weak_explicit(&object->holds, &holds, holds + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* Releases a hold. The last one retires the object. */
void kilni_object_release_locked(kilni_object *object);

/* Whether anything other than the cache holds an object in it. A pin that is taken meanwhile may be
 * missed. */
static inline bool kilni_object_is_pinned(const kilni_object *object)
{
    return atomic_load_explicit(&object->holds, memory_order_relaxed) > 1;
}

/* Returns a pin on the object of a key that is ready, counted as a hit and as a use; otherwise
 * NULL. Without the lock. */
kilni_object *kilni_object_pin(kiln_cache *cache, const kiln_key *key);

/* Counts a hit on an object that is pinned, and the use. No lock held. */
void kilni_object_note_hit(kilni_object *object);

/* Notes a use of an object, and reports it if a listener wants hits. No lock held. */
void kilni_object_note_use(kilni_object *object);

/* Destroys a queue of objects that nothing can reach any longer. No lock held. */
void kilni_object_destroy_all(kilni_queue *doomed);

void kilni_queue_push(kilni_queue *queue, kilni_object *object);

/* Returns NULL if the queue is empty. */
kilni_object *kilni_queue_pop(kilni_queue *queue);
