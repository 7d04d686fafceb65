/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "hooks.h"

/* Does what nvrtc_hooks.link_call describes. */
int link_call(linker_library *library, size_t function,
              const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result);
