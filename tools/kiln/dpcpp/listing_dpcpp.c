/* SPDX-License-Identifier: Apache-2.0 */
#include "listing_dpcpp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/memory.h"
#include "../text/output.h"
#include "files.h"
#include "std_hash.h"

static void add_item(dpcpp_listing *listing, int descriptor, const item_directory *directory,
                     const cache_slot *slot)
{
    listing->items =
        array_grown(listing->items, listing->count, &listing->capacity, sizeof *listing->items);
    dpcpp_item *item = &listing->items[listing->count++];
    *item = (dpcpp_item){.directory = directory, .slot = slot, .path = slot_path(directory, slot)};
    snprintf(item->id, sizeof item->id, "%016" PRIx64, std_hash_of(item->path, strlen(item->path)));
    item_read(descriptor, directory, slot, ITEM_HEADS, &item->item);
}

static int last_used_first(const void *left, const void *right)
{
    const dpcpp_item *a = left;
    const dpcpp_item *b = right;
    if (a->item.last_access_ns != b->item.last_access_ns) {
        return a->item.last_access_ns > b->item.last_access_ns ? -1 : 1;
    }
    return strcmp(a->path, b->path);
}

void dpcpp_listing_read(const cache_tree *tree, dpcpp_listing *ret_listing)
{
    dpcpp_listing listing = {0};
    for (size_t i = 0; i < tree->directory_count; i++) {
        const item_directory *directory = &tree->directories[i];
        int descriptor = open_directory_below(tree->root, directory->path);
        if (descriptor < 0) {
            complain("%s: the directory can't be read", directory->path);
            continue;
        }
        for (size_t j = 0; j < directory->slot_count; j++) {
            if (slot_has_content(&directory->slots[j])) {
                add_item(&listing, descriptor, directory, &directory->slots[j]);
            }
        }
        close(descriptor);
    }
    if (listing.count > 0) {
        qsort(listing.items, listing.count, sizeof *listing.items, last_used_first);
    }
    *ret_listing = listing;
}

void dpcpp_listing_free(dpcpp_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->items[i].path);
        item_clear(&listing->items[i].item);
    }
    free(listing->items);
    *listing = (dpcpp_listing){0};
}

const char *dpcpp_item_state(const dpcpp_item *item)
{
    const cache_slot *slot = item->slot;
    if (slot->files[SLOT_LOCK].is_there) {
        return "locked";
    }
    if (!item->item.is_readable) {
        return "unreadable";
    }
    if (item->item.bin_fault != NULL || item->item.src_fault != NULL) {
        return "corrupt";
    }
    return item_is_whole(item->directory, slot, &item->item) ? "ok" : "half";
}

const char *dpcpp_item_kind(const dpcpp_item *item)
{
    static const char *const names[] = {
        [ITEM_IMAGE] = "image", [ITEM_SOURCE] = "source", [ITEM_IR] = "ir"};
    return names[item->directory->kind];
}

uint64_t dpcpp_item_stored_size(const dpcpp_item *item)
{
    uint64_t sum = 0;
    for (int i = 0; i < SLOT_FILES; i++) {
        sum += item->slot->files[i].stored_size;
    }
    return sum;
}
