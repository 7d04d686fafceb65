/* SPDX-License-Identifier: Apache-2.0
 *
 * The differences of two keys, part by part.
 */
#pragma once

#include <jansson.h>

#include "../entry/explained_key.h"

/* Prints a table of the parts in which the keys differ. For long texts, the table shows the first
 * line that differs. If several files of drivers differ, they are in one row. */
void key_difference_print(const explained_key *there, const explained_key *wanted);

/* Returns an array with an object for each part that differs. "name" is the part's name. "change"
 * is "changed", "added" (only @wanted has the part) or "removed" (only @there has it). "there" and
 * "wanted" are the part in each key, or null. "line" is the first line that differs; it exists only
 * if both parts are texts, and at least one of them is not short. */
json_t *key_difference_to_json(const explained_key *there, const explained_key *wanted);
