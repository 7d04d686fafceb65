/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of a store whose keys are nearest to a key, for `kiln why`.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/store_tools.h>

#define NEIGHBOURS_MAX 3

typedef struct near_entry {
    kiln_key *key;
    char digest[KILN_DIGEST_TEXT_SIZE];
    char *name, *device;
    int64_t created_s;
    size_t parts;     /* that differ */
    size_t all_parts; /* that either key has */
    uint64_t bytes;   /* that differ, about: what decides who is nearest */
} near_entry;

typedef struct near_entries {
    near_entry nearest[NEIGHBOURS_MAX]; /* the nearest first */
    size_t count;
} near_entries;

/* Reads the keys of all sound entries but that of @digest itself.
 *
 * Returns KILN_OK, or what kiln_store_each says. */
kiln_status neighbours_find(kiln_store *store, const kiln_key *key, const char *digest,
                            near_entries *ret_neighbours);

void neighbours_free(near_entries *neighbours);
