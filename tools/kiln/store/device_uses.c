/* SPDX-License-Identifier: Apache-2.0 */
#include "device_uses.h"

#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"
#include "../text/output.h"

static int by_device(const void *left, const void *right)
{
    return strcmp(((const known_use *)left)->device, ((const known_use *)right)->device);
}

/* Keeps one of several uses of each device: the last. */
static void merge(device_uses *uses)
{
    size_t kept = 0;
    qsort(uses->uses, uses->count, sizeof *uses->uses, by_device);
    for (size_t i = 0; i < uses->count; i++) {
        known_use *last = kept == 0 ? NULL : &uses->uses[kept - 1];
        if (last == NULL || by_device(last, &uses->uses[i]) != 0) {
            uses->uses[kept++] = uses->uses[i];
            continue;
        }
        last->last_s = uses->uses[i].last_s > last->last_s ? uses->uses[i].last_s : last->last_s;
        free(uses->uses[i].device);
    }
    uses->count = kept;
}

static void add_records(kiln_store *store, device_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++) {
        known_use *use = &uses->uses[i];
        int64_t recorded_s = 0;
        use->record = kiln_store_get_device_use(store, use->device, &recorded_s);
        if (use->record == KILN_OK && recorded_s > use->last_s) {
            use->last_s = recorded_s;
        }
        if (use->record != KILN_OK && use->record != KILN_MISS &&
            use->record != KILN_E_UNSUPPORTED) {
            complain("%s: when it was last in use is not known: %s", use->device,
                     kiln_status_text(use->record));
        }
    }
}

void device_uses_read(kiln_store *store, const store_listing *listing, device_uses *ret_uses)
{
    *ret_uses = (device_uses){0};
    for (size_t i = 0; i < listing->count; i++) {
        const listed_item *item = &listing->items[i];
        if (item->kind != KILN_ENTRY_PROGRAM || item->device[0] == '\0') {
            continue;
        }
        ret_uses->uses = array_grown(ret_uses->uses, ret_uses->count, &ret_uses->capacity,
                                     sizeof *ret_uses->uses);
        ret_uses->uses[ret_uses->count++] =
            (known_use){.device = must(strdup(item->device)), .last_s = item->last_used_s};
    }
    if (ret_uses->count > 0) {
        merge(ret_uses);
        add_records(store, ret_uses);
    }
}

known_use *device_uses_find(const device_uses *uses, const char *device)
{
    known_use wanted = {.device = must(strdup(device))};
    known_use *found =
        uses->count > 0 ? bsearch(&wanted, uses->uses, uses->count, sizeof *uses->uses, by_device)
                        : NULL;
    free(wanted.device);
    return found;
}

void device_uses_free(device_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++) {
        free(uses->uses[i].device);
    }
    free(uses->uses);
}
