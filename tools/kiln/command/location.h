/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations of caches as users write them: a directory, a URL, or several of these separated by
 * '|'.
 */
#pragma once

#include <stdbool.h>

/* Returns the absolute path; the caller frees it. */
char *absolute_path(const char *path);

/* Returns the location with absolute paths, so that it means the same in any working directory; the
 * caller frees it. */
char *absolute_location(const char *location);

/* Returns the location with an option that selects a layout; the caller frees it. NULL if the
 * location names a layout already, or is not a directory. */
char *location_with_layout(const char *location, const char *layout);

/* Whether the location is the plain absolute path of one directory. */
bool is_plain_directory(const char *location);
