/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers that NVRTC precompiles if an option --pch is given. NVRTC writes them to a folder of the
 * process, and later programs of the process use them. A program that uses one does not read its
 * headers again, so what it depends on is what the program has read that made the header.
 *
 * NVRTC compares the options and the directives of the two programs, but neither the headers that
 * they pass in memory, nor the files. So a result is kept only if the header was made from equal
 * inputs and files: then NVRTC would have made the same header from the program itself.
 */
#pragma once

#include <stdbool.h>

#include "device/nvrtc/functions.h"
#include "device/watch/constant_folds.h"
#include "device/watch/inputs.h"
#include "device/watch/read_files.h"

/* Returns true if NVRTC precompiles headers. */
bool kilni_nvrtc_precompiles_headers(int option_count, const char *const *options);

/* Returns true if a path is in this process's folder of precompiled headers, or is that of the
 * temporary file that NVRTC makes meanwhile. For kilni_reads_ignore. */
kilni_reads_ignore_fn kilni_nvrtc_is_precompiled_header;

/* Call this after a successful compilation, before kilni_reads_finish. If the program used a
 * precompiled header, adds what was read and folded when that was made. If it made one, remembers
 * what was read and folded.
 *
 * Returns a static text that says why the result cannot be kept, or NULL if it can. Threads: any.
 * Blocks: on reading files. */
const char *kilni_nvrtc_follow_precompiled_headers(const kilni_nvrtc_functions *nvrtc,
                                                   kilni_nvrtc_program program,
                                                   const kilni_inputs *inputs, kilni_reads *reads,
                                                   kilni_folds *folds);
