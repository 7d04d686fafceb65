/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries whose builds will be repeated, in the order in which that is most useful.
 */
#pragma once

#include <stdbool.h>

#include "../store/entry_filter.h"
#include "recipe.h"

typedef struct work_item {
    char digest[KILN_DIGEST_TEXT_SIZE];
    char *name, *device;
    kiln_key *key; /* stripped, since it is needed only to read the entry again */
    uint64_t build_ns;
    uint64_t uses; /* of all entries of the same build; 0 without a journal */
    int64_t last_used_s;
    kiln_digest inputs; /* equal for entries of the same build for different drivers */
} work_item;

typedef struct work_list {
    work_item *items;
    size_t count, capacity;
    uint64_t unreadable; /* entries that are damaged or that nothing authenticates */
} work_list;

/* Finds the selected entries. If several are of the same build, takes the one that was used last.
 *
 * @architecture  for which the compilers of its vendor will compile, whatever the entries'
 *                architectures are; NULL: those of the entries */
kiln_status work_list_read(kiln_store *store, entry_filter *filter, const char *architecture,
                           work_list *ret_list);

void work_list_free(work_list *list);

/* Returns a digest that is equal for entries of the same build for different drivers.
 *
 * @architecture  as for work_list_read */
kiln_digest work_list_inputs_of(const kiln_key *key, const char *architecture);
