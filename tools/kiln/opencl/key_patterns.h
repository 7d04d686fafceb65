/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_KEY_ENV's patterns as the library takes them.
 */
#pragma once

#include <kiln/config.h>

/* NULL-ended; the caller frees the list, the configuration keeps the texts. */
const char **key_patterns(const kiln_config *config);
