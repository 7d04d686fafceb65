/* SPDX-License-Identifier: Apache-2.0 */
#include "key_patterns.h"

#include <stdlib.h>

#include "../text/memory.h"

const char **key_patterns(const kiln_config *config)
{
    size_t count = 0;
    while (config->key_variables[count] != NULL) {
        count++;
    }
    const char **patterns = must(calloc(count + 1, sizeof *patterns));
    for (size_t i = 0; i < count; i++) {
        patterns[i] = config->key_variables[i];
    }
    return patterns;
}
