/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs the parts of two keys for comparison. The n-th part with a name is paired with the other
 * key's n-th part with the same name. The files of drivers are an exception. A key has a part for
 * each driver file. All these parts have the same name, but each contains the name of its file, and
 * a different driver can have more or fewer files. So each driver file is compared with the file
 * that has the same name in the other key, unless a key was stripped of file names.
 */
#pragma once

#include <kiln/key.h>

/* Does the same as kiln_key_difference, but compares these pairs. Files that are only in @there are
 * reported last. */
void key_pairs_difference(const kiln_key *there, const kiln_key *wanted,
                          kiln_key_difference_fn report, void *user);
