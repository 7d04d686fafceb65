/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows one part of a key as text or as JSON.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include <kiln/key.h>

/* Returns true if the part is text, which can have several lines. Returns false for a stripped
 * part. */
bool key_part_is_text(const kiln_key_part *part);

/* Returns true if the part is text, and short enough for key_part_value to return it in full. */
bool key_part_is_short(const kiln_key_part *part);

/* Returns a text for tables, which contains the whole value only if that is short. The caller frees
 * it. */
char *key_part_value(const kiln_key_part *part);

/* Returns an object with the part's name, size and value. The value is text, hex or blake2b. A part
 * of more than 32 bytes that is not text has no value. */
json_t *key_part_to_json(const kiln_key_part *part);
