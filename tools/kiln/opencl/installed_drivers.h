/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL drivers that are installed here, and which of them an entry is of: by the files that
 * are a driver's own in each process. What it is linked to besides, a program may have brought
 * along, so that this tool can't know it.
 */
#pragma once

#include <stdint.h>

#include <kiln/key.h>

typedef enum driver_verdict {
    DRIVER_UNTOLD,
    DRIVER_INSTALLED,
    /* The key's platform is installed, but with other files, and the entry was not used since. */
    DRIVER_REPLACED
} driver_verdict;

typedef struct installed_drivers installed_drivers;

/* Loads OpenCL with all its drivers. What can't be told is named. To be freed. */
installed_drivers *installed_drivers_find(void);

void installed_drivers_free(installed_drivers *drivers);

/* @key          of an entry; parts of it may be away, but for their digests
 * @last_used_s  of the entry, Unix seconds. One that was used when the driver that is found here
 * was installed already has a driver of its own, which other programs find. */
driver_verdict installed_drivers_judge(const installed_drivers *drivers, const kiln_key *key,
                                       int64_t last_used_s);
