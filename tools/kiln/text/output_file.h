/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that the user names for bytes of an entry. The name never stands for a part of them, but
 * where it is one of something else than a file: a device or a pipe is written to.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct output_file {
    FILE *stream; /* to write to */
    const char *path;
    char *target;    /* where links in it lead to; NULL: nothing is to be replaced */
    char *temporary; /* beside that */
} output_file;

/* Begins one; "-" is stdout, and so is each other name of it. Blocks until somebody reads from a
 * named pipe. Returns EXIT_OK; else the fault was named, and this is what to exit
 * with. */
int output_file_begin(const char *path, output_file *ret_file);

/* Ends it: gives it its name where all was written, else removes it. Returns the same. */
int output_file_end(output_file *file, bool is_complete);
