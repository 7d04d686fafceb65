/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of constants. They contain the context, so contexts never share constants.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* Returns true if kiln_constant_key_new made the key. */
bool kilni_is_constant_key(const kiln_key *key);

/* Returns the context of a key that kiln_constant_key_new made. */
uint64_t kilni_constant_key_context(const kiln_key *key);
