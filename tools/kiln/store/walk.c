/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

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
    return kiln_store_each(store, visit, &walk);
}
