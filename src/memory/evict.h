/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which objects the cache admits and which it evicts to make room. Removes objects, flights
 * and failures.
 */
#pragma once

#include "memory/memory.h"
#include "memory/notify.h"

/* Returns true if the cache is off. Every reservation is then a BYPASS. Called with no lock held.
 */
bool kilni_cache_is_off(kiln_cache *cache);

/* Returns true if a flight is allowed to begin for an object of @bytes (0: not known). Under
 * KILN_POLICY_NO_EVICT, there must be room for the object in addition to everything that is
 * resident or reserved. Under the other policies, the cache makes room only after the object
 * exists, so that nothing is evicted for a build that fails. */
bool kilni_may_begin_locked(const kiln_cache *cache, uint64_t bytes);

/* Evicts objects in the order of the policy until there is room for an object of @bytes. Does
 * nothing if there can't be enough room, or under KILN_POLICY_NO_EVICT. Can give up the lock for a
 * while, but not between its last check for room and its return. */
void kilni_make_room_locked(kiln_cache *cache, uint64_t bytes, kilni_followup *followup);

/* Admits a filled object to the cache if there is room for it. */
void kilni_admit_locked(kilni_object *object);

/* Evicts objects in the order of the policy until the cache is within its capacity. Sometimes gives
 * up the lock for a while. */
void kilni_shrink_locked(kiln_cache *cache, kilni_followup *followup);

/* Adds @more_bytes to the size of an object, which the caller must hold. If the cache then exceeds
 * its capacity, evicts other objects, or the object itself. Called with no lock held. */
void kilni_object_grow(kilni_object *object, uint64_t more_bytes);

/* Removes everything. Flights continue, but their results are not kept. Can give up the lock, but
 * only after all flights are detached. Before the call, the caller must have dropped the failures
 * with kilni_failures_drop_locked, so that few are left. */
void kilni_clear_locked(kiln_cache *cache, kilni_followup *followup);

/* Removes a key, whatever its state is. If the key is being built, the flight continues for its
 * owner and its waiters, but the object is not kept. Returns KILN_OK; KILN_MISS: the key is absent.
 */
kiln_status kilni_cache_forget(kiln_cache *cache, const kiln_key *key);

/* Returns true if a slot matches @wanted. The function is called with the cache's lock held. It
 * must not change anything. */
typedef bool (*kilni_match_fn)(uint64_t wanted, const kilni_slot *slot);

/* Removes the objects, flights and failures that match, as kiln_cache_remove_group does for a
 * group. Returns how many objects it removed. */
size_t kilni_cache_remove_matching(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted);
