/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects directories that were filled in a different layout from the one in which they are read.
 * All entries of such a directory look like foreign files, and the cache looks empty.
 */
#pragma once

#include <stdbool.h>

#include "../command/directory.h"

/* Looks for entries in the other layouts, if the directory's location names none.
 *
 * @ret_layout  [out] the layout's name
 * Returns the location with that layout, which the caller frees; NULL if there are no entries. */
char *other_layout_find(const cache_directory *directory, const char **ret_layout);

/* For commands that would find no entries, and would then write a count of zero into the totals,
 * which all layouts of a directory share.
 *
 * Returns whether all entries are in a different layout. If so, reports how to select them. */
bool other_layout_has_all(const cache_directory *directory);
