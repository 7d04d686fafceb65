/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the layer calls: the next layer's, or the loader's.
 */
#pragma once

#include <CL/cl_icd.h>

const cl_icd_dispatch *layer_target(void);

/* Copies the table. Called once, before the application can call the layer.
 *
 * @entry_count  the number of entries in the table; functions after these are NULL */
void layer_set_target(const cl_icd_dispatch *functions, cl_uint entry_count);

/* Copies a table of functions in the same way. */
void layer_copy_functions(cl_icd_dispatch *to, const cl_icd_dispatch *from, cl_uint entry_count);
