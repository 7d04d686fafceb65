/* SPDX-License-Identifier: Apache-2.0
 *
 * One part of a key in words.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include <kiln/key.h>

/* Whether a part's bytes are there and are text, of one line or more. */
bool key_part_is_text(const kiln_key_part *part);

/* Whether it is a text that key_part_value gives in full. */
bool key_part_is_short(const kiln_key_part *part);

/* A short text for tables, to be freed: the value in full where that is short. */
char *key_part_value(const kiln_key_part *part);

/* Name and size, and the value as text, hex or blake2b. */
json_t *key_part_to_json(const kiln_key_part *part);
