/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that are kept, so that later callers get them instead of building again. They stay in
 * the table of flights, and are also linked in the order in which they failed. They may use a
 * sixteenth of the cache's capacity, in addition to what the objects use. The oldest failures are
 * dropped first.
 */
#pragma once

#include "memory/memory.h"

/* Keeps a flight that failed and that is no longer in a table. Drops older failures if there are
 * too many. May give up the lock meanwhile, and another thread may then drop this flight too. */
void kilni_failure_keep_locked(kilni_flight *flight);

/* Drops a failure that is kept. */
void kilni_failure_drop_locked(kilni_flight *failure);

/* Drops a key's failure if one is kept. Does not remove an object or a flight of the key. Called
 * with no lock held. */
void kilni_failure_forget(kiln_cache *cache, const kiln_key *key);

/* Drops the oldest failures until the others fit in their share of the cache's capacity. May give
 * up the lock meanwhile. */
void kilni_failures_shrink_locked(kiln_cache *cache);

/* Drops @count failures, the oldest first, or all if there are fewer. Gives up the lock meanwhile.
 */
void kilni_failures_drop_locked(kiln_cache *cache, uint64_t count);
