/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds uses of the working directory by compilers that prepend it to relative paths. These
 * compilers assume, without a query, that the directory and the folders above it exist. So their
 * results might depend on the names of these folders.
 */
#pragma once

#include <stdbool.h>

#include <kiln/status.h>

typedef struct kilni_working_folder {
    char *path;    /* NULL: not found yet */
    char *spelled; /* PWD, if it is a different path to the same folder; else NULL */
} kilni_working_folder;

/* Returns KILN_OK; KILN_E_UNSUPPORTED: the working directory has no path; KILN_E_NO_MEMORY. */
kiln_status kilni_working_folder_find(kilni_working_folder *ret_folder);
void kilni_working_folder_done(kilni_working_folder *folder);

/* Returns true if an absolute path leads into the working directory. */
bool kilni_working_folder_contains(const kilni_working_folder *folder, const char *path);

/* Returns true if options might name the working directory or a folder above it, other than as ".",
 * or if this is in doubt. A compiler of this kind searches a folder only once, and recognizes the
 * folder by its name.
 *
 * @options  without quotes */
bool kilni_working_folder_is_named(const kilni_working_folder *folder, const char *options);
