/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a cache is, as people give it: a directory, a URL, or several of them with '|' between.
 */
#pragma once

#include <stdbool.h>

/* A path from the root on. To be freed. */
char *absolute_path(const char *path);

/* The same of a location, so that it means the same in any working directory. To be freed. */
char *absolute_location(const char *location);

/* The same with an option for the layout. NULL: it names one already, or is no directory's. To be
 * freed. */
char *location_with_layout(const char *location, const char *layout);

/* Whether it is one directory's plain path, from the root on. */
bool is_plain_directory(const char *location);
