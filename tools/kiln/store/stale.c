/* SPDX-License-Identifier: Apache-2.0 */
#include "stale.h"
#include "../opencl/installed_drivers.h"
#include "../text/progress.h"
#include "walk.h"

typedef struct stale_walk {
    installed_drivers *drivers;
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

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)digest;
    stale_walk *walk = user;
    kiln_entry *entry = NULL;
    progress_step("examined");
    if (!entry_filter_selects_item(walk->filter, item, info)) {
        return 0;
    }
    const kiln_status status = kiln_item_read(item, &entry);
    if (status != KILN_OK) {
        walk->count.unknown += status != KILN_MISS;
        return 0;
    }
    const driver_verdict verdict =
        installed_drivers_compare(walk->drivers, kiln_entry_key(entry), info->last_used_s);
    kiln_entry_release(&entry);
    walk->count.unknown += verdict == DRIVER_UNKNOWN;
    if (verdict == DRIVER_REPLACED) {
        remove_stale(walk, item, info);
    }
    return 0;
}

kiln_status stale_remove(kiln_store *store, entry_filter *filter, bool dry_run,
                         stale_count *ret_count)
{
    stale_walk walk = {.filter = filter, .dry_run = dry_run, .drivers = installed_drivers_find()};
    const kiln_status status = walk_items(store, visit, &walk);
    progress_end();
    installed_drivers_free(walk.drivers);
    *ret_count = walk.count;
    return status == KILN_OK ? walk.status : status;
}
