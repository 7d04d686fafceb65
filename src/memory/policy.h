/* SPDX-License-Identifier: Apache-2.0
 *
 * Which object goes first.
 */
#pragma once

#include "memory/memory.h"

/* What a policy of the user's means here: KILN_POLICY_AUTO becomes the one that is chosen. */
kiln_policy kilni_policy_choose(uint32_t policy);

/* Notes an object's insertion, or a use of it. */
void kilni_policy_insert_locked(kilni_object *object);
void kilni_policy_use_locked(kilni_object *object);

/* What is to make room next: of the unpinned objects, then of the pinned ones. The cache has some.
 * Under KILN_POLICY_NO_EVICT, where only a smaller capacity asks, the newest: it would not
 * have been let in. */
kilni_object *kilni_policy_victim_locked(const kiln_cache *cache);

/* Notes that an object was evicted to make room. */
void kilni_policy_evicted_locked(const kilni_object *victim);

/* The unpinned object that costs least to rebuild; NULL where all are pinned. */
kilni_object *kilni_policy_cheapest_locked(const kiln_cache *cache);
