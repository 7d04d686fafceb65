/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes entries from a store, for `kiln rm` and `kiln clear`.
 */
#pragma once

#include <stdbool.h>

#include "entry_filter.h"

typedef struct removal_work {
    uint64_t removed;  /* entries */
    uint64_t requests; /* removed as well */
    uint64_t removed_bytes;
    uint64_t newer;  /* not removed: a newer version of Kiln made them */
    uint64_t failed; /* could not be removed; each was reported */
} removal_work;

/* Removes each item that the filter selects, without regard to its limit. Returns the status of
 * kiln_store_each. */
kiln_status removal_run(kiln_store *store, entry_filter *filter, removal_work *ret_removal);

/* Removes one item, and counts what was done. Reports a failure. */
void removal_take(removal_work *removal, kiln_item *item, const kiln_item_info *info,
                  const char *digest);

void removal_print(const removal_work *removal, bool json);
