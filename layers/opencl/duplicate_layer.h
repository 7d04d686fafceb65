/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects if the process has also loaded this layer from a second file. Two copies would use the
 * same store. During a build, one of them would wait for a lease that the other one holds.
 */
#pragma once

#include <CL/cl_layer.h>

/* A query of clGetLayerInfo that only Kiln's layer answers. The answer is a cl_uint, which is 1 if
 * the copy that answers has started. */
#define LAYER_IS_STARTED ((cl_layer_info)0x4b494c4e)

/* Returns 1 if another copy has started. Must be called before this copy starts, because it would
 * otherwise find this copy. */
int duplicate_layer_is_started(void);
