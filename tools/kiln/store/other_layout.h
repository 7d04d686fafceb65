/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories that were filled in a different layout from the one in which they are read. All their
 * entries look like foreign files, and the cache looks empty.
 */
#pragma once

#include <stdbool.h>

#include "../command/directory.h"

/* Looks for entries in the other layouts, if the directory's location names none.
 *
 * @ret_layout  [out] the layout's name
 * Returns the location with that layout, which the caller frees; NULL if there are no entries. */
char *other_layout_find(const cache_directory *directory, const char **ret_layout);

/* For commands that would find nothing to do, and would then count no entries in the totals, which
 * all layouts of a directory share.
 *
 * Returns whether all entries are in a different layout. If so, it has reported how to select
 * them. */
bool other_layout_has_all(const cache_directory *directory);
