/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries of which HIPRTC consists, and what else affects the result of a compilation, apart
 * from the program. Without an option that names the architecture, the GPU would affect it too;
 * Kiln does not keep such results.
 */
#pragma once

#include <kiln/key.h>

#include "device/nvrtc/functions.h"
#include "device/watch/watch.h"

/* Appends HIPRTC's version, and the identities of its library, of libhiprtc-builtins if the process
 * has it, and of comgr with all libraries to which comgr is linked. HIPRTC loads comgr when a
 * program is created. A caller is allowed to reuse the parts for later keys. But after a
 * compilation, the caller must call this function again, to check that nothing else was loaded.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: a library cannot be identified,
 * or the process has several of a kind; KILN_E_NO_MEMORY. Threads: any. Blocks: on the loader. */
kiln_status kilni_hiprtc_add_identity(const kilni_nvrtc_functions *hiprtc, kiln_key_builder *key,
                                      kiln_error *error);

/* Appends the variables that affect HIPRTC, with their values, and the calling thread's
 * floating-point mode. Must be called for each compilation.
 *
 * @more  further patterns (KILN_KEY_ENV), NULL-terminated; NULL: none
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a variable adds options, or makes comgr keep files or times,
 * or has changed, or a variable's name is too long for a key; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY.
 */
kiln_status kilni_hiprtc_add_environment(const char *const *more, kiln_key_builder *key,
                                         kiln_error *error);

/* Call this before each compilation, even if its result is not kept: HIP's runtime and comgr read
 * some variables only once in a process. Once any of these has a different value than at the first
 * call, kilni_hiprtc_add_environment returns KILN_E_UNSUPPORTED. Threads: any. Blocks: never. */
void kilni_hiprtc_note_environment(void);

/* Finds the libraries through which comgr reads files and folds constants: comgr itself, and those
 * of LLVM to which it is linked.
 *
 * @ret_libraries  [out] @ret_count of them
 * Returns KILN_OK; KILN_E_UNSUPPORTED: they cannot be watched; KILN_E_NO_MEMORY. Threads and
 * blocking: as for kilni_watched_find. */
kiln_status kilni_hiprtc_find_watched(kilni_watched *ret_libraries[KILNI_WATCH_LIBRARIES_MAX],
                                      size_t *ret_count);
