/* SPDX-License-Identifier: Apache-2.0
 *
 * The differences of two keys, part by part.
 */
#pragma once

#include <jansson.h>

#include <kiln/key.h>

/* Prints a table of the parts in which the keys differ. For long texts it shows the first line that
 * differs. */
void key_difference_print(const kiln_key *there, const kiln_key *wanted);

/* Returns an array of objects with the members name, change ("changed"; "added": only @wanted has
 * it; "removed": only @there has it), there, wanted, and line if both are texts of several
 * lines. */
json_t *key_difference_to_json(const kiln_key *there, const kiln_key *wanted);
