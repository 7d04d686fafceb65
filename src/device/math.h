/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the C library's functions with which compilers fold constants, and whose results differ in
 * the last bits between C libraries or between processors. Functions that are exact everywhere,
 * such as sqrt, floor and fmod, are not listed.
 */
#pragma once

#include <stdbool.h>

/* Each row has the name of a function, its type, its number of arguments, and whether LLVM folds
 * constants of OpenCL programs with it (ConstantFolding.cpp). A part of a key that contains several
 * functions has them in this order. */
#define KILNI_MATH_OF_TYPE(X, type, suffix, is_double)                                             \
    X(acos##suffix, type, 1, true)                                                                 \
    X(acosh##suffix, type, 1, false)                                                               \
    X(asin##suffix, type, 1, true)                                                                 \
    X(asinh##suffix, type, 1, false)                                                               \
    X(atan##suffix, type, 1, true)                                                                 \
    X(atan2##suffix, type, 2, true)                                                                \
    X(atanh##suffix, type, 1, false)                                                               \
    X(cbrt##suffix, type, 1, false)                                                                \
    X(cos##suffix, type, 1, true)                                                                  \
    X(cosh##suffix, type, 1, true)                                                                 \
    X(erf##suffix, type, 1, true)                                                                  \
    X(erfc##suffix, type, 1, false)                                                                \
    X(exp##suffix, type, 1, true)                                                                  \
    X(exp10##suffix, type, 1, is_double)                                                           \
    X(exp2##suffix, type, 1, true)                                                                 \
    X(expm1##suffix, type, 1, false)                                                               \
    X(hypot##suffix, type, 2, false)                                                               \
    X(log##suffix, type, 1, true)                                                                  \
    X(log10##suffix, type, 1, true)                                                                \
    X(log1p##suffix, type, 1, is_double)                                                           \
    X(log2##suffix, type, 1, true)                                                                 \
    X(pow##suffix, type, 2, true)                                                                  \
    X(sin##suffix, type, 1, true)                                                                  \
    X(sinh##suffix, type, 1, true)                                                                 \
    X(tan##suffix, type, 1, true)                                                                  \
    X(tanh##suffix, type, 1, true)                                                                 \
    X(tgamma##suffix, type, 1, false)
#define KILNI_MATH(X)                                                                              \
    KILNI_MATH_OF_TYPE(X, double, , true)                                                          \
    KILNI_MATH_OF_TYPE(X, float, f, false)

#define KILNI_MATH_NUMBER(name, type, count, folds) KILNI_MATH_##name,
enum { KILNI_MATH(KILNI_MATH_NUMBER) KILNI_MATH_COUNT };
#undef KILNI_MATH_NUMBER

/* Returns the number of a function, or -1 if it is not listed. */
int kilni_math_find(const char *name);

const char *kilni_math_name(int function);

/* Return the number of a function's arguments, and true if these arguments are of type float. */
int kilni_math_arity(int function);
bool kilni_math_is_float(int function);

/* Returns true if LLVM folds constants of OpenCL programs with a function. */
bool kilni_math_is_folded_by_llvm(int function);

/* Returns true if the results of a function are inexact but the function is not listed. */
bool kilni_math_is_unlisted(const char *name);
