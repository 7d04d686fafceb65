/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of NVRTC that are newer than this library, or that nobody has described: their
 * arguments are not known, so what stands in their place looks at the registers that arguments come
 * in, and goes on into the function itself with all of them as they were.
 */
#pragma once

#include "hooks.h"

/* What to put in the place of a function, for an owner; NULL where there is nothing left. Under the
 * loader's lock, as the next. */
void *unknown_in_place_of(const void *owner, void *function);

/* What stood in the place of an owner's functions can stand elsewhere. */
void unknown_forget(const void *owner);

/* Is called before each such function. */
void unknown_is_called(const void *const arguments[NVRTC_ARGUMENT_REGISTERS]);
