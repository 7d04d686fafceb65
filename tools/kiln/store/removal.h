/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing entries from a store, for `kiln rm` and `kiln clear`.
 */
#pragma once

#include <stdbool.h>

#include "listing.h"

struct removal {
    uint64_t removed;  /* entries */
    uint64_t requests; /* removed too */
    uint64_t removed_bytes;
    uint64_t newer;  /* left alone: a newer version made them */
    uint64_t failed; /* each was named */
};

/* Removes each item that one of the prefixes matches; an empty prefix matches all.
 * Returns what kiln_store_each says. */
kiln_status removal_run(kiln_store *store, const struct digest_prefix *prefixes,
                        size_t prefix_count, struct removal *ret_removal);

void removal_print(const struct removal *removal, bool json);
