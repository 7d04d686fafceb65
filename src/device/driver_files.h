/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that make up a driver: its library, the libraries that it is linked to, and the files
 * that its compiler loads. Each file has a name without folders, and an identity. The identity is
 * the linker's build-id. If the file has no build-id, the identity is its size and a digest of its
 * content. For a large file, the digest covers only a sample of the content.
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
    bool is_own;  /* false for a library that the driver is only linked to: the process determines
                   * which copy of such a library is loaded */
    dev_t device; /* of a file found by a pattern, else 0 */
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
 * @all        must include the driver's library
 * @patterns   NULL-terminated patterns for the names of files that the driver opens; each is
 *             absolute, or relative to the folder of the driver's library
 * @ret_files  [out] freed by the caller, with kilni_driver_files_done
 * Returns KILN_OK, even if no file matches a pattern; KILN_E_UNSUPPORTED, with the reason in
 * @error: a file or folder cannot be read, a library cannot be identified, or the folder of the
 * driver's library is unknown; KILN_E_NO_MEMORY. Blocks: on reading files. */
kiln_status kilni_driver_files_find(const kilni_loaded_libraries *all, const char *const *patterns,
                                    kilni_driver_files *ret_files, kiln_error *error);
void kilni_driver_files_done(kilni_driver_files *files);
