/* SPDX-License-Identifier: Apache-2.0
 *
 * Stubs that replace functions. A stub passes the values of all registers that can contain
 * arguments to a function of this library. This function either serves the call, or lets the stub
 * restore all registers and jump to the replaced function. So a stub can also replace a function
 * whose parameters are unknown.
 */
#pragma once

#include "hooks.h"

/* @owner, @number  as passed to stub_new
 * Returns 1 if the call is served; @ret_result is then what the function returns. Returns 0 if the
 * replaced function must run. */
typedef int stub_call_fn(const void *owner, size_t number,
                         const void *const arguments[NVRTC_ARGUMENT_REGISTERS], int *ret_result);

/* Returns a stub that replaces a function of @owner; NULL if none is left. This function and
 * stubs_forget are called under the loader's lock.
 *
 * @call  called for each call of the function */
void *stub_new(const void *owner, size_t number, void *function, stub_call_fn *call);

/* Frees an owner's stubs, so that they can replace other functions. */
void stubs_forget(const void *owner);
