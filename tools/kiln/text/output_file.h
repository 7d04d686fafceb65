/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that the user names for bytes of an entry. A regular file gets its name only when it is
 * complete. A device or a pipe is written to directly.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct output_file {
    FILE *stream; /* the caller writes to it */
    const char *path;
    char *target;    /* the path with links resolved; NULL: nothing is replaced */
    char *temporary; /* the temporary file beside the target */
} output_file;

/* Opens a file; "-" means stdout, and so does any other name of stdout's file. Blocks until a
 * process reads from a named pipe. Returns EXIT_OK; after a failure, which it has reported, the
 * exit code. */
int output_file_begin(const char *path, output_file *ret_file);

/* Closes the file. If it is complete, gives it its name; otherwise removes it. Returns EXIT_OK;
 * EXIT_IO if it is not complete, or after a failure, which this function has reported. */
int output_file_end(output_file *file, bool is_complete);
