/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the OpenCL drivers that are installed here, and which of them built an entry. A driver is
 * recognized by its own files, which are the same in every process. The libraries that a driver is
 * linked to are ignored, since a program can bring its own versions of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

typedef enum driver_verdict {
    DRIVER_UNKNOWN,
    DRIVER_INSTALLED,
    /* The key's platform is installed, but its driver has different files. The entry has not been
     * used since these files were installed. */
    DRIVER_REPLACED
} driver_verdict;

typedef struct installed_drivers installed_drivers;

/* Loads OpenCL with all its drivers. Reports drivers whose files are not known. The caller frees
 * the result. */
installed_drivers *installed_drivers_find(void);

void installed_drivers_free(installed_drivers *drivers);

/* Compares an entry's driver with those installed here.
 *
 * @key          the entry's key, which can have stripped parts
 * @last_used_s  when the entry was last used, in Unix seconds. If it is possible that the entry was
 *               used after the installed driver was installed, the result is not DRIVER_REPLACED,
 *               because other programs might find the driver that built the entry. */
driver_verdict installed_drivers_compare(const installed_drivers *drivers, const kiln_key *key,
                                         int64_t last_used_s);

/* Returns true if a program here can find an entry. For this, one of the drivers must have the
 * files that the key names, and one of that driver's devices must have the device name that the key
 * names. Also returns true if the key names no OpenCL platform. */
bool installed_drivers_fit(const installed_drivers *drivers, const kiln_key *key);
