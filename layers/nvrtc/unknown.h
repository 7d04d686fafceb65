/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of NVRTC that this library does not know: newer ones, or undocumented ones. Because
 * their arguments are unknown, a stub examines the registers that may carry arguments, and then
 * jumps to the function with all registers restored.
 */
#pragma once

#include "hooks.h"

typedef void unknown_call_fn(const void *const arguments[NVRTC_ARGUMENT_REGISTERS]);

/* Returns a stub that replaces a function of @owner; NULL if none is left. Called under the
 * loader's lock, as unknown_forget is.
 *
 * @before_call  called before each call of the function */
void *unknown_stub_new(const void *owner, void *function, unknown_call_fn *before_call);

/* Frees an owner's stubs, which may then replace other functions. */
void unknown_forget(const void *owner);
