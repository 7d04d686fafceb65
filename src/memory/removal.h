/* SPDX-License-Identifier: Apache-2.0
 *
 * How objects, flights and failures leave the cache.
 */
#pragma once

#include "memory/followup.h"
#include "memory/memory.h"

/* Takes an object out of the cache. Its watches are cleared here, before any notification. */
void kilni_evict_locked(kilni_object *object, kiln_eviction reason, kilni_followup *followup);

/* Removes everything. Flights go on, but their results are not kept. */
void kilni_clear_locked(kiln_cache *cache, kilni_followup *followup);

/* Removes a key in any state. If it is being built, the flight goes on for its owner and its
 * waiters, but the object is not kept. Returns KILN_OK; KILN_MISS: absent. */
kiln_status kilni_cache_forget(kiln_cache *cache, const kiln_key *key);

/* Whether a slot is one of those @wanted. Called with the cache's lock held; it must not change
 * anything. */
typedef bool (*kilni_match_fn)(uint64_t wanted, const kilni_slot *slot);

/* Removes what matches, as kiln_cache_remove_group removes a group. Returns how many were ready. */
size_t kilni_cache_remove_matching(kiln_cache *cache, kilni_match_fn matches, uint64_t wanted);
