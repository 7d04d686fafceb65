/* SPDX-License-Identifier: Apache-2.0
 *
 * One part of a key, for people and as JSON.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include <kiln/key.h>

/* Returns whether the part is text, which may have several lines. A stripped part is not. */
bool key_part_is_text(const kiln_key_part *part);

/* Returns whether the part is a text that key_part_value returns in full. */
bool key_part_is_short(const kiln_key_part *part);

/* Returns a short text for tables: the value in full if it is short. The caller frees it. */
char *key_part_value(const kiln_key_part *part);

/* Returns the part's name and size, and its value as text, hex or blake2b. More than 32 bytes that
 * are not text have no value. */
json_t *key_part_to_json(const kiln_key_part *part);
