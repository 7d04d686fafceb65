/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of one key is compared with which of another: the n-th of a name with the n-th of that
 * name, but for the files of drivers. Those are many parts of one name, each with a file's name in
 * it, and another driver may have more of them or fewer: each is compared with the one that has the
 * same file's name, as far as neither key was stripped of them.
 */
#pragma once

#include <kiln/key.h>

/* As kiln_key_difference; files that only @there has come last. */
void key_pairs_difference(const kiln_key *there, const kiln_key *wanted,
                          kiln_key_difference_fn report, void *user);
