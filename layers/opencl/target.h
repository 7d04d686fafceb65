/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions below the layer: those of the next layer, or of the loader.
 */
#pragma once

#include <CL/cl_icd.h>

const cl_icd_dispatch *layer_target(void);

/* Copies the table. Called once, before any call comes in.
 *
 * @entry_count  of the loader's table; functions beyond it are NULL */
void layer_set_target(const cl_icd_dispatch *functions, cl_uint entry_count);

/* Copies a table of functions in the same way. */
void layer_copy_functions(cl_icd_dispatch *to, const cl_icd_dispatch *from, cl_uint entry_count);
