/* SPDX-License-Identifier: Apache-2.0
 *
 * The builds of a period that took the most time, and why each was not found: in one line, what
 * differs from the nearest entry of the same device.
 */
#pragma once

#include "history.h"

#define CAUSES_MAX 25

typedef struct miss_cause {
    built_key *key; /* of the history */
    char *text;
} miss_cause;

/* What the store contains. */
typedef struct store_contents {
    uint64_t entries, bytes;
    int64_t oldest_s, newest_s; /* when entries were created; 0: there are none */
    uint64_t unused;            /* entries that were not used for 30 days */
} store_contents;

typedef struct miss_causes {
    miss_cause items[CAUSES_MAX]; /* those that lost the most time first */
    size_t count;
    store_contents contents;
} miss_causes;

/* Reads the headers of all entries, and the keys of those that may be near to a miss. Also
 * completes the history: sets the names of devices and programs that the journal does not have.
 * Returns KILN_OK, or the status of kiln_store_each. */
kiln_status causes_find(kiln_store *store, use_history *history, miss_causes *ret_causes);

void causes_free(miss_causes *causes);
