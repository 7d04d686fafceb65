/* SPDX-License-Identifier: Apache-2.0
 *
 * What was compiled into a program, as the keys of the compile: a link of it is found by them. Not
 * locked: records.c does that.
 */
#pragma once

#include <CL/cl.h>

#include <kiln/key.h>

/* Zeroed, it is empty. */
typedef struct compiled_keys {
    cl_uint count;
    cl_device_id *devices;
    kiln_key **keys; /* one for each device */
} compiled_keys;

/* The key for a device, retained; NULL where there is none. */
kiln_key *compiled_keys_find(const compiled_keys *compiled, cl_device_id device);

/* Frees what it holds; it is empty again. */
void compiled_keys_done(compiled_keys *compiled);
