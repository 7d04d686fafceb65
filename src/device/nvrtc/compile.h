/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles a program whose result is to be kept.
 */
#pragma once

#include <kiln/status.h>

#include "device/nvrtc/functions.h"

/* Calls nvrtcCompileProgram, bypassing the driver's own cache, which NVRTC uses from 12.9 on. That
 * cache ignores the floating-point mode, and the functions of the C library, that constants were
 * folded with. What it serves is not folded again, so the folding cannot be watched.
 *
 * @ret_result  [out] NVRTC's result
 * Returns KILN_OK: NVRTC was called; KILN_E_NO_MEMORY: it was not. */
kiln_status kilni_nvrtc_compile(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program,
                                int option_count, const char *const *options, int *ret_result);
