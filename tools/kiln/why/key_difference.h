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

/* Returns an array with an object for each part that differs. Its members are "name"; "change",
 * which is "changed", "added" (only @wanted has the part) or "removed" (only @there has it);
 * "there" and "wanted", the part in each key, or null; and "line", the first line that differs, if
 * both are texts and at least one of them is not short. */
json_t *key_difference_to_json(const kiln_key *there, const kiln_key *wanted);
