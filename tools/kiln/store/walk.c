/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include <string.h>

#include "../command/location.h"
#include "../text/progress.h"

typedef struct item_walk {
    walk_step *step;
    void *user;
} item_walk;

static int visit(void *user, kiln_item *item)
{
    const item_walk *walk = user;
    kiln_item_info info = {.struct_size = sizeof info};
    char digest[KILN_DIGEST_TEXT_SIZE];
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return 0; /* it was removed meanwhile */
    }
    kiln_digest_format(&info.digest, digest);
    return walk->step(walk->user, item, &info, digest);
}

kiln_status walk_items(kiln_store *store, walk_step *step, void *user)
{
    item_walk walk = {.step = step, .user = user};
    return store == NULL ? KILN_OK : kiln_store_each(store, visit, &walk);
}

kiln_status walk_digest(kiln_store *store, const char *digest, walk_step *step, void *user)
{
    item_walk walk = {.step = step, .user = user};
    kiln_digest wanted;
    const kiln_status status = kiln_digest_parse(digest, &wanted);
    return status != KILN_OK ? status : kiln_store_each_of_digest(store, &wanted, visit, &walk);
}

typedef struct wanted_entry {
    kiln_status read;
    kiln_entry *entry;
} wanted_entry;

static int read_first(void *user, kiln_item *item, const kiln_item_info *info, const char *digest)
{
    (void)info, (void)digest;
    wanted_entry *wanted = user;
    wanted->read = kiln_item_read(item, &wanted->entry);
    return 1;
}

kiln_status walk_to_entry(kiln_store *store, const char *digest, kiln_status *ret_read,
                          kiln_entry **ret_entry)
{
    wanted_entry wanted = {.read = KILN_MISS};
    const kiln_status status = walk_digest(store, digest, read_first, &wanted);
    *ret_read = wanted.read;
    *ret_entry = wanted.entry;
    return status;
}

void walk_expect(const cache_directory *directory)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    const bool is_counted =
        is_plain_directory(directory->path) || strncmp(directory->path, "pack:", 5) == 0;
    if (progress_is_shown() && is_counted && directory->store != NULL &&
        strchr(directory->path, '|') == NULL &&
        kiln_store_get_stat(directory->store, KILN_STAT_KNOWN, &stat) == KILN_OK) {
        progress_expect(stat.entries);
    }
}
