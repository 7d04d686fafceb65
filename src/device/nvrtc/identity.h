/* SPDX-License-Identifier: Apache-2.0
 *
 * What decides a compilation beside the program: NVRTC's version, its libraries, the variables that
 * it looks at. The driver is not among them, nor is there any need of one.
 */
#pragma once

#include <kiln/key.h>

#include "device/nvrtc/functions.h"

/* Appends the version and the identities of libnvrtc and of libnvrtc-builtins, which NVRTC loads at
 * its first compilation: until then it is looked for where the loader would. Callers keep what they
 * get, and ask again after a compilation.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a library can't be told, with the reason in @error;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_nvrtc_add_identity(const kilni_nvrtc_functions *nvrtc, kiln_key_builder *key,
                                     kiln_error *error);

/* Appends the variables that steer NVRTC, with their values, and the calling thread's
 * floating-point mode. Read anew for each compilation.
 *
 * @more  further patterns (KILN_KEY_ENV), NULL-ended; NULL: none
 * Returns KILN_OK; KILN_E_UNSUPPORTED: they add options, which would have to be known;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_add_environment(const char *const *more, kiln_key_builder *key,
                                        kiln_error *error);
