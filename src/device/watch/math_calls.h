/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for the functions with which NVRTC folds constants. Each replacement calls the
 * original function, and reports the arguments and the result to the watched compilation.
 */
#pragma once

/* Returns the address of the replacement for a function of math.h. */
void *kilni_math_call_of(int function);
