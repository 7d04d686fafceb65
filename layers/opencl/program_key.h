/* SPDX-License-Identifier: Apache-2.0
 *
 * What the keys of builds, compiles and links have in common.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/build_key.h"
#include "platforms.h"
#include "records.h"

/* Why nothing that this platform makes can be cached now; NULL: it can. */
const char *program_key_obstacle(platform *known);

/* A program's source or intermediate language as the driver keeps it, so that the layer needs no
 * copy of its own.
 *
 * @options     borrowed by @ret_source; may be NULL
 * @ret_code    [out] what @ret_source points into; the caller frees, also after a failure
 * @ret_source  [out]
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status program_key_code(const program_record *record, const char *options, char **ret_code,
                             kiln_program_source *ret_source);

/* A builder with what every key begins with: what the device and its driver are, and the
 * environment. KILN_OK; KILN_E_UNSUPPORTED, with the reason; KILN_E_NO_MEMORY. */
kiln_status program_key_begin(platform *known, cl_device_id device, kiln_key_builder **ret_builder,
                              kiln_error *error);

/* The whole key of a build. The same statuses. */
kiln_status program_key_of_build(platform *known, cl_device_id device,
                                 const kiln_program_source *source,
                                 const kilni_opencl_constants *constants, kiln_key **ret_key,
                                 kiln_error *error);

/* Frees an array of keys, of which some may be NULL. */
void program_keys_free(kiln_key **keys, cl_uint count);

/* Copies the devices that a call names. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status program_devices_copy(cl_uint count, const cl_device_id *devices,
                                 cl_device_id **ret_devices);

/* All devices of a program, or of a context; the caller frees. KILN_OK; KILN_E_UNSUPPORTED;
 * KILN_E_NO_MEMORY. */
kiln_status program_devices_of(cl_program program, cl_device_id **ret_devices, cl_uint *ret_count);
kiln_status program_devices_of_context(cl_context context, cl_device_id **ret_devices,
                                       cl_uint *ret_count);

/* 1 where all of those are devices of the program. */
int program_has_devices(cl_program program, cl_uint count, const cl_device_id *devices);
