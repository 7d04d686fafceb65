/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of one build or compile, one for each of its devices. Not locked: records.c does
 * that.
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
    kiln_key **keys;  /* one for each device; NULL: none was made yet; each may also be NULL */
} device_keys;

/* Returns the key for a device, retained; NULL if there is none. */
kiln_key *device_keys_find(const device_keys *keys, cl_device_id device);

/* Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status device_keys_copy(const device_keys *from, device_keys *ret_copy);

/* Frees what @keys holds, and leaves it empty. */
void device_keys_done(device_keys *keys);
