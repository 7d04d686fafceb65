/* SPDX-License-Identifier: Apache-2.0 */
#include "stale.h"

#include "installed_drivers.h"
#include "progress.h"

struct walk {
    struct installed_drivers *drivers;
    bool dry_run;
    struct stale_count count;
    kiln_status status;
};

static void remove_stale(struct walk *walk, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    const bool is_told = kiln_item_get_info(item, &info) == KILN_OK;
    const kiln_status status = walk->dry_run ? KILN_OK : kiln_item_remove(item);
    if (status == KILN_OK) {
        walk->count.stale++;
        walk->count.stale_bytes += is_told ? info.stored_bytes : 0;
    } else if (status != KILN_MISS && status != KILN_EXISTS) {
        walk->status = status;
    }
}

static int visit(void *user, kiln_item *item)
{
    struct walk *walk = user;
    kiln_entry *entry = NULL;
    progress_step("judged");
    const kiln_status status = kiln_item_read(item, &entry);
    if (status != KILN_OK) {
        walk->count.untold += status != KILN_MISS; /* else it went meanwhile */
        return 0;
    }
    const bool is_request = kiln_entry_kind_of(entry) == KILN_ENTRY_REQUEST;
    const enum driver_verdict verdict =
        installed_drivers_judge(walk->drivers, kiln_entry_key(entry));
    kiln_entry_release(&entry);
    walk->count.untold += verdict == DRIVER_UNTOLD && !is_request;
    if (verdict == DRIVER_REPLACED && !is_request) {
        remove_stale(walk, item);
    }
    return 0;
}

kiln_status stale_remove(kiln_store *store, bool dry_run, struct stale_count *ret_count)
{
    struct walk walk = {.dry_run = dry_run, .drivers = installed_drivers_find()};
    const kiln_status status = kiln_store_each(store, visit, &walk);
    progress_end();
    installed_drivers_free(walk.drivers);
    *ret_count = walk.count;
    return status == KILN_OK ? walk.status : status;
}
