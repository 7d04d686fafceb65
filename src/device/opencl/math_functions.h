/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions with which a driver's compiler folds constants. LLVM calls exp, sin, pow and so on
 * in the process in which it runs. So the last bit of a constant depends on which library in this
 * process provides these functions. It also depends on the variants of the functions that this
 * library selects for the processor.
 */
#pragma once

#include <kiln/key.h>

#include "device/loaded_libraries.h"

/* Appends a part "driver.math" for each library whose math functions the driver calls. Leaves out
 * the libm to which the driver is linked, because that libm's identity is already in the key.
 * Appends "libm.unused" if libm does not use all of AVX, AVX2 and FMA. The reason can be that the
 * processor lacks one of them, or that GLIBC_TUNABLES masks it. Usually appends neither part.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: the functions cannot be
 * identified; KILN_E_NO_MEMORY. */
kiln_status kilni_math_functions_add(const kilni_loaded_libraries *all, kiln_key_builder *key,
                                     kiln_error *error);
