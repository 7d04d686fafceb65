/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions with which a driver's compiler folds constants. LLVM calls the functions exp, sin,
 * pow and so on of the process in which it runs. So the last bit of a constant depends on which
 * library of the process provides these functions, and on which variant of them that library
 * selects for the processor.
 */
#pragma once

#include <kiln/key.h>

#include "device/loaded_libraries.h"

/* Appends "driver.math" for each library whose functions of this kind the driver calls, except the
 * libm to which the driver is linked, because that libm's identity is already in the key. Appends
 * "libm.unused" if libm does not use all of AVX, AVX2 and FMA, because the processor lacks one of
 * them or because GLIBC_TUNABLES masks it. Usually appends neither part.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the functions cannot be identified, and @error has the
 * reason; KILN_E_NO_MEMORY. */
kiln_status kilni_math_functions_add(const kilni_loaded_libraries *all, kiln_key_builder *key,
                                     kiln_error *error);
