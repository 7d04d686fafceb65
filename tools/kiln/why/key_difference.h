/* SPDX-License-Identifier: Apache-2.0
 *
 * What two keys differ in, part by part.
 */
#pragma once

#include <jansson.h>

#include <kiln/key.h>

/* A table of the parts in which @wanted is not as @there; of long texts the first line that
 * differs. */
void key_difference_print(const kiln_key *there, const kiln_key *wanted);

/* An array of objects: name, change ("changed", "added": only wanted has it, "removed": only the
 * other has it), there, wanted, and line where both are texts of several lines. */
json_t *key_difference_to_json(const kiln_key *there, const kiln_key *wanted);
