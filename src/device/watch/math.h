/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of device/math.h that a watched compiler calls in this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/math.h"

/* The arguments of a call and its results. Numbers are stored as their bits, a float in the low
 * half. */
typedef struct kilni_fold {
    uint8_t function;
    uint64_t arguments[2]; /* the second is 0 if the function takes one */
    uint64_t result;
    uint32_t error;  /* what errno was set to; 0: it was not */
    uint32_t raised; /* exceptions by which a compiler sees that a call failed: a set of
                      * KILNI_RAISED_… of device/floating_point.h */
} kilni_fold;

/* Notes which function of this process a compiler calls by a name. Returns false if a different one
 * was noted before: two compilers call different ones. Threads: any. */
bool kilni_math_set_function(int function, void *address);

/* Returns NULL if none was noted. */
void *kilni_math_get_function(int function);

/* Calls a function whose result does not matter. Leaves errno, flags and mode as they were, and
 * nothing traps: the arguments are 0, and log, for one, then divides by zero. */
void kilni_math_try(int function, void *address);

/* Calls the function with a fold's arguments as the compiler would. Leaves flags and errno as such
 * a call leaves them.
 *
 * @fold  [in, out] has function and arguments; the other fields are set
 * Returns false, and calls nothing, if no function was noted for it. Threads: any. */
bool kilni_math_call(kilni_fold *fold);
