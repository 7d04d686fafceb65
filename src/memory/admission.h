/* SPDX-License-Identifier: Apache-2.0
 *
 * Which objects the cache admits, and which it evicts for them.
 */
#pragma once

#include "memory/followup.h"
#include "memory/memory.h"

/* Whether a flight may begin for an object of @bytes (0: not known). Under KILN_POLICY_NO_EVICT
 * there must be room for the object beside all that is resident or reserved. Under the other
 * policies, room is made once the object exists, so that a build that fails evicts nothing. */
bool kilni_may_begin_locked(const kiln_cache *cache, uint64_t bytes);

/* Evicts by policy until there is room for an object of @bytes. Does nothing if that is impossible,
 * or under KILN_POLICY_NO_EVICT. May give up the lock for a while, but not after it last checked
 * for room. */
void kilni_make_room_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup);

/* Admits a filled object to the cache if there is room for it. */
void kilni_admit_locked(kilni_object *object);

/* Makes room for an object in the cache that has grown, by evicting others. If the object alone
 * exceeds the capacity, evicts it and no other. Under KILN_POLICY_NO_EVICT nothing is evicted. May
 * give up the lock for a while. */
void kilni_readmit_locked(kilni_object *object, kilni_followup *followup);

/* Evicts by policy until the cache is within its capacity. May give up the lock for a while. */
void kilni_shrink_locked(kiln_cache *cache, kilni_followup *followup);
