/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions with which a driver's compiler folds constants. LLVM calls exp, sin, pow and so on
 * of the process that it is in. So the last bit of a constant depends on which library provides
 * them there, and on which variant of them that library selects for the processor.
 */
#pragma once

#include <kiln/key.h>

#include "device/loaded_libraries.h"

/* Appends "driver.math" for each library that defines one of these functions and is not the C
 * library's libm that the driver is linked to. Appends "libm.unused" if that libm does not use all
 * of AVX, AVX2 and FMA, because the processor lacks one or because GLIBC_TUNABLES masks it. Usually
 * it appends neither: the identity of libm is another part of the key.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the functions cannot be identified, and @error has the
 * reason; KILN_E_NO_MEMORY. */
kiln_status kilni_math_functions_add(const kilni_loaded_libraries *all, kiln_key_builder *key,
                                     kiln_error *error);
