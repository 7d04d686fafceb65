/* SPDX-License-Identifier: Apache-2.0
 *
 * The items of a cache of the SYCL runtime, last used first, with what their heads tell.
 */
#pragma once

#include "item.h"

#define ITEM_ID_SIZE 17

typedef struct dpcpp_item {
    const item_directory *directory;
    const cache_slot *slot;
    char *path;
    char id[ITEM_ID_SIZE]; /* the hash of its path, in hexadecimal digits */
    slot_item item;
} dpcpp_item;

typedef struct dpcpp_listing {
    dpcpp_item *items;
    size_t count, capacity;
} dpcpp_listing;

/* The listing is good as long as the tree. */
void dpcpp_listing_read(const cache_tree *tree, dpcpp_listing *ret_listing);

void dpcpp_listing_free(dpcpp_listing *listing);

/* "ok", "locked", "half", "corrupt", "unreadable", as far as the heads tell. */
const char *dpcpp_item_state(const dpcpp_item *item);

/* "image", "source", "ir". */
const char *dpcpp_item_kind(const dpcpp_item *item);

/* Bytes on the disk, of all its files. */
uint64_t dpcpp_item_stored_size(const dpcpp_item *item);
