/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that stand in the place of those by which NVRTC folds constants. Each calls the
 * function that it replaces, and tells the compilation that is watched what was asked and answered.
 */
#pragma once

/* The address of the function that replaces one of math.h. */
void *kilni_math_call_of(int function);
