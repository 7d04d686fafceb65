/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver or compiler that built an entry, as its key names it.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/store_tools.h>

/* Returns the name and the version of the driver or compiler, such as "Intel(R) OpenCL
 * 2025.20.6.0.04"; "-" if the key names none. The caller frees it. */
char *driver_of_key(const kiln_key *key);

/* Does the same for the key of an item, whose entry it reads. "-" if it can't be read. */
char *driver_of(kiln_item *item);

/* Returns what a key says about the device, or the architecture, that the build is for. Two keys
 * are of the same device if these texts are equal. The caller frees the text. */
char *device_of_key(const kiln_key *key);
