/* SPDX-License-Identifier: Apache-2.0
 *
 * The patterns of KILN_KEY_ENV, as the library takes them.
 */
#pragma once

#include <kiln/config.h>

/* Returns a list ended by NULL. The caller frees the list; the configuration owns the texts. */
const char **key_patterns(const kiln_config *config);
