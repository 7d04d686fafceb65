/* SPDX-License-Identifier: Apache-2.0
 *
 * The totals of groups of entries, for `kiln ls --group-by`.
 */
#pragma once

#include <stdbool.h>

#include "listing.h"

/* Returns the name of the group of an item; the caller frees it. */
typedef char *group_name(const listed_item *item);

/* Returns how items are grouped by "device", "driver", "program" or "day"; NULL for any other name.
 *
 * @ret_reads_drivers  [out] true: the items must have their drivers; otherwise not changed */
group_name *group_named(const char *name, bool *ret_reads_drivers);

/* Prints a table of the groups, or a JSON object for each. The group whose builds took longest is
 * first; days are in reverse order. Groups of a device also have the time when any machine last
 * used it, if the servers of @store know this. */
void groups_print(kiln_store *store, const store_listing *listing, group_name *name, bool json);
