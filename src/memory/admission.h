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

/* Takes a filled object into the cache where there is, or can be made, room for it. */
void kilni_admit_locked(kilni_object *object, kilni_aftermath *after);

/* Makes room for an object in the cache that has grown: others go for it, or where it alone has
 * become too large it goes itself, and no other. Under KILN_POLICY_NO_EVICT nothing goes. */
void kilni_readmit_locked(kilni_object *object, kilni_aftermath *after);

/* Evicts by policy until the cache is within its capacity. */
void kilni_shrink_locked(kiln_cache *cache, kilni_aftermath *after);
