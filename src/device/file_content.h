/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include <kiln/status.h>

/* The whole content of a regular file. */
typedef struct kilni_file_content {
    void *bytes; /* never NULL; freed by kilni_file_content_done */
    size_t size;
    dev_t device;
    ino_t inode;
    struct timespec changed; /* st_ctim, taken before the file was read */
} kilni_file_content;

/* Reads a file of at most @limit bytes.
 *
 * Returns KILN_OK; KILN_MISS: no file has this name; KILN_E_TOO_LARGE; KILN_E_DENIED: it is not a
 * regular file, or cannot be read; KILN_E_IO: reading failed, or the size changed while the file
 * was read; KILN_E_NO_MEMORY. Blocks: on reading the file. */
kiln_status kilni_file_content_read(const char *path, size_t limit, kilni_file_content *ret_file);
void kilni_file_content_done(kilni_file_content *file);
