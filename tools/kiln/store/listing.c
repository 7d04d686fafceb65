/* SPDX-License-Identifier: Apache-2.0 */
#include "listing.h"

#include <stdlib.h>
#include <string.h>

#include "../entry/driver.h"
#include "../text/exit_code.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "uses.h"
#include "walk.h"

typedef struct listing_walk {
    entry_filter *filter; /* NULL: all items */
    store_uses uses;
    store_listing listing;
} listing_walk;

static int take_item(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    progress_step("listed");
    listing_walk *walk = user;
    store_listing *listing = &walk->listing;
    const entry_use *use = uses_of(&walk->uses, &info->digest);
    kiln_item_info seen = *info;
    if (use != NULL && use->last_s > seen.last_used_s) {
        seen.last_used_s = use->last_s;
    }
    char *driver = walk->filter != NULL && walk->filter->reads_drivers ? driver_of(item) : NULL;
    if (walk->filter != NULL && !entry_filter_selects(walk->filter, &seen, driver)) {
        free(driver);
        return 0;
    }
    listing->items =
        array_grown(listing->items, listing->count, &listing->capacity, sizeof *listing->items);
    listed_item *listed = &listing->items[listing->count++];
    *listed = (listed_item){
        .state = info->state,
        .kind = info->kind,
        .device = must(strdup(info->device)),
        .name = must(strdup(info->name)),
        .tool = must(strdup(info->tool)),
        .driver = driver,
        .bytes = info->bytes,
        .stored_bytes = info->stored_bytes,
        .build_ns = info->build_ns,
        .uses = use != NULL ? use->count : 0,
        .created_s = info->created_s,
        .last_used_s = seen.last_used_s,
    };
    memcpy(listed->digest, digest, sizeof listed->digest);
    return 0;
}

/* ---- orders; equal items are ordered by their digests ---- */

static int by_digest(const listed_item *a, const listed_item *b)
{
    return strcmp(a->digest, b->digest);
}

static int by_use(const listed_item *a, const listed_item *b)
{
    return (a->last_used_s < b->last_used_s) - (a->last_used_s > b->last_used_s);
}

static int by_creation(const listed_item *a, const listed_item *b)
{
    return (a->created_s < b->created_s) - (a->created_s > b->created_s);
}

static int by_size(const listed_item *a, const listed_item *b)
{
    return (a->stored_bytes < b->stored_bytes) - (a->stored_bytes > b->stored_bytes);
}

static int by_cost(const listed_item *a, const listed_item *b)
{
    return (a->build_ns < b->build_ns) - (a->build_ns > b->build_ns);
}

static int by_name(const listed_item *a, const listed_item *b)
{
    return strcmp(a->name, b->name);
}

static int by_device(const listed_item *a, const listed_item *b)
{
    return strcmp(a->device, b->device);
}

static int by_kind(const listed_item *a, const listed_item *b)
{
    return strcmp(kiln_entry_kind_name(a->kind), kiln_entry_kind_name(b->kind));
}

static const struct {
    const char *name;
    listing_order *order;
} orders[] = {
    {"used", by_use},  {"created", by_creation}, {"size", by_size}, {"cost", by_cost},
    {"name", by_name}, {"device", by_device},    {"kind", by_kind}, {"digest", by_digest},
};

listing_order *listing_order_named(const char *name)
{
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (strcmp(orders[i].name, name) == 0) {
            return orders[i].order;
        }
    }
    return NULL;
}

static int compare_items(const void *left, const void *right, void *order)
{
    listing_order *compare = *(listing_order **)order;
    int result = compare(left, right);
    return result != 0 ? result : by_digest(left, right);
}

void listing_sort(store_listing *listing, listing_order *order)
{
    if (listing->count > 0) {
        qsort_r(listing->items, listing->count, sizeof *listing->items, compare_items, &order);
    }
}

/* @digest  NULL: that of any item */
static kiln_status read_items(kiln_store *store, entry_filter *filter, const char *digest,
                              store_listing *ret_listing)
{
    listing_walk walk = {.filter = filter};
    walk.listing.has_uses = uses_read(store, &walk.uses) == KILN_OK;
    kiln_status status = digest == NULL ? walk_items(store, take_item, &walk)
                                        : walk_digest(store, digest, take_item, &walk);
    progress_end();
    uses_free(&walk.uses);
    if (status != KILN_OK) {
        listing_free(&walk.listing);
        return status;
    }
    listing_sort(&walk.listing, by_use);
    *ret_listing = walk.listing;
    return KILN_OK;
}

kiln_status listing_read(kiln_store *store, entry_filter *filter, store_listing *ret_listing)
{
    return read_items(store, filter, NULL, ret_listing);
}

kiln_status listing_read_matching(kiln_store *store, const digest_prefix *prefix,
                                  store_listing *ret_listing)
{
    return read_items(store, NULL, digest_prefix_is_whole(prefix) ? prefix->text : NULL,
                      ret_listing);
}

static void free_item(listed_item *item)
{
    free(item->device);
    free(item->name);
    free(item->tool);
    free(item->driver);
}

void listing_limit(store_listing *listing, size_t limit)
{
    while (limit > 0 && listing->count > limit) {
        free_item(&listing->items[--listing->count]);
    }
}

kiln_status listing_choose(kiln_store *store, entry_filter *filter)
{
    store_listing listing;
    if (filter->limit == 0) {
        return KILN_OK;
    }
    const kiln_status status = listing_read(store, filter, &listing);
    if (status != KILN_OK) {
        return status;
    }
    listing_limit(&listing, filter->limit);
    for (size_t i = 0; i < listing.count; i++) {
        entry_filter_choose(filter, listing.items[i].digest);
    }
    entry_filter_choose_end(filter);
    listing_free(&listing);
    return KILN_OK;
}

void listing_free(store_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free_item(&listing->items[i]);
    }
    free(listing->items);
    *listing = (store_listing){0};
}

const char *item_state_name(kiln_status state)
{
    return state == KILN_OK ? "ok" : state == KILN_E_VERSION ? "newer" : "corrupt";
}

bool listing_has(const store_listing *listing, const digest_prefix *prefix)
{
    for (size_t i = 0; i < listing->count; i++) {
        if (digest_prefix_matches(prefix, listing->items[i].digest)) {
            return true;
        }
    }
    return false;
}

static void report_several(const store_listing *listing, const digest_prefix *prefix)
{
    complain("'%s' matches several entries:", prefix->text);
    for (size_t i = 0; i < listing->count; i++) {
        const listed_item *item = &listing->items[i];
        if (digest_prefix_matches(prefix, item->digest)) {
            complain("  %s %s %s", item->digest, kiln_entry_kind_name(item->kind), item->name);
        }
    }
}

const listed_item *listing_find(const store_listing *listing, const digest_prefix *prefix,
                                int *ret_exit_code)
{
    const listed_item *found = NULL;
    for (size_t i = 0; i < listing->count; i++) {
        if (!digest_prefix_matches(prefix, listing->items[i].digest)) {
            continue;
        }
        if (found != NULL) {
            report_several(listing, prefix);
            *ret_exit_code = EXIT_USAGE;
            return NULL;
        }
        found = &listing->items[i];
    }
    if (found == NULL) {
        complain("no entry begins with '%s'", prefix->text);
        *ret_exit_code = EXIT_NOTHING_FOUND;
    }
    return found;
}
