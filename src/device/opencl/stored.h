/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry of OpenCL's holds: one result; or, if the build may read files, a few results of
 * the same program, each with the files that it was made from.
 */
#pragma once

#include <stdbool.h>

#include <kiln/device.h>
#include <kiln/entry.h>

#include "device/opencl/traits.h"

/* One result; points into its entry. */
typedef struct kilni_opencl_stored {
    kiln_bytes answers; /* for kilni_opencl_answers_decode, with the log */
    kiln_bytes log;
    kiln_bytes binary;
    kiln_bytes reads; /* for kilni_reads_hold; empty: it read nothing */
} kilni_opencl_stored;

/* Finds the result that is good now.
 *
 * @may_read     whether the build may read files
 * @ret_changed  [out] with KILN_MISS, a path that is not what it was, in place; may be NULL
 * Returns KILN_OK; KILN_MISS: none is; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Blocks: on reading. */
kiln_status kilni_opencl_stored_find(const kiln_entry *entry, bool may_read,
                                     const kilni_opencl_traits *traits,
                                     kilni_opencl_stored *ret_stored, const char **ret_changed);

/* Makes what was taken of a build that read files into what its entry holds: this result, and those
 * of the entry that it replaces.
 *
 * @replaced  NULL: none
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_stored_add_reads(kiln_capture *taken, kiln_bytes reads,
                                          const kiln_entry *replaced);
