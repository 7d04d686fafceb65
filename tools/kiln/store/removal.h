/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing entries from a store, for `kiln rm` and `kiln clear`.
 */
#pragma once

#include <stdbool.h>

#include "listing.h"

typedef struct removal_work {
    uint64_t removed;  /* entries */
    uint64_t requests; /* removed too */
    uint64_t removed_bytes;
    uint64_t newer;  /* left alone: a newer version made them */
    uint64_t failed; /* each was named */
} removal_work;

/* Removes each item that one of the prefixes matches; an empty prefix matches all.
 * Returns what kiln_store_each says. */
kiln_status removal_run(kiln_store *store, const digest_prefix *prefixes, size_t prefix_count,
                        removal_work *ret_removal);

void removal_print(const removal_work *removal, bool json);
