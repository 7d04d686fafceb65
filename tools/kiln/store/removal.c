/* SPDX-License-Identifier: Apache-2.0 */
#include "removal.h"

#include <inttypes.h>
#include <stdio.h>

#include "../text/json.h"
#include "../text/memory.h"
#include "../text/output.h"
#include "../text/progress.h"
#include "../text/units.h"
#include "walk.h"

typedef struct removal_walk {
    entry_filter *filter;
    removal_work removal;
} removal_walk;

void removal_take(removal_work *removal, kiln_item *item, const kiln_item_info *info,
                  const char *digest)
{
    if (info->state == KILN_E_VERSION) {
        removal->newer++;
        return;
    }
    kiln_status status = kiln_item_remove(item);
    if (status == KILN_OK) {
        const bool is_request = info->kind == KILN_ENTRY_REQUEST;
        removal->removed += !is_request;
        removal->requests += is_request;
        removal->removed_bytes += info->stored_bytes;
    } else if (status == KILN_EXISTS) {
        removal->newer++;
    } else if (status != KILN_MISS) {
        removal->failed++;
        complain("%s: %s", digest, kiln_status_text(status));
    }
}

static int visit(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    removal_walk *walk = user;
    progress_step("looked at");
    if (entry_filter_selects_item(walk->filter, item, info)) {
        removal_take(&walk->removal, item, info, digest);
    }
    return 0;
}

kiln_status removal_run(kiln_store *store, entry_filter *filter, removal_work *ret_removal)
{
    removal_walk walk = {.filter = filter};
    kiln_status status = filter->is_chosen && filter->chosen_count == 1
                             ? walk_digest(store, filter->chosen[0], visit, &walk)
                             : walk_items(store, visit, &walk);
    progress_end();
    *ret_removal = walk.removal;
    return status;
}

void removal_print(const removal_work *removal, bool json)
{
    if (json) {
        json_t *object = must(json_object());
        json_add(object, "removed", json_number(removal->removed));
        json_add(object, "requests", json_number(removal->requests));
        json_add(object, "removed_bytes", json_number(removal->removed_bytes));
        json_add(object, "newer", json_number(removal->newer));
        json_add(object, "failed", json_number(removal->failed));
        json_print(stdout, object);
        return;
    }
    char size[UNIT_TEXT_SIZE];
    printf("%" PRIu64 " %s", removal->removed, noun_of(removal->removed, "entry", "entries"));
    if (removal->requests > 0) {
        printf(" and %" PRIu64 " %s", removal->requests,
               noun_of(removal->requests, "request", "requests"));
    }
    printf(" removed, %s\n", format_size(removal->removed_bytes, size));
    if (removal->newer > 0) {
        complain("%" PRIu64 " of a newer format were not removed", removal->newer);
    }
}
