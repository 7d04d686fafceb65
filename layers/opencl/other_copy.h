/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this layer is in the process under another file's name as well. Two copies would be two
 * caches on one folder: each would wait for the lease that the other holds, in one and the same
 * build.
 */
#pragma once

#include <CL/cl_layer.h>

/* A query of clGetLayerInfo that only Kiln knows: a cl_uint, 1 where this copy has been started. */
#define LAYER_IS_STARTED ((cl_layer_info)0x4b494c4e)

/* 1 where another copy has been started. To be asked before this one is, which answers 0 then. */
int other_copy_is_started(void);
