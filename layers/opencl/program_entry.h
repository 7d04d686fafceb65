/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads programs from entries, and captures entries from programs.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/entry.h>
#include <kiln/key.h>

#include "records.h"

/* Makes a program from verified entries, of which there is one for each device. The program has the
 * answers that are recorded in the entries.
 *
 * @may_read     1 if the build can read files
 * @ret_changed  [out] on KILN_MISS, receives the path of a changed file if one is known; points
 *               into an entry
 * Returns KILN_OK; KILN_MISS if files that an entry was made from have changed; KILN_E_REFUSED;
 * KILN_E_RESOURCES; KILN_E_NO_MEMORY. */
kiln_status program_load(const platform *owner, cl_context context, cl_uint device_count,
                         const cl_device_id *devices, const kiln_entry *const *entries,
                         int may_read, const char *options, loaded_program **ret_loaded,
                         const char **ret_changed);

/* Makes an entry from a program that was built for a device.
 *
 * @reads     the files that the driver has read; empty: none
 * @replaced  the entry whose other results the new entry keeps; NULL: none
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status program_capture(platform *known, cl_program program, cl_device_id device,
                            const kiln_key *key, uint64_t build_ns, const kilni_text *reads,
                            const kiln_entry *replaced, kiln_entry **ret_entry);

/* Returns how a build ended. The driver is asked for this because, if the call has a callback, it
 * might have returned success before the result was known. Returns KILN_OK; KILN_E_BUILD;
 * KILN_E_UNSUPPORTED if the build is still running. */
kiln_status program_status(cl_program program, cl_uint device_count, const cl_device_id *devices);
