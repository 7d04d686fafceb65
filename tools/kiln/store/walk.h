/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over the items of a store.
 */
#pragma once

#include <kiln/store_tools.h>

/* Returns 0 to go on. */
typedef int walk_step(void *user, kiln_item *item, const kiln_item_info *info, const char *digest);

/* Calls @step for each item that is still there, as kiln_store_each does. */
kiln_status walk_items(kiln_store *store, walk_step *step, void *user);
