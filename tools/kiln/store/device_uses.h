/* SPDX-License-Identifier: Apache-2.0
 *
 * When the devices of a store's entries were last in use, by any machine that is known here.
 */
#pragma once

#include <stdbool.h>

#include "listing.h"

typedef struct known_use {
    char *device;   /* platform, device and driver, as entries name them */
    int64_t last_s; /* the latest use that is known */
    /* KILN_OK: the servers have a record, or a signed list has the device; KILN_E_UNSUPPORTED:
     * there are neither servers nor lists, so only uses of the store's entries are known;
     * KILN_MISS: no record and no list has it; otherwise, why the servers can't be asked or
     * believed. */
    kiln_status record;
} known_use;

typedef struct device_uses {
    known_use *uses; /* by name */
    size_t count, capacity;
} device_uses;

/* Asks the store's servers for the device of each program in the listing. */
void device_uses_read(kiln_store *store, const store_listing *listing, device_uses *ret_uses);

/* Returns NULL if the listing has no program for that device. */
known_use *device_uses_find(const device_uses *uses, const char *device);

void device_uses_free(device_uses *uses);
