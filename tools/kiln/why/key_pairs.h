/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs the parts of two keys for comparison: the n-th part of a name is paired with the n-th part
 * of the same name, except for the files of drivers. Driver files are many parts of the same name,
 * each of which contains a file's name, and a different driver may have more or fewer of them. Each
 * driver file is compared with the file of the same name in the other key, unless a key was
 * stripped of file names.
 */
#pragma once

#include <kiln/key.h>

/* Does what kiln_key_difference does, but with these pairs. Files that are only in @there are
 * reported last. */
void key_pairs_difference(const kiln_key *there, const kiln_key *wanted,
                          kiln_key_difference_fn report, void *user);
