/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of a device have read, for as long as they live: a capture has to tell.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/status.h>

#include "base/text.h"

typedef struct kilni_opencl_program_reads kilni_opencl_program_reads;

kiln_status kilni_opencl_program_reads_new(kilni_opencl_program_reads **ret_all);
void kilni_opencl_program_reads_free(kilni_opencl_program_reads **all);

/* Notes what a program has read.
 *
 * @reads  taken over, also on failure
 * @why    why the program can't be captured, static text; NULL: it can
 * Returns KILN_OK; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_opencl_program_reads_set(kilni_opencl_program_reads *all, cl_program program,
                                           kilni_text *reads, const char *why);

/* @ret_reads  [out] a copy; kilni_text_done by the caller
 * Returns KILN_OK; KILN_MISS: the program has read nothing; KILN_E_UNSUPPORTED: it can't be
 * captured; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_opencl_program_reads_get(kilni_opencl_program_reads *all, cl_program program,
                                           kilni_text *ret_reads);

/* Before the program goes. Threads: any. Blocks: never. */
void kilni_opencl_program_reads_forget(kilni_opencl_program_reads *all, cl_program program);
