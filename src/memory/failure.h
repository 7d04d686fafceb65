/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that are kept: flights that stay in the table of flights, listed in the order in which
 * they failed. They may use a sixteenth of the cache's bounds, in addition to the objects. The
 * oldest are dropped first.
 */
#pragma once

#include "memory/memory.h"

/* Keeps a flight that failed and that is no longer in a table. Drops older failures if there are
 * too many. */
void kilni_failure_keep_locked(kilni_flight *flight);

/* Drops a failure that is kept. */
void kilni_failure_drop_locked(kilni_flight *failure);

/* Drops a key's failure if one is kept, but nothing that came since. No lock held. */
void kilni_failure_forget(kiln_cache *cache, const kiln_key *key);

/* Drops the oldest failures until the cache's capacity allows those that are left. */
void kilni_failures_shrink_locked(kiln_cache *cache);

/* Drops all failures. */
void kilni_failures_drop_all_locked(kiln_cache *cache);
