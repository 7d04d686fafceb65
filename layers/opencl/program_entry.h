/* SPDX-License-Identifier: Apache-2.0
 *
 * Between programs and entries: what a request of the layer does at the device, beside the build
 * itself.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "records.h"

/* Makes a program of verified entries, one for each device, with the answers recorded in them.
 * KILN_OK; KILN_E_REFUSED; KILN_E_RESOURCES; KILN_E_NO_MEMORY. */
kiln_status program_load(cl_context context, cl_uint device_count, const cl_device_id *devices,
                         const kiln_entry *const *entries, const char *options, twin **ret_twin);

/* Makes the entry of what was built for a device. KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status program_capture(platform *of, cl_program program, cl_device_id device,
                            const kiln_key *key, uint64_t build_ns, kiln_entry **ret_entry);

/* How a build ended: with a callback, a driver may report success before it knows. KILN_OK;
 * KILN_E_BUILD; KILN_E_UNSUPPORTED: it goes on. */
kiln_status program_status(cl_program program, cl_uint device_count, const cl_device_id *devices);
