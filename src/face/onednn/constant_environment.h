/* SPDX-License-Identifier: Apache-2.0
 *
 * The variable that sets capacities before a program does.
 */
#pragma once

#include <stddef.h>

#include "constant/limits.h"

#define KILNI_CONSTANT_VARIABLE "ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY"

enum { KILNI_CONSTANT_WARNINGS = 16, KILNI_CONSTANT_WARNING_SIZE = 240 };

/* What could not be understood. No memory is asked for it, since there may be none. */
typedef struct kilni_constant_warnings {
    size_t count; /* of all; behind the last line one stands for all further ones */
    char lines[KILNI_CONSTANT_WARNINGS + 1][KILNI_CONSTANT_WARNING_SIZE];
} kilni_constant_warnings;

/* Takes over what the pieces say, the last one for each kind; a malformed piece is complained of
 * and changes nothing.
 *
 * @value       NULL: not set
 * @kinds       [in, out] by kind, from 0
 * @warnings  [in, out] */
void kilni_constant_environment_read(const char *value, kilni_constant_limits *kinds,
                                     kilni_constant_warnings *warnings);
