/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that return a compiled program's outputs. The layer answers for programs that were
 * loaded from the cache. NVRTC answers for all other programs, for outputs that were not recorded,
 * and for wrong arguments.
 */
#pragma once

#include "hooks.h"

/* Each function returns one of NVRTC's result codes. */
int answer_size(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
                size_t *ret_size);
int answer_get(nvrtc_library *library, kilni_nvrtc_program program, kilni_nvrtc_output output,
               char *bytes);
int answer_lowered_name(nvrtc_library *library, kilni_nvrtc_program program, const char *expression,
                        const char **ret_name);
