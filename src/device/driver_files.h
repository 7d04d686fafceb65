/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a driver is made of: its library, what that is linked to, and what its compiler
 * loads. Each has a name without folders and an identity: the linker's build-id, else its size and
 * a digest of its content, of a sample of it where it is large.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <kiln/status.h>

#include "device/file_stamps.h"
#include "device/loaded_libraries.h"

typedef struct kilni_driver_file {
    char *name;
    char *identity;
    bool is_own;  /* not just linked to: which of those a process has is not the driver's choice */
    dev_t device; /* of a file that was found by a pattern, else 0 */
    ino_t inode;
} kilni_driver_file;

typedef struct kilni_driver_files {
    kilni_driver_file *items; /* sorted */
    size_t count;
    size_t capacity;
    kilni_file_stamps stamps; /* of the files found by patterns, and of the folders searched */
} kilni_driver_files;

/* Finds the files of a driver.
 *
 * @all        with the driver's library
 * @patterns   of the names of files that the driver opens, NULL-ended: from the root, else from the
 *             folder of the driver's library
 * @ret_files  [out] given back with kilni_driver_files_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED: a file can't be found or read, @error names it;
 * KILN_E_NO_MEMORY. Blocks: on reading files. */
kiln_status kilni_driver_files_find(const kilni_loaded_libraries *all, const char *const *patterns,
                                    kilni_driver_files *ret_files, kiln_error *error);
void kilni_driver_files_done(kilni_driver_files *files);
