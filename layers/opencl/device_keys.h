/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of one call that built or compiled, one for each of its devices. Not locked: records.c
 * does that.
 */
#pragma once

#include <CL/cl.h>

#include <kiln/key.h>

/* Zeroed, it is empty. */
typedef struct device_keys {
    cl_uint count;
    cl_device_id *devices;
    kiln_key **keys; /* one for each device; NULL: none was made yet, as may be any of them */
} device_keys;

/* The key for a device, retained; NULL where there is none. */
kiln_key *device_keys_find(const device_keys *keys, cl_device_id device);

/* KILN_OK; KILN_E_NO_MEMORY. */
kiln_status device_keys_copy(const device_keys *of, device_keys *ret_copy);

/* Frees what it holds; it is empty again. */
void device_keys_done(device_keys *keys);
