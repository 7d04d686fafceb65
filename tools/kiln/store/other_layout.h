/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories that were filled in another layout than the one in which they are read: all that is
 * in them looks like somebody else's files, and the cache empty.
 */
#pragma once

#include <stdbool.h>

#include "../command/directory.h"

/* Looks for entries in the layouts of two files where the directory's location names no layout.
 *
 * @ret_layout  the layout's name
 * Returns the location with that layout, to be freed; NULL: there are none. */
char *other_layout_find(const cache_directory *directory, const char **ret_layout);

/* For commands that would find nothing to do, and count in the totals, which all layouts of a
 * directory share, that nothing is there.
 *
 * Returns whether all entries are in another layout; then it said so, and how to name it. */
bool other_layout_has_all(const cache_directory *directory);
