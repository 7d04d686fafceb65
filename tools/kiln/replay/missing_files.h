/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders that a build needs and that are not on this machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/entry.h>

typedef struct missing_file {
    char *path;          /* absolute, or relative to one of the folders of missing_files_recreate */
    bool is_of_program;  /* relative to the program's folder */
    kiln_entry *content; /* its payload is the file; NULL: a folder */
} missing_file;

typedef struct missing_files {
    missing_file *items;
    size_t count, capacity;
} missing_files;

/* @content  one reference, which is taken over; NULL: the path is that of a folder */
void missing_files_add(missing_files *missing, const kiln_read *read, kiln_entry *content);

/* Recreates all, in order. The process must be in a sandbox. A folder that can't be recreated is
 * left out, because the compiler may not need it.
 *
 * @program_folder, @working_folder  absolute; they are made, too
 * @has_program_folder               false: the first of them is not made, unless a file is in it
 * @protected                        as for recreate_file
 * Returns NULL, or why a file can't be recreated, which the caller frees. */
char *missing_files_recreate(const missing_files *missing, const char *program_folder,
                             bool has_program_folder, const char *working_folder,
                             char *const *protected);
