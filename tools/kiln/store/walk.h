/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the items of a store.
 */
#pragma once

#include <kiln/store_tools.h>

#include "../command/directory.h"

/* Receives an item. Returns 0 to continue. */
typedef int walk_step(void *user, kiln_item *item, const kiln_item_info *info, const char *digest);

/* Calls @step for each item, with its information, as kiln_store_each does. Items that were removed
 * meanwhile are skipped. @store may be NULL: there are no items. */
kiln_status walk_items(kiln_store *store, walk_step *step, void *user);

/* Does the same for the items of one digest, without a walk through the store.
 *
 * @digest  32 hexadecimal digits */
kiln_status walk_digest(kiln_store *store, const char *digest, walk_step *step, void *user);

/* Reads the entry that has a digest. Sets @ret_read to the status of kiln_item_read, or to
 * KILN_MISS if there is no such entry. Returns the status of the walk. */
kiln_status walk_to_entry(kiln_store *store, const char *digest, kiln_status *ret_read,
                          kiln_entry **ret_entry);

/* Makes the progress of walks through a directory or a pack show how many items are left. Of other
 * stores, the number of items is not known without a walk. */
void walk_expect(const cache_directory *directory);
