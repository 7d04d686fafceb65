/* SPDX-License-Identifier: Apache-2.0
 *
 * The items of a store in an order that does not depend on how they are stored, and prefixes of
 * digests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/store_tools.h>

typedef struct listed_item {
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_status state; /* as in kiln_item_info */
    uint32_t kind;
    char *device, *name;
    uint64_t bytes, stored_bytes, build_ns;
    int64_t created_s, last_used_s;
} listed_item;

typedef struct store_listing {
    listed_item *items; /* the most recently used first; items last used in the same second are
                           ordered by digest */
    size_t count, capacity;
} store_listing;

/* Reads the headers of all items. @store may be NULL: the listing is empty. Returns KILN_OK, or the
 * status of kiln_store_each. */
kiln_status listing_read(kiln_store *store, store_listing *ret_listing);

/* Returns a value below 0 if @a comes first. */
typedef int listing_order(const listed_item *a, const listed_item *b);

/* Returns the order of that name: the newest first for "used" and "created"; the largest first for
 * "size" and "cost"; alphabetical for "name", "device", "kind" and "digest". NULL if there is no
 * such order. */
listing_order *listing_order_named(const char *name);

void listing_sort(store_listing *listing, listing_order *order);

void listing_free(store_listing *listing);

/* Returns "ok", "corrupt" or "newer"; "newer" means that a newer version of Kiln made the item. */
const char *item_state_name(kiln_status state);

/* The first digits of a digest, in lower case. */
typedef struct digest_prefix {
    char text[KILN_DIGEST_TEXT_SIZE];
    size_t length;
} digest_prefix;

#define DIGEST_PREFIX_MIN 4

/* Reads DIGEST_PREFIX_MIN to 32 hexadecimal digits. For anything else, prints a message and ends
 * the tool with EXIT_USAGE. */
digest_prefix digest_prefix_parse(const char *text);

bool digest_prefix_matches(const digest_prefix *prefix, const char *digest);

/* Returns whether a prefix matches any item. */
bool listing_has(const store_listing *listing, const digest_prefix *prefix);

/* Returns the one item that a prefix matches. If it matches none or more than one, reports that and
 * returns NULL with the exit code. */
const listed_item *listing_find(const store_listing *listing, const digest_prefix *prefix,
                                int *ret_exit_code);
