/* SPDX-License-Identifier: Apache-2.0
 *
 * The specialization constants that are set on a program. They affect the result of a build, so
 * they are parts of the build's key. The functions here take no lock.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/key.h>

typedef struct kilni_opencl_constant {
    cl_uint id;
    size_t size;
    void *value; /* owned by the list */
} kilni_opencl_constant;

/* A zeroed structure is an empty list. */
typedef struct kilni_opencl_constants {
    kilni_opencl_constant *items; /* in ascending order of their ids */
    size_t count;
} kilni_opencl_constants;

/* Sets a constant, or replaces its value. Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_constants_set(kilni_opencl_constants *list, cl_uint id, size_t size,
                                       const void *value);

/* @ret_copy  [out] freed by the caller, with kilni_opencl_constants_done
 * Returns KILN_OK or KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_constants_copy(const kilni_opencl_constants *list,
                                        kilni_opencl_constants *ret_copy);

/* Appends, for each constant, the parts "constant" (its id) and "constant.value". Returns KILN_OK;
 * KILN_E_NO_MEMORY; KILN_E_TOO_LARGE. */
kiln_status kilni_opencl_constants_add_to_key(const kilni_opencl_constants *list,
                                              kiln_key_builder *key);

/* Frees the constants and makes the list empty. */
void kilni_opencl_constants_done(kilni_opencl_constants *list);
