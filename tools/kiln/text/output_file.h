/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that the user has named, to which bytes of an entry are written. A regular file appears
 * under this name only when it is complete. A device or a pipe is written to directly.
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

/* Opens a file. "-" means stdout, and any other name of stdout's file also means stdout. If the
 * file is a named pipe, blocks until a process opens it for reading. Returns EXIT_OK. If this
 * fails, reports the error and returns the exit code. */
int output_file_begin(const char *path, output_file *ret_file);

/* Closes the file. If it is complete, renames it to the name that the user gave; otherwise removes
 * it. Returns EXIT_OK. Returns EXIT_IO if the file is not complete, or if an error occurred. This
 * function reports such an error. */
int output_file_end(output_file *file, bool is_complete);
