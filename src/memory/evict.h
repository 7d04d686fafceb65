/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which objects the cache admits and which it evicts to make room. Removes objects, flights
 * and failures.
 */
#pragma once

#include "memory/memory.h"
#include "memory/notify.h"

/* Whether the cache is off, so that every reservation is a BYPASS. Called with no lock held. */
bool kilni_cache_is_off(kiln_cache *cache);

/* Whether a flight may begin for an object of @bytes (0: not known). Under KILN_POLICY_NO_EVICT,
 * there must be room for the object in addition to everything that is resident or reserved. Under
 * the other policies, room is made once the object exists, so that a build that fails evicts
 * nothing. */
bool kilni_may_begin_locked(const kiln_cache *cache, uint64_t bytes);

/* Evicts by policy until there is room for an object of @bytes. Does nothing if that is impossible,
 * or under KILN_POLICY_NO_EVICT. May give up the lock for a while, but not between its last check
 * for room and its return. */
void kilni_make_room_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup);

/* Admits a filled object to the cache if there is room for it. */
void kilni_admit_locked(kilni_object *object);

/* Evicts by policy until the cache is within its capacity. May give up the lock for a while. */
void kilni_shrink_locked(kiln_cache *cache, kilni_followup *followup);

/* Adds @more_bytes to the size of an object, which the caller must hold. May evict other objects,
 * or the object itself. Called with no lock held. */
void kilni_object_grow(kilni_object *object, uint64_t more_bytes);

/* Removes everything. Flights continue, but their results are not kept. May give up the lock, but
 * not before all flights are detached. The caller must have dropped the failures with
 * kilni_failures_drop_locked, so that few are left. */
void kilni_clear_locked(kiln_cache *cache, kilni_followup *followup);

/* Removes a key in any state. If it is being built, the flight continues for its owner and its
 * waiters, but the object is not kept. Returns KILN_OK; KILN_MISS: the key is absent. */
kiln_status kilni_cache_forget(kiln_cache *cache, const kiln_key *key);

/* Returns whether a slot matches @wanted. Called with the cache's lock held, and must not change
 * anything. */
typedef bool (*kilni_match_fn)(uint64_t wanted, const kilni_slot *slot);

/* Removes the objects, flights and failures that match, as kiln_cache_remove_group does for a
 * group. Returns how many objects it removed. */
size_t kilni_cache_remove_matching(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted);
