/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of an OpenCL entry. If the build cannot read files, the content is one result.
 * Otherwise, it is a few results of the same program, each with a list of the files from which it
 * was made.
 */
#pragma once

#include <stdbool.h>

#include <kiln/device.h>
#include <kiln/entry.h>

#include "device/opencl/traits.h"

/* One result. The members point into the entry. */
typedef struct kilni_opencl_stored {
    kiln_bytes answers; /* for kilni_opencl_answers_decode, with the log */
    kiln_bytes log;
    kiln_bytes binary;
    kiln_bytes reads; /* for kilni_reads_hold; empty: the build read nothing */
} kilni_opencl_stored;

/* Finds the result that was made from the files as they are now.
 *
 * @may_read     whether the build might read files
 * @ret_changed  [out] on KILN_MISS, a path that has changed; points into @entry; may be NULL
 * Returns KILN_OK; KILN_MISS: there is no such result; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Blocks: on
 * reading files. */
kiln_status kilni_opencl_stored_find(const kiln_entry *entry, bool may_read,
                                     const kilni_opencl_traits *traits,
                                     kilni_opencl_stored *ret_stored, const char **ret_changed);

/* Makes the content of an entry for a build that read files. It consists of the captured result and
 * of the results in the old entry, which the new entry replaces.
 *
 * @replaced  the old entry; NULL if there is none
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_stored_add_reads(kiln_capture *taken, kiln_bytes reads,
                                          const kiln_entry *replaced);
