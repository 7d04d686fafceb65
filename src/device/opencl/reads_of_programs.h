/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the files from which each program of a device was built. When a program is captured,
 * the list of its files is written into its entry.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/status.h>

#include "base/text.h"

typedef struct kilni_opencl_reads_of_programs kilni_opencl_reads_of_programs;

kiln_status kilni_opencl_reads_of_programs_new(kilni_opencl_reads_of_programs **ret_all);
void kilni_opencl_reads_of_programs_free(kilni_opencl_reads_of_programs **all);

/* Records the files that a program was built from.
 *
 * @reads  the list of files; this function takes ownership of it, even on failure
 * @why    static text: why the program can't be captured; NULL if it can
 * Returns KILN_OK; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_opencl_reads_of_programs_set(kilni_opencl_reads_of_programs *all,
                                               cl_program program, kilni_text *reads,
                                               const char *why);

/* Returns the files that a program was built from.
 *
 * @ret_reads  [out] a copy; freed by the caller, with kilni_text_done
 * Returns KILN_OK; KILN_MISS: the build of the program read nothing; KILN_E_UNSUPPORTED: the
 * program can't be captured; KILN_E_NO_MEMORY. Threads: any. Blocks: never. */
kiln_status kilni_opencl_reads_of_programs_get(kilni_opencl_reads_of_programs *all,
                                               cl_program program, kilni_text *ret_reads);

/* Forgets the files of a program. Must be called before the program is freed. Threads: any. Blocks:
 * never. */
void kilni_opencl_reads_of_programs_forget(kilni_opencl_reads_of_programs *all, cl_program program);
