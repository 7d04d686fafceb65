/* SPDX-License-Identifier: Apache-2.0
 *
 * What HIPRTC's compiler, comgr with the libraries of LLVM, reads, and what it might remember.
 */
#pragma once

#include "device/nvrtc/functions.h"
#include "device/watch/compiler.h"
#include "device/watch/read_files.h"

extern const kilni_compiler kilni_hiprtc_compiler;

/* Call this before each compilation, even if its result is not kept: an option that Kiln does not
 * know might affect all later compilations of the process.
 *
 * Returns a static text that says why a program with these options cannot be cached, or NULL if it
 * can. Threads: any. Blocks: never. */
const char *kilni_hiprtc_options_refusal(int count, const char *const *options);

/* Returns a static text that says why this process can store no results, or NULL if it can. */
const char *kilni_hiprtc_result_refusal(void);

/* Prepares the reads of a compilation with these options. The compiler reads some files only at the
 * first compilation of a process, so this records them for each. Returns KILN_OK;
 * KILN_E_UNSUPPORTED: the working directory has no path; KILN_E_NO_MEMORY. Blocks: on reading
 * files. */
kiln_status kilni_hiprtc_prepare_reads(kilni_reads *reads, int count, const char *const *options);

/* Call this after the compilation, before kilni_reads_finish.
 *
 * @given  the words in the texts that the program passed */
void kilni_hiprtc_complete_reads(kilni_reads *reads, const kilni_words *given);
