/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the entries that a command works on, by --device, --name and prefixes of digests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "listing.h"

typedef struct entry_filter {
    const char *device, *name; /* texts that the entry's device and name must contain; NULL: any */
    const char *only;          /* a file of digests, as `kiln run --record` writes it; NULL: none */
    digest_prefix *prefixes;   /* one of these must match; none: any digest */
    uint64_t *matches;         /* how many selected entries each prefix matches */
    size_t prefix_count;
} entry_filter;

/* Reads prefixes as digest_prefix_parse does, and the digests in the file @filter->only. Ends the
 * tool if the file cannot be read or lists nothing. The caller passes the filter to
 * entry_filter_done.
 *
 * @operands  ended by NULL */
void entry_filter_read(entry_filter *filter, char **operands);

/* Returns whether an item is selected. Capture requests never are. */
bool entry_filter_selects(entry_filter *filter, const kiln_item_info *info);

/* Returns whether each prefix matched an entry. Reports the prefixes that did not. */
bool entry_filter_check(const entry_filter *filter);

void entry_filter_done(entry_filter *filter);
