/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of the files of a folder, in memory and as text. The text has a header line, and then a
 * line for each file, in the order of the paths:
 *
 *     SIZE MODE CHANGED DIGEST PATH
 *
 * MODE is 'x' for an executable file, otherwise '-'. DIGEST is the BLAKE2b-256 of the content, in
 * hexadecimal digits. CHANGED is 0 in stores; in a list that stays on this machine, it is when the
 * file's inode was last changed, in Unix nanoseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_DIGEST_SIZE 32

/* Limits of a list. A list that exceeds one of them is not read. */
#define FILE_LIST_MAX 65536
#define FILE_PATH_MAX 1024
#define FILE_DEPTH_MAX 16

typedef struct listed_file {
    char *path; /* relative, with '/' between its parts */
    uint64_t size;
    int64_t changed_ns;
    bool is_executable;
    bool has_digest;
    unsigned char digest[FILE_DIGEST_SIZE];
} listed_file;

typedef struct file_list {
    listed_file *files;
    size_t count, capacity;
} file_list;

/* Appends a file, whose path the list takes. */
void file_list_add(file_list *list, listed_file file);

void file_list_sort(file_list *list);
void file_list_free(file_list *list);

/* Returns the file with a path; NULL if the list, which must be sorted, does not have it. */
listed_file *file_list_find(const file_list *list, const char *path);

/* Returns the sum of the sizes. */
uint64_t file_list_bytes(const file_list *list);

/* Returns whether a path can be in a list: it is relative, not too long or deep, has no part that
 * is empty, "." or "..", and contains no control character. */
bool file_path_is_sound(const char *path, size_t length);

/* Returns the text of a sorted list, which the caller frees. Files without a digest are left out.
 *
 * @has_times  whether the text contains the times of changes; otherwise they are 0 */
char *file_list_to_text(const file_list *list, bool has_times);

/* Reads a text. Trusts nothing in it. Returns false, and no list, if any line is not exactly what
 * file_list_to_text writes. */
bool file_list_from_text(const char *text, size_t size, file_list *ret_list);
