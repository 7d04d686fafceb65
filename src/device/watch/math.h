/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of device/math.h that a watched compiler calls in this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/math.h"

/* What a call is asked, and what it answers. Numbers are as they lie in memory, a float in the low
 * half. */
typedef struct kilni_fold {
    uint8_t function;
    uint64_t arguments[2]; /* the second is 0 if the function takes one */
    uint64_t result;
    uint32_t error;  /* what errno was set to; 0: it wasn't */
    uint32_t raised; /* exceptions, by which a compiler sees that a call failed: a set of
                        KILNI_RAISED_… of device/floating_point.h */
} kilni_fold;

/* Notes which function of this process a compiler calls by that name. Returns false if another one
 * was noted before: two compilers call different ones. Threads: any. */
bool kilni_math_set_function(int function, void *address);

/* NULL if none was noted. */
void *kilni_math_get_function(int function);

/* Calls a function whose answer does not matter. Leaves errno, flags and mode as they were, and
 * nothing traps: log, for one, divides by zero there. */
void kilni_math_try(int function, void *address);

/* Calls the function with a fold's arguments as the compiler would. Flags and errno are left as
 * such a call leaves them.
 *
 * @fold  [in, out] function and arguments; the rest is set
 * Returns false, and calls nothing, if no function was noted for it. Threads: any. */
bool kilni_math_call(kilni_fold *fold);
