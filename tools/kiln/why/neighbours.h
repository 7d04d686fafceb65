/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the entries whose keys are nearest to a given key. `kiln why` shows them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store_tools.h>

#include "../entry/explained_key.h"
#include "../store/entry_filter.h"

#define NEIGHBOURS_MAX 20

typedef struct near_entry {
    explained_key key;
    char digest[KILN_DIGEST_TEXT_SIZE];
    char *name, *device;
    int64_t created_s;
    size_t parts;     /* the number of parts that differ */
    size_t all_parts; /* the number of parts that are in at least one of the two keys */
    uint64_t bytes;   /* the distance, which is roughly the number of bytes that differ */
    bool is_of_other_device;
} near_entry;

typedef struct near_entries {
    near_entry nearest[NEIGHBOURS_MAX]; /* those of the same device first, then the nearest */
    size_t count;
} near_entries;

/* Reads the keys of all intact entries that a filter selects, except @digest's own, and finds the
 * nearest, as many as the filter's limit says. Returns KILN_OK, or the status of kiln_store_each.
 */
kiln_status neighbours_find(kiln_store *store, const explained_key *key, const char *digest,
                            entry_filter *filter, near_entries *ret_neighbours);

void neighbours_free(near_entries *neighbours);
