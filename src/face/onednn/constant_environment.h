/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the variable that sets the capacities for constants. The program's calls override the
 * variable.
 */
#pragma once

#include <stddef.h>

#include "constant/limits.h"

#define KILNI_CONSTANT_VARIABLE "ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY"

enum { KILNI_CONSTANT_WARNINGS = 16, KILNI_CONSTANT_WARNING_SIZE = 240 };

/* Warnings about malformed pieces. They have a fixed size, because an allocation can fail. */
typedef struct kilni_constant_warnings {
    size_t count; /* the number of all malformed pieces; if there are too many, the last line
                     reports how many more there are */
    char lines[KILNI_CONSTANT_WARNINGS + 1][KILNI_CONSTANT_WARNING_SIZE];
} kilni_constant_warnings;

/* Applies the pieces of a value in their order, so the last piece for each kind takes effect. A
 * malformed piece adds a warning and changes nothing.
 *
 * @value     NULL: not set
 * @kinds     [in, out] the limits of the KILNI_CONSTANT_KINDS kinds
 * @warnings  [in, out] */
void kilni_constant_environment_read(const char *value, kilni_constant_limits *kinds,
                                     kilni_constant_warnings *warnings);
