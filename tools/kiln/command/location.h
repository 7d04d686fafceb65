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

/* Returns the location of the pack in a file, which the caller frees.
 *
 * @path      relative or absolute, and taken literally
 * @key_file  the file of the signing key of its entries; NULL: the location names none */
char *pack_location(const char *path, const char *key_file);

/* Returns the first store of a chain, or the only one; the caller frees it.
 *
 * @ret_others  the other stores, a part of @location; NULL: there are none */
char *first_of_chain(const char *location, const char **ret_others);

/* Returns the location with an option that selects a layout; the caller frees it. NULL if the
 * location names a layout already, or is a chain or a pack. */
char *location_with_layout(const char *location, const char *layout);

/* Returns whether the location is the plain absolute path of one directory. */
bool is_plain_directory(const char *location);

/* Returns whether the location is one store, on a server. */
bool is_server(const char *location);

/* Returns the location, or what to show in its place if it may contain a password; the caller frees
 * it. */
char *shown_location(const char *location);
