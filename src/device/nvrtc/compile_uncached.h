/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a program so that its result can be kept.
 */
#pragma once

#include <kiln/status.h>

#include "device/nvrtc/functions.h"

/* Calls nvrtcCompileProgram, and bypasses the driver's own cache, which NVRTC uses since version
 * 12.9. Constants depend on the floating-point mode and on the functions of the C library, but that
 * cache ignores both. If the cache returns a result, NVRTC does not fold constants again, so Kiln
 * cannot watch the folding.
 *
 * @ret_result  [out] NVRTC's result
 * Returns KILN_OK: NVRTC was called; KILN_E_NO_MEMORY: it was not. */
kiln_status kilni_nvrtc_compile(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                                int option_count, const char *const *options, int *ret_result);
