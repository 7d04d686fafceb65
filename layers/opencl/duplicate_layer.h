/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects whether the process has loaded this layer from a second file as well. Two copies would
 * use the same store: within one build, one copy would wait for the lease that the other holds.
 */
#pragma once

#include <CL/cl_layer.h>

/* A query of clGetLayerInfo that only Kiln knows. The answer is a cl_uint: 1 if this copy has
 * started. */
#define LAYER_IS_STARTED ((cl_layer_info)0x4b494c4e)

/* Returns 1 if another copy has started. Must be called before this copy starts, since the call
 * would otherwise find this copy. */
int duplicate_layer_is_started(void);
