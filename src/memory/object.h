/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects and the holds on them: the cache's own, pins, and notices under way. One that nothing
 * holds is retired, and destroyed as soon as no section can see it.
 */
#pragma once

#include "memory/memory.h"

/* Makes a place for an object.
 *
 * @key  NULL where the object will be one caller's alone
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_object_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_object **ret_object);

/* Frees a place that never got its object, or whose object was destroyed. No lock held. */
void kilni_object_free(kilni_object *object);

/* Puts the user's object in its place; it lingers, until it is admitted or nothing holds it. */
void kilni_object_fill_locked(kilni_object *object, void *user_object, uint64_t bytes,
                              uint64_t cost_ns);

/* Retires an object that nothing holds any more. To be called after each hold that goes. */
void kilni_object_settle_locked(kilni_object *object);

/* Destroys a queue of objects that kilni_section_collect_locked gave. No lock held. */
void kilni_object_destroy_all(kilni_queue doomed);

void kilni_queue_push(kilni_queue *queue, kilni_object *object);

/* NULL where it is empty. */
kilni_object *kilni_queue_pop(kilni_queue *queue);
