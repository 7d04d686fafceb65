/* SPDX-License-Identifier: Apache-2.0
 *
 * Hits. These functions find an object without the lock, hold it, and record its use.
 */
#pragma once

#include "memory/memory.h"

/* Returns a pin on the object of a key, and counts a hit and a use. Returns NULL if the object is
 * not in the cache. Does not take the lock. */
kilni_object *kilni_object_pin(kiln_cache *cache, const kiln_key *key);

/* Counts a hit and a use of an object that is pinned. Called with no lock held. */
void kilni_object_note_hit(kilni_object *object);
