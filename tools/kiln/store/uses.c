/* SPDX-License-Identifier: Apache-2.0 */
#include "uses.h"

#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

#define NS_PER_S 1000000000

static int take_event(void *user, const kiln_journal_event *event)
{
    store_uses *uses = user;
    if (event->kind != KILN_JOURNAL_HIT && event->kind != KILN_JOURNAL_BUILD) {
        return 0;
    }
    uses->items = array_grown(uses->items, uses->count, &uses->capacity, sizeof *uses->items);
    uses->items[uses->count++] = (entry_use){
        .digest = event->digest,
        .count = event->kind == KILN_JOURNAL_HIT ? event->count : 0,
        .last_s = event->time_ns / NS_PER_S,
    };
    return 0;
}

static int compare_digests(const void *left, const void *right)
{
    const entry_use *a = left, *b = right;
    return memcmp(&a->digest, &b->digest, sizeof a->digest);
}

/* Adds up the items with the same digest. */
static void merge(store_uses *uses)
{
    size_t kept = 0;
    for (size_t i = 1; i < uses->count; i++) {
        entry_use *sum = &uses->items[kept];
        const entry_use *item = &uses->items[i];
        if (compare_digests(sum, item) != 0) {
            uses->items[++kept] = *item;
        } else {
            sum->count += item->count;
            sum->last_s = item->last_s > sum->last_s ? item->last_s : sum->last_s;
        }
    }
    uses->count = kept + 1;
}

kiln_status uses_read(kiln_store *store, store_uses *ret_uses)
{
    *ret_uses = (store_uses){0};
    const kiln_status status =
        store == NULL ? KILN_MISS
                      : kiln_store_each_journal_event(store, take_event, ret_uses, NULL);
    if (ret_uses->count > 0) {
        qsort(ret_uses->items, ret_uses->count, sizeof *ret_uses->items, compare_digests);
        merge(ret_uses);
    }
    return status;
}

const entry_use *uses_of(const store_uses *uses, const kiln_digest *digest)
{
    const entry_use wanted = {.digest = *digest};
    return uses->count == 0
               ? NULL
               : bsearch(&wanted, uses->items, uses->count, sizeof *uses->items, compare_digests);
}

void uses_free(store_uses *uses)
{
    free(uses->items);
    *uses = (store_uses){0};
}
