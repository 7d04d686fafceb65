/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of drivers that have been replaced. An entry's key has the name of its platform, and the
 * driver's files with their identities. If a platform of that name is installed here, but its
 * library or the files that its compiler loads have changed, no build here will ask for the entry
 * again.
 *
 * If no such platform is installed here, nothing can be concluded: a different program, or a
 * container that shares the cache, may have that platform. The same holds if the time of the
 * driver's installation is not known, or if the entry may have been used after it: the recorded
 * time of its last use can be an hour too early. Programs that only read the cache record no uses.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "entry_filter.h"

typedef struct stale_count {
    uint64_t stale, stale_bytes; /* sizes of the files */
    uint64_t unknown;            /* entries whose driver may or may not be installed */
} stale_count;

/* Reads all entries that the filter selects, and removes the stale ones. Loads OpenCL with all its
 * drivers.
 *
 * @dry_run  removes nothing, and only counts
 * @store    may be NULL: there are no entries
 * Returns KILN_OK; otherwise the status of kiln_store_each or kiln_item_remove. */
kiln_status stale_remove(kiln_store *store, entry_filter *filter, bool dry_run,
                         stale_count *ret_count);
