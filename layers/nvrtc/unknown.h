/* SPDX-License-Identifier: Apache-2.0
 *
 * Stubs for functions of NVRTC that this library does not know because they are newer or
 * undocumented. The functions' parameters are unknown. So a stub examines all registers that can
 * contain arguments. Then it restores all registers and jumps to the function.
 */
#pragma once

#include "hooks.h"

typedef void unknown_call_fn(const void *const arguments[NVRTC_ARGUMENT_REGISTERS]);

/* Returns a stub that replaces a function of @owner; NULL if none is left. This function and
 * unknown_forget are called under the loader's lock.
 *
 * @before_call  called before each call of the function */
void *unknown_stub_new(const void *owner, void *function, unknown_call_fn *before_call);

/* Frees an owner's stubs, so that they can replace other functions. */
void unknown_forget(const void *owner);
