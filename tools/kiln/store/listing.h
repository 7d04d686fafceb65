/* SPDX-License-Identifier: Apache-2.0
 *
 * The items of a store in an order that does not depend on how they are stored.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store_tools.h>

#include "entry_filter.h"

typedef struct listed_item {
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_status state; /* as in kiln_item_info */
    uint32_t kind;
    char *device, *name, *tool;
    char *driver; /* NULL: it was not asked for */
    uint64_t bytes, stored_bytes, build_ns;
    uint64_t uses; /* see store_uses; 0 without a journal */
    int64_t created_s;
    int64_t last_used_s; /* the journal's time, if that is later than the file's */
} listed_item;

typedef struct store_listing {
    listed_item *items; /* the most recently used first; items last used in the same second are
                           ordered by digest */
    size_t count, capacity;
    bool has_uses; /* there is a journal */
} store_listing;

/* Reads the headers of the items that a filter selects, without regard to its limit. @filter may be
 * NULL: all items. @store may be NULL: the listing is empty. Returns KILN_OK, or the status of
 * kiln_store_each. */
kiln_status listing_read(kiln_store *store, entry_filter *filter, store_listing *ret_listing);

/* Does the same for the items that a prefix matches, and for others if that is simpler. If the
 * prefix is a whole digest, the store looks it up. */
kiln_status listing_read_matching(kiln_store *store, const digest_prefix *prefix,
                                  store_listing *ret_listing);

/* Returns a value below 0 if @a comes first. */
typedef int listing_order(const listed_item *a, const listed_item *b);

/* Returns the order of that name: the newest first for "used" and "created"; the largest first for
 * "size" and "cost"; alphabetical for "name", "device", "kind" and "digest". NULL if there is no
 * such order. */
listing_order *listing_order_named(const char *name);

void listing_sort(store_listing *listing, listing_order *order);

/* Keeps the first items, as many as @limit says; 0: all. */
void listing_limit(store_listing *listing, size_t limit);

/* If the filter has a limit, lists the store and makes the filter select exactly the entries within
 * the limit, the most recently used ones. Returns what listing_read returns. */
kiln_status listing_choose(kiln_store *store, entry_filter *filter);

void listing_free(store_listing *listing);

/* Returns "ok", "corrupt" or "newer"; "newer" means that a newer version of Kiln made the item. */
const char *item_state_name(kiln_status state);

/* Returns whether a prefix matches any item. */
bool listing_has(const store_listing *listing, const digest_prefix *prefix);

/* Returns the one item that a prefix matches. If it matches none or more than one, reports that and
 * returns NULL with the exit code. */
const listed_item *listing_find(const store_listing *listing, const digest_prefix *prefix,
                                int *ret_exit_code);
