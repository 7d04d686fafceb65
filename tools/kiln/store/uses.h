/* SPDX-License-Identifier: Apache-2.0
 *
 * How often, and when, programs used each entry, as the store's journal says. An entry's file has
 * only the hour of its last use.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/journal.h>

typedef struct entry_use {
    kiln_digest digest;
    uint64_t count; /* how often it was found in the store */
    int64_t last_s; /* when it was last found or built, in Unix seconds */
} entry_use;

typedef struct store_uses {
    entry_use *items; /* in the order of their digests */
    size_t count, capacity;
} store_uses;

/* Reads the journal. Returns KILN_OK, or the reason why there are no uses: a status of
 * kiln_store_each_journal_event. @store may be NULL: there is no journal. The caller passes the
 * uses to uses_free in any case. */
kiln_status uses_read(kiln_store *store, store_uses *ret_uses);

/* Returns the uses of an entry; NULL: the journal does not name it. */
const entry_use *uses_of(const store_uses *uses, const kiln_digest *digest);

void uses_free(store_uses *uses);
