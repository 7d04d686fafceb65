/* SPDX-License-Identifier: Apache-2.0
 *
 * The variable that sets capacities before a program does.
 */
#pragma once

#include <stddef.h>

#include "constant/limits.h"

#define KILNI_CONSTANT_VARIABLE "ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY"

enum { KILNI_CONSTANT_WARNINGS = 16, KILNI_CONSTANT_WARNING_SIZE = 240 };

/* Malformed pieces. The memory is static, because allocation may fail. */
typedef struct kilni_constant_warnings {
    size_t count; /* of all; after the last line, one more stands for all further ones */
    char lines[KILNI_CONSTANT_WARNINGS + 1][KILNI_CONSTANT_WARNING_SIZE];
} kilni_constant_warnings;

/* Applies the pieces, the last one of each kind; a malformed piece adds a warning and changes
 * nothing.
 *
 * @value     NULL: not set
 * @kinds     [in, out] by kind, from 0
 * @warnings  [in, out] */
void kilni_constant_environment_read(const char *value, kilni_constant_limits *kinds,
                                     kilni_constant_warnings *warnings);
