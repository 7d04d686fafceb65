/* SPDX-License-Identifier: Apache-2.0
 *
 * Who gets in, and who has to go for it.
 */
#pragma once

#include "memory/aftermath.h"
#include "memory/memory.h"

/* Whether a flight may begin for an object of @bytes (0: not known). Under KILN_POLICY_NO_EVICT
 * there must be room for it beside all that is resident or reserved; under the others room is made
 * once the object is there, so that a build that fails costs no other object its place. */
bool kilni_may_begin_locked(const kiln_cache *cache, uint64_t bytes);

/* Evicts by policy until there is room for an object of @bytes. Does nothing if that cannot be, or
 * under KILN_POLICY_NO_EVICT. May give the lock up meanwhile, but not at the end. */
void kilni_make_room_locked(kiln_cache *cache, uint64_t bytes, kilni_aftermath *after);

/* Takes a filled object into the cache if there is room for it. */
void kilni_admit_locked(kilni_object *object);

/* Makes room for an object in the cache that has grown: others go for it, or where it alone has
 * become too large it goes itself, and no other. Under KILN_POLICY_NO_EVICT nothing goes. May give
 * the lock up meanwhile. */
void kilni_readmit_locked(kilni_object *object, kilni_aftermath *after);

/* Evicts by policy until the cache is within its capacity. May give the lock up meanwhile. */
void kilni_shrink_locked(kiln_cache *cache, kilni_aftermath *after);
