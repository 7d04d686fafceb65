/* SPDX-License-Identifier: Apache-2.0 */
#include "stale.h"

#include <time.h>

#include "../opencl/installed_drivers.h"
#include "../text/progress.h"
#include "device_lists.h"
#include "listing.h"
#include "walk.h"

typedef struct stale_walk {
    installed_drivers *drivers;
    device_uses devices;
    int64_t unseen_since_s; /* a device is gone if its last use was before this time */
    entry_filter *filter;
    bool dry_run;
    stale_count count;
    kiln_status status;
} stale_walk;

static void remove_stale(stale_walk *walk, kiln_item *item, const kiln_item_info *info)
{
    const kiln_status status = walk->dry_run ? KILN_OK : kiln_item_remove(item);
    if (status == KILN_OK) {
        walk->count.stale++;
        walk->count.stale_bytes += info->stored_bytes;
    } else if (status != KILN_MISS && status != KILN_EXISTS) {
        walk->status = status;
    }
}

typedef enum verdict { KEPT, STALE, UNKNOWN } verdict;

/* Judges an entry whose driver is not installed here by the uses of its device.
 *
 * @replaced  the driver is replaced here, but other machines of the store's servers may have it */
static verdict judge_device(const stale_walk *walk, const kiln_item_info *info, bool is_replaced)
{
    const known_use *use =
        info->kind == KILN_ENTRY_PROGRAM ? device_uses_find(&walk->devices, info->device) : NULL;
    if (use == NULL || (use->record != KILN_OK && use->record != KILN_E_UNSUPPORTED)) {
        return UNKNOWN;
    }
    const bool is_alone = use->record == KILN_E_UNSUPPORTED;
    if (use->last_s < walk->unseen_since_s || (is_alone && is_replaced)) {
        return STALE;
    }
    return is_alone ? UNKNOWN : KEPT;
}

static verdict judge(const stale_walk *walk, kiln_item *item, const kiln_item_info *info)
{
    kiln_entry *entry = NULL;
    const kiln_status status = kiln_item_read(item, &entry);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KEPT : UNKNOWN;
    }
    const driver_verdict driver =
        installed_drivers_compare(walk->drivers, kiln_entry_key(entry), info->last_used_s);
    kiln_entry_release(&entry);
    return driver == DRIVER_INSTALLED ? KEPT : judge_device(walk, info, driver == DRIVER_REPLACED);
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)digest;
    stale_walk *walk = user;
    progress_step("examined");
    if (!entry_filter_selects_item(walk->filter, item, info)) {
        return 0;
    }
    const verdict found = judge(walk, item, info);
    walk->count.unknown += found == UNKNOWN;
    if (found == STALE) {
        remove_stale(walk, item, info);
    }
    return 0;
}

kiln_status stale_remove(kiln_store *store, entry_filter *filter, const stale_terms *terms,
                         stale_count *ret_count)
{
    stale_walk walk = {.unseen_since_s = (int64_t)time(NULL) - (int64_t)terms->unseen_s,
                       .filter = filter,
                       .dry_run = terms->dry_run};
    store_listing listing;
    kiln_status status = listing_read(store, NULL, &listing);
    if (status != KILN_OK) {
        return status;
    }
    device_uses_read(store, &listing, &walk.devices);
    listing_free(&listing);
    if (terms->lists != NULL) {
        status = device_lists_add(terms->lists, &walk.devices);
    }
    if (status == KILN_OK) {
        walk.drivers = installed_drivers_find();
        status = walk_items(store, visit, &walk);
        progress_end();
        installed_drivers_free(walk.drivers);
    }
    device_uses_free(&walk.devices);
    *ret_count = walk.count;
    return status == KILN_OK ? walk.status : status;
}
