/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL drivers that are installed here, and which of them built an entry. A driver is
 * recognized by its own files, which are the same in every process. The libraries that it is linked
 * to do not count, since a program may bring its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

typedef enum driver_verdict {
    DRIVER_UNKNOWN,
    DRIVER_INSTALLED,
    /* The key's platform is installed with different files, and the entry has not been used since
     * they were installed. */
    DRIVER_REPLACED
} driver_verdict;

typedef struct installed_drivers installed_drivers;

/* Loads OpenCL with all its drivers. Reports drivers whose files are not known. The caller frees
 * the result. */
installed_drivers *installed_drivers_find(void);

void installed_drivers_free(installed_drivers *drivers);

/* Compares an entry's driver with those installed here.
 *
 * @key          of the entry; parts may be stripped
 * @last_used_s  when the entry was last used, in Unix seconds. An entry that may have been used
 *               since the installed driver was installed is not DRIVER_REPLACED, because other
 *               programs may find its driver. */
driver_verdict installed_drivers_compare(const installed_drivers *drivers, const kiln_key *key,
                                         int64_t last_used_s);

/* Returns whether a program here can find an entry: one of the drivers has the files that the key
 * names, and one of its devices has the device name that the key names. Returns true also if the
 * key names no OpenCL platform. */
bool installed_drivers_fit(const installed_drivers *drivers, const kiln_key *key);
