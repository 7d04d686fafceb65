/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads programs from entries, and captures entries from programs.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "records.h"

/* Makes a program from verified entries, one for each device, with the answers recorded in them.
 *
 * Returns KILN_OK; KILN_E_REFUSED; KILN_E_RESOURCES; KILN_E_NO_MEMORY. */
kiln_status program_load(cl_context context, cl_uint device_count, const cl_device_id *devices,
                         const kiln_entry *const *entries, const char *options,
                         loaded_program **ret_loaded);

/* Makes the entry of what was built for a device. Returns KILN_OK; KILN_E_UNSUPPORTED;
 * KILN_E_NO_MEMORY. */
kiln_status program_capture(platform *known, cl_program program, cl_device_id device,
                            const kiln_key *key, uint64_t build_ns, kiln_entry **ret_entry);

/* Returns how a build ended: with a callback, a driver may report success before it knows. KILN_OK;
 * KILN_E_BUILD; KILN_E_UNSUPPORTED if the build is still running. */
kiln_status program_status(cl_program program, cl_uint device_count, const cl_device_id *devices);
