/* SPDX-License-Identifier: Apache-2.0
 *
 * Kept failures. Later callers get a kept failure instead of building the key again. Kept failures
 * stay in the table of flights, and are also linked in the order in which the flights failed. They
 * can use up to a sixteenth of the cache's capacity, in addition to what the objects use. The
 * oldest failures are dropped first.
 */
#pragma once

#include "memory/memory.h"

/* Keeps a flight that failed and that is no longer in a table. Drops older failures if there are
 * too many. Sometimes gives up the lock for a while. During that time, another thread might drop
 * this flight too. */
void kilni_failure_keep_locked(kilni_flight *flight);

/* Drops a failure that is kept. */
void kilni_failure_drop_locked(kilni_flight *failure);

/* Drops a key's failure if one is kept. Does not remove an object or a flight of the key. Called
 * with no lock held. */
void kilni_failure_forget(kiln_cache *cache, const kiln_key *key);

/* Drops the oldest failures until the others fit in their share of the cache's capacity. Sometimes
 * gives up the lock for a while. */
void kilni_failures_shrink_locked(kiln_cache *cache);

/* Drops @count failures, the oldest first, or all failures if there are fewer. Gives up the lock
 * for a while. */
void kilni_failures_drop_locked(kiln_cache *cache, uint64_t count);
