/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of NVRTC that are newer than this library, or that nobody has described: their
 * arguments are not known, so what stands in their place looks at the registers that arguments come
 * in, and goes on into the function itself with all of them as they were.
 */
#pragma once

#include "hooks.h"

typedef void unknown_called_fn(const void *const arguments[NVRTC_ARGUMENT_REGISTERS]);

/* What to put in the place of a function, for an owner; NULL: nothing is left. Under the loader's
 * lock, as the next.
 *
 * @is_called  is called before each call of the function */
void *unknown_in_place_of(const void *owner, void *function, unknown_called_fn *is_called);

/* What stood in the place of an owner's functions can stand elsewhere. */
void unknown_forget(const void *owner);
