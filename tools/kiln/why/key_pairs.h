/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs the parts of two keys for comparison: the n-th part of a name with the n-th of the same
 * name, except for the files of drivers. These are many parts of the same name, each of which
 * contains a file's name, and a different driver may have more or fewer of them. Each is compared
 * with the one that has the same file name, if neither key was stripped of them.
 */
#pragma once

#include <kiln/key.h>

/* Like kiln_key_difference; files that only @there has come last. */
void key_pairs_difference(const kiln_key *there, const kiln_key *wanted,
                          kiln_key_difference_fn report, void *user);
