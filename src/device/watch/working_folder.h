/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds uses of the working directory by compilers that prepend it to relative paths, and assume
 * without a query that it and the folders above it exist. Results of such a compiler may depend on
 * the names of these folders.
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

/* Whether an absolute path leads into the working directory. */
bool kilni_working_folder_contains(const kilni_working_folder *folder, const char *path);

/* Whether options may name the working directory or a folder above it, other than as ".". Such
 * compilers search a folder only once, and recognize a folder that they know by its name. Returns
 * true if in doubt.
 *
 * @options  without quotes */
bool kilni_working_folder_is_named(const kilni_working_folder *folder, const char *options);
