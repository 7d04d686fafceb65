/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of drivers that were replaced. An entry's key has its platform's name, and the files of
 * the driver with their identities. Where a platform of that name is installed, with another
 * library or other files that its compiler loads, no build here asks for the entry again. Where
 * none is, nothing can be told: it may be installed elsewhere, for another program or in another
 * container that shares the cache. So it may where the entry may have been used after the present
 * driver was installed, as far as use stamps tell, and where it isn't known when that was. Programs
 * that may only read the cache leave no stamps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/store_tools.h>

typedef struct stale_count {
    uint64_t stale, stale_bytes; /* bytes of files */
    uint64_t untold;             /* entries of which it can't be told */
} stale_count;

/* Reads all entries, and removes those that are stale. Loads OpenCL with all its drivers.
 *
 * @dry_run  removes nothing
 * @store    may be NULL: it has none
 * Returns KILN_OK; else what kiln_store_each says, or kiln_item_remove. */
kiln_status stale_remove(kiln_store *store, bool dry_run, stale_count *ret_count);
