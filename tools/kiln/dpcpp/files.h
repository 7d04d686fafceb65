/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens files and directories below the root of a cache. Never follows a symbolic link, and sets no
 * new access time if the system allows this.
 */
#pragma once

#include "byte_source.h"

/* A descriptor that is declared with this is closed when it goes out of scope. errno is kept. */
#define owned_descriptor __attribute__((cleanup(close_descriptor))) int
void close_descriptor(const int *descriptor); /* -1: does nothing */

/* Opens a directory. @path is relative to @root; "" is the root itself. Returns -1 with errno. */
int open_directory_below(int root, const char *path);

/* A regular file that is open for reading. */
typedef struct open_file {
    int descriptor;
    uint64_t size;
} open_file;

/* Returns false with errno if this fails. errno is ELOOP or EINVAL if the file is not a regular
 * file. */
bool open_file_in(int directory, const char *name, open_file *ret_file);

void close_file(open_file *file);

/* Returns a source for the file, which must stay open. */
byte_source file_source(open_file *file);

/* Reads a small file that should contain only a decimal number. Returns false with errno if it
 * cannot be read. @ret_is_number is true if the file contains a number and nothing else. */
bool read_number_in(int directory, const char *name, bool *ret_is_number, uint64_t *ret_number);
