/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for the functions with which NVRTC folds constants. Each calls the function that it
 * replaces, and reports arguments and results to the watched compilation.
 */
#pragma once

/* Returns the address of the replacement for a function of math.h. */
void *kilni_math_call_of(int function);
