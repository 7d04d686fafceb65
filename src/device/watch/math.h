/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of device/math.h that a watched compiler calls in this process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/math.h"

/* The arguments of a call and its results. Numbers are stored as their bits. A float is in the low
 * half. */
typedef struct kilni_fold {
    uint8_t function;
    uint64_t arguments[2]; /* the second is 0 if the function takes one */
    uint64_t result;
    uint32_t error;  /* the value to which the call set errno; 0: it did not set errno */
    uint32_t raised; /* exceptions by which a compiler sees that a call failed: a set of
                      * KILNI_RAISED_… of device/floating_point.h */
} kilni_fold;

/* Records the address of the function that a compiler in this process calls. Returns false if a
 * different address was recorded before. In that case, two compilers call different functions.
 * Threads: any. */
bool kilni_math_set_function(int function, void *address);

/* Returns the recorded address, or NULL if there is none. */
void *kilni_math_get_function(int function);

/* Calls a function with the value 0 for each argument, and ignores the result. Restores errno, the
 * flags and the mode. Prevents traps, because log(0), for example, divides by zero. */
void kilni_math_try(int function, void *address);

/* Calls a fold's function with the fold's arguments, as the compiler would. Sets the flags and
 * errno as the compiler's call would.
 *
 * @fold  [in, out] function and arguments are read; the other fields are set
 * Returns false, without a call, if no address was recorded for the function. Threads: any. */
bool kilni_math_call(kilni_fold *fold);
