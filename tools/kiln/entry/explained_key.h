/* SPDX-License-Identifier: Apache-2.0
 *
 * A key, and what explains it. The key of an entry may consist of digests that say nothing to a
 * reader, such as the key that a Python framework computes itself. Such an entry has a second key
 * as its metadata, which nothing looks up: its parts name what the digests were made from.
 */
#pragma once

#include <stddef.h>

#include <kiln/entry.h>

typedef struct explained_key {
    kiln_key *key;
    kiln_key *explanation; /* NULL: the key explains itself */
} explained_key;

/* Returns the key of an entry; explained_key_free frees it. */
explained_key explained_key_of(const kiln_entry *entry);

/* Frees a key, and clears it. */
void explained_key_free(explained_key *key);
