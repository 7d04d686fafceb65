/* SPDX-License-Identifier: Apache-2.0
 *
 * The items of a store in an order that does not depend on its walk, and digests by their
 * beginning.
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
    char *device, *name, *tool;
    uint64_t bytes, stored_bytes, build_ns;
    int64_t created_s, last_used_s;
} listed_item;

typedef struct store_listing {
    listed_item *items; /* last used first; those of one second by digest */
    size_t count;
} store_listing;

/* Reads the heads of all items. @store may be NULL: an empty listing.
 * Returns KILN_OK, or what kiln_store_each says. */
kiln_status listing_read(kiln_store *store, store_listing *ret_listing);

/* Which of two comes first: below 0, the first one. */
typedef int listing_order(const listed_item *a, const listed_item *b);

/* The newest first: "used", "created"; the largest first: "size", "cost"; by the alphabet: "name",
 * "device", "kind", "digest". NULL: no such order. */
listing_order *listing_order_named(const char *name);

void listing_sort(store_listing *listing, listing_order *order);

void listing_free(store_listing *listing);

/* "ok", "corrupt", "newer": stays as it is, for a newer version to read. */
const char *item_state_name(kiln_status state);

/* The beginning of a digest, in lower case. */
typedef struct digest_prefix {
    char text[KILN_DIGEST_TEXT_SIZE];
    size_t length;
} digest_prefix;

#define DIGEST_PREFIX_MIN 4

/* Reads DIGEST_PREFIX_MIN to 32 hexadecimal digits; false for anything else, which it names. */
bool digest_prefix_parse(const char *text, digest_prefix *ret_prefix);

bool digest_prefix_matches(const digest_prefix *prefix, const char *digest);

/* The one item that a prefix stands for. Where there is none, or more than one, says so and
 * returns NULL with what to exit with. */
const listed_item *listing_find(const store_listing *listing, const digest_prefix *prefix,
                                int *ret_exit_code);
