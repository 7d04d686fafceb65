/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs the parts of two keys for comparison. The n-th part with a name is paired with the other
 * key's n-th part with the same name. The files of drivers are an exception. A key has a part for
 * each driver file. All these parts have the same name, but each contains the name of its file, and
 * a different driver can have more or fewer files. So each driver file is compared with the file
 * that has the same name in the other key, unless a key was stripped of file names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../entry/explained_key.h"

/* Does the same as kiln_key_difference, but compares these pairs. If both keys are explained, the
 * differences of the explanations are reported first. Files that are only in @there are reported
 * last. */
void key_pairs_difference(const explained_key *there, const explained_key *wanted,
                          kiln_key_difference_fn report, void *user);

/* Returns whether a part, which may be NULL, is a driver's file whose name is known. A stripped
 * part has no bytes, and so no name. */
bool key_pairs_is_file(const kiln_key_part *part);

/* Returns the size of the name at the beginning of a file's part. */
size_t key_pairs_file_name_size(const kiln_key_part *file);
