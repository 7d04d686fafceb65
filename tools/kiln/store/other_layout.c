/* SPDX-License-Identifier: Apache-2.0 */
#include "other_layout.h"

#include <stdlib.h>

#include <kiln/entry.h>
#include <kiln/store_tools.h>

#include "../command/location.h"
#include "../text/memory.h"
#include "../text/output.h"

/* Requests have the same place in all layouts, so they do not count. */
static int note_entry(void *user, kiln_item *item)
{
    bool *found = user;
    kiln_item_info info = {.struct_size = sizeof info};
    *found = kiln_item_get_info(item, &info) == KILN_OK && info.kind != KILN_ENTRY_REQUEST;
    return *found;
}

static bool has_entries(kiln_store *store)
{
    bool found = false;
    kiln_store_each(store, note_entry, &found);
    return found;
}

static bool has_entries_at(const char *location)
{
    const kiln_store_params params = {
        .struct_size = sizeof params,
        .flags = KILN_STORE_READONLY | KILN_STORE_NO_CREATE,
    };
    kiln_store *store = NULL;
    const bool found =
        kiln_store_open(location, &params, &store, NULL) == KILN_OK && has_entries(store);
    kiln_store_close(&store);
    return found;
}

char *other_layout_find(const cache_directory *directory, const char **ret_layout)
{
    static const char *const layouts[] = {"sycl", "onednn"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        char *location = location_with_layout(directory->path, layouts[i]);
        if (location != NULL && has_entries_at(location)) {
            *ret_layout = layouts[i];
            return location;
        }
        free(location);
    }
    return NULL;
}

bool other_layout_has_all(const cache_directory *directory)
{
    if (directory->store == NULL || has_entries(directory->store)) {
        return false;
    }
    const char *layout;
    owned char *location = other_layout_find(directory, &layout);
    if (location != NULL) {
        complain("the cache in %s has entries in layout %s: --dir '%s' selects them",
                 directory->path, layout, location);
    }
    return location != NULL;
}
