/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the items of a store.
 */
#pragma once

#include <kiln/store_tools.h>

/* Returns 0 to continue. */
typedef int walk_step(void *user, kiln_item *item, const kiln_item_info *info, const char *digest);

/* Calls @step for each item, with its information, as kiln_store_each does. Items that were removed
 * meanwhile are skipped. */
kiln_status walk_items(kiln_store *store, walk_step *step, void *user);
