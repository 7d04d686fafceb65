/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of constants. The context in them keeps contexts separate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/key.h>

/* Returns whether a key was made by kiln_constant_key_new. */
bool kilni_constant_key_is_one(const kiln_key *key);

/* Returns the context of such a key. */
uint64_t kilni_constant_key_context(const kiln_key *key);
