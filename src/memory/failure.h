/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that are kept: flights that stay in the table of those, in the order in which they
 * failed. They have a sixteenth of the cache's bounds, beside the objects, and the oldest go first.
 */
#pragma once

#include "memory/memory.h"

/* Keeps a flight that failed, and that is in no table any more; older ones go where there are too
 * many. */
void kilni_failure_keep_locked(kilni_flight *flight);

/* Drops a failure that is kept. */
void kilni_failure_drop_locked(kilni_flight *failure);

/* Drops what is kept of a key's failure, and nothing that came since. No lock held. */
void kilni_failure_forget(kiln_cache *cache, const kiln_key *key);

/* Drops the oldest ones until no more are kept than the cache's capacity lets. */
void kilni_failures_shrink_locked(kiln_cache *cache);

/* Drops them all. */
void kilni_failures_drop_all_locked(kiln_cache *cache);
