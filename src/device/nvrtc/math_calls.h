/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the C library by which NVRTC folds constants: what stands in their places does as
 * they do, and tells of it.
 */
#pragma once

/* What is to be in the place of a function (math.h). */
void *kilni_nvrtc_math_call_of(int function);
