/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of drivers that are gone. In a directory, an entry is stale in two cases:
 *
 * - Its driver has been replaced. The key has the name of the platform, and the driver's files with
 *   their identities. If a platform of that name is installed here, but its library or the files
 *   that its compiler loads have changed, no build here will ask for the entry again. If no such
 *   platform is installed here, nothing can be concluded: a different program, or a container that
 *   shares the cache, may have that platform. The same holds if the time of the driver's
 *   installation is not known, or if the entry may have been used after it: the recorded time of
 *   its last use can be an hour too early. Programs that only read the cache record no uses.
 * - No entry of the same device and driver has been used for some time.
 *
 * If the store has servers, only their records of devices count (kiln_store_get_device_use), and if
 * there are signed lists of devices, only these and the records: an entry is stale if no machine
 * has used its device and driver for some time. An entry for a device that is in no record and no
 * list stays, and so do all entries if a server can't be asked, or if a list can't be believed.
 *
 * An entry stays in any case if its driver is installed here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "entry_filter.h"

#define STALE_UNSEEN_S (UINT64_C(30) * 24 * 3600)

typedef struct stale_count {
    uint64_t stale, stale_bytes; /* sizes of the files */
    uint64_t unknown;            /* entries whose driver may or may not be gone */
} stale_count;

typedef struct stale_terms {
    uint64_t unseen_s; /* for how long no machine has used a device whose entries are stale */
    const char *lists; /* signed lists of devices, as for device_lists_add; NULL: none */
    bool dry_run;      /* removes nothing, and only counts */
} stale_terms;

/* Reads all entries that the filter selects, and removes the stale ones. Loads OpenCL with all its
 * drivers.
 *
 * @store  may be NULL: there are no entries
 * Returns KILN_OK; otherwise the status of kiln_store_each, kiln_item_remove or device_lists_add.
 */
kiln_status stale_remove(kiln_store *store, entry_filter *filter, const stale_terms *terms,
                         stale_count *ret_count);
