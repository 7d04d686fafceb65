/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the process has loaded this layer from a second file as well. Two copies would be two
 * caches on one store: within one build, each would wait for the lease that the other holds.
 */
#pragma once

#include <CL/cl_layer.h>

/* A query of clGetLayerInfo that only Kiln knows. The answer is a cl_uint: 1 if this copy has
 * started. */
#define LAYER_IS_STARTED ((cl_layer_info)0x4b494c4e)

/* Returns 1 if another copy has started. Must be called before this copy starts: it would find
 * itself. */
int other_copy_is_started(void);
