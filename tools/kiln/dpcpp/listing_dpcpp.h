/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the items of a cache of the SYCL runtime, with the contents of their headers. The most
 * recently used item is first.
 */
#pragma once

#include "item.h"

#define ITEM_ID_SIZE 17

typedef struct dpcpp_item {
    const item_directory *directory;
    const cache_slot *slot;
    char *path;
    char id[ITEM_ID_SIZE]; /* the hash of the path, in hexadecimal digits */
    slot_item item;
} dpcpp_item;

typedef struct dpcpp_listing {
    dpcpp_item *items;
    size_t count, capacity;
} dpcpp_listing;

/* Lists the items. The listing points into the tree. */
void dpcpp_listing_read(const cache_tree *tree, dpcpp_listing *ret_listing);

void dpcpp_listing_free(dpcpp_listing *listing);

/* Returns "ok", "locked", "half", "corrupt" or "unreadable", as far as the headers show. */
const char *dpcpp_item_state(const dpcpp_item *item);

/* Returns "image", "source" or "ir". */
const char *dpcpp_item_kind(const dpcpp_item *item);

/* Returns how many bytes all files of the item take on disk. */
uint64_t dpcpp_item_stored_size(const dpcpp_item *item);
