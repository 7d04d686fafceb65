/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognizes the constant with which PyOpenCL's own cache ends each source, in order to defeat
 * other caches. Each build gets a constant with a new name, which ends with a random number:
 *
 *     SOURCE "\n\n__constant int pyopencl_defeat_cache_0123456789abcdef0123456789abcdef = 0;"
 *
 * If no text of the build can name such a constant, the number has no effect on the result, except
 * on symbol tables. refused_words.h says whether a text can.
 */
#pragma once

#include <stdbool.h>

#include <kiln/device.h>

/* The beginning of the constant's name. */
#define KILNI_DEFEATING_CONSTANT "pyopencl_defeat_cache_"

/* The declaration with the number 0. It takes the place of every declaration in keys. */
#define KILNI_DEFEATING_DECLARATION                                                                \
    "\n\n__constant int " KILNI_DEFEATING_CONSTANT "00000000000000000000000000000000 = 0;"

/* Returns true if a source is a text that ends with exactly this declaration.
 *
 * @ret_own_size  [out] the size of the text before the declaration; unchanged if there is none */
bool kilni_opencl_ends_with_defeating_constant(const kiln_program_source *source,
                                               size_t *ret_own_size);

/* Returns true if @text contains the beginning of the constant's name. */
bool kilni_opencl_names_defeating_constant(const char *text);
