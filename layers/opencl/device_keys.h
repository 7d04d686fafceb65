/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of one build or compile, one for each of its devices. These functions take no lock;
 * records.c locks the keys that are in records.
 */
#pragma once

#include <CL/cl.h>

#include <kiln/key.h>

#include "base/text.h"

/* Empty if all zero. */
typedef struct device_keys {
    cl_uint count;
    cl_device_id *devices;
    kilni_text reads; /* what the build has read; empty: nothing */
    kiln_key **keys;  /* a key or NULL for each device; the array itself is NULL until the first key
                         is made */
} device_keys;

/* Returns the key for a device, retained; NULL if there is none. */
kiln_key *device_keys_find(const device_keys *keys, cl_device_id device);

/* Copies the array, and adds a hold on each key. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status device_keys_copy(const device_keys *from, device_keys *ret_copy);

/* Frees what @keys holds, and leaves it empty. */
void device_keys_done(device_keys *keys);
