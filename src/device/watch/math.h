/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the C library by which NVRTC folds constants, and which differ in the last bits from
 * one C library, and from one processor, to another. Those that are exact everywhere (sqrt, floor,
 * fmod and the like) are not among them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For each: its name, the type that it computes in, and how many arguments it has. */
#define KILNI_MATH_UNARY(X, type, suffix)                                                          \
    X(acos##suffix, type, 1)                                                                       \
    X(acosh##suffix, type, 1)                                                                      \
    X(asin##suffix, type, 1)                                                                       \
    X(asinh##suffix, type, 1)                                                                      \
    X(atan##suffix, type, 1)                                                                       \
    X(atanh##suffix, type, 1)                                                                      \
    X(cbrt##suffix, type, 1)                                                                       \
    X(cos##suffix, type, 1)                                                                        \
    X(cosh##suffix, type, 1)                                                                       \
    X(erf##suffix, type, 1)                                                                        \
    X(erfc##suffix, type, 1)                                                                       \
    X(exp##suffix, type, 1)                                                                        \
    X(exp10##suffix, type, 1)                                                                      \
    X(exp2##suffix, type, 1)                                                                       \
    X(expm1##suffix, type, 1)                                                                      \
    X(log##suffix, type, 1)                                                                        \
    X(log10##suffix, type, 1)                                                                      \
    X(log1p##suffix, type, 1)                                                                      \
    X(log2##suffix, type, 1)                                                                       \
    X(sin##suffix, type, 1)                                                                        \
    X(sinh##suffix, type, 1)                                                                       \
    X(tan##suffix, type, 1)                                                                        \
    X(tanh##suffix, type, 1)                                                                       \
    X(tgamma##suffix, type, 1)
#define KILNI_MATH_BINARY(X, type, suffix)                                                         \
    X(atan2##suffix, type, 2)                                                                      \
    X(hypot##suffix, type, 2)                                                                      \
    X(pow##suffix, type, 2)
#define KILNI_MATH(X)                                                                              \
    KILNI_MATH_UNARY(X, double, )                                                                  \
    KILNI_MATH_UNARY(X, float, f)                                                                  \
    KILNI_MATH_BINARY(X, double, )                                                                 \
    KILNI_MATH_BINARY(X, float, f)

#define KILNI_MATH_NUMBER(name, type, count) KILNI_MATH_##name,
enum { KILNI_MATH(KILNI_MATH_NUMBER) KILNI_MATH_COUNT };
#undef KILNI_MATH_NUMBER

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

/* The number of a function; -1: it is none of these. */
int kilni_math_find(const char *name);

const char *kilni_math_name(int function);

/* How many arguments it has. */
int kilni_math_arity(int function);

/* Whether a function that is none of these has inexact results. */
bool kilni_math_is_unknown(const char *name);

/* Notes which function of this process NVRTC calls by that name. Returns false if another one was
 * noted before: two copies of NVRTC call different ones. Threads: any. */
bool kilni_math_set_function(int function, void *address);

/* NULL if none was noted. */
void *kilni_math_get_function(int function);

/* Calls a function whose answer does not matter. Leaves errno, flags and mode as they were, and
 * nothing traps: log, for one, divides by zero there. */
void kilni_math_try(int function, void *address);

/* Calls the function with a fold's arguments as NVRTC would. Flags and errno are left as such a
 * call leaves them.
 *
 * @fold  [in, out] function and arguments; the rest is set
 * Returns false, and calls nothing, if no function was noted for it. Threads: any. */
bool kilni_math_call(kilni_fold *fold);
