/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds to a key what affects the result of a compilation, apart from the program: NVRTC's version,
 * its libraries, the variables that it reads, and the thread's floating-point mode. The driver does
 * not affect the result, so it is not a part of the key.
 */
#pragma once

#include <kiln/key.h>

#include "device/nvrtc/functions.h"

/* Appends the version and the identities of libnvrtc and of libnvrtc-builtins. NVRTC loads
 * libnvrtc-builtins at its first compilation. Until then, this function looks for that library in
 * the folder of libnvrtc and in the folders that the loader searches, but not in ld.so.cache. The
 * function fails if it finds files that differ. A caller is allowed to reuse the parts for later
 * keys. But after a compilation, the caller must call this function again, to check that NVRTC
 * loaded the library that was found.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: a library cannot be identified;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_nvrtc_add_identity(const kilni_nvrtc_functions *nvrtc, kiln_key_builder *key,
                                     kiln_error *error);

/* Appends the variables that affect NVRTC, with their values, and the calling thread's
 * floating-point mode. Must be called for each compilation.
 *
 * @more  further patterns (KILN_KEY_ENV), NULL-terminated; NULL: none
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a variable adds options (which Kiln does not examine), or a
 * variable's name is too long for a key; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_add_environment(const char *const *more, kiln_key_builder *key,
                                        kiln_error *error);
