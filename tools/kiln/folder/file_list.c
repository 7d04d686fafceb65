/* SPDX-License-Identifier: Apache-2.0 */
#include "file_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/memory.h"

static const char header[] = "kiln folder 1\n";

/* The digits of the largest number in a list. */
#define DIGITS_MAX 19

void file_list_add(file_list *list, listed_file file)
{
    list->files = array_grown(list->files, list->count, &list->capacity, sizeof *list->files);
    list->files[list->count++] = file;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const listed_file *)a)->path, ((const listed_file *)b)->path);
}

static int compare_path(const void *path, const void *file)
{
    return strcmp(path, ((const listed_file *)file)->path);
}

void file_list_sort(file_list *list)
{
    if (list->count > 1) {
        qsort(list->files, list->count, sizeof *list->files, compare);
    }
}

void file_list_free(file_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->files[i].path);
    }
    free(list->files);
    *list = (file_list){0};
}

listed_file *file_list_find(const file_list *list, const char *path)
{
    return list->count == 0
               ? NULL
               : bsearch(path, list->files, list->count, sizeof *list->files, compare_path);
}

uint64_t file_list_bytes(const file_list *list)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes += list->files[i].size;
    }
    return bytes;
}

bool file_path_is_sound(const char *path, size_t length)
{
    size_t depth = 0, begin = 0;
    if (length == 0 || length > FILE_PATH_MAX) {
        return false;
    }
    for (size_t i = 0; i <= length; i++) {
        if (i < length && path[i] != '/') {
            if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f) {
                return false;
            }
            continue;
        }
        const size_t size = i - begin;
        if (size == 0 || size > 255 || (path[begin] == '.' && size == 1) ||
            (path[begin] == '.' && path[begin + 1] == '.' && size == 2) ||
            ++depth > FILE_DEPTH_MAX) {
            return false;
        }
        begin = i + 1;
    }
    return true;
}

/* ---- writing ---- */

static void write_digest(const unsigned char *digest, char *text)
{
    for (size_t i = 0; i < FILE_DIGEST_SIZE; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
}

char *file_list_to_text(const file_list *list, bool has_times)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = must(open_memstream(&text, &size));
    fputs(header, stream);
    for (size_t i = 0; i < list->count; i++) {
        const listed_file *file = &list->files[i];
        char digest[2 * FILE_DIGEST_SIZE + 1];
        if (file->has_digest) {
            write_digest(file->digest, digest);
            fprintf(stream, "%" PRIu64 " %c %" PRId64 " %s %s\n", file->size,
                    file->is_executable ? 'x' : '-', has_times ? file->changed_ns : 0, digest,
                    file->path);
        }
    }
    must_succeed(fclose(stream));
    return text;
}

/* ---- reading ---- */

/* The rest of one line. */
typedef struct line_rest {
    const char *next;
    size_t left;
} line_rest;

/* Reads a number without leading zeros, and the space behind it. */
static bool read_number(line_rest *line, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; digits < line->left && line->next[digits] >= '0' && line->next[digits] <= '9';
         digits++) {
        if (digits == DIGITS_MAX || (digits == 1 && line->next[0] == '0')) {
            return false;
        }
        number = number * 10 + (uint64_t)(line->next[digits] - '0');
    }
    if (digits == 0 || digits == line->left || line->next[digits] != ' ' || number > INT64_MAX) {
        return false;
    }
    line->next += digits + 1;
    line->left -= digits + 1;
    *ret_number = number;
    return true;
}

static int digit_value(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = digit == '\0' ? NULL : strchr(digits, digit);
    return found == NULL ? -1 : (int)(found - digits);
}

static bool read_digest(line_rest *line, unsigned char *digest)
{
    if (line->left <= 2 * FILE_DIGEST_SIZE || line->next[2 * FILE_DIGEST_SIZE] != ' ') {
        return false;
    }
    for (size_t i = 0; i < FILE_DIGEST_SIZE; i++) {
        const int high = digit_value(line->next[2 * i]);
        const int low = digit_value(line->next[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (unsigned char)(high * 16 + low);
    }
    line->next += 2 * FILE_DIGEST_SIZE + 1;
    line->left -= 2 * FILE_DIGEST_SIZE + 1;
    return true;
}

static bool read_line(line_rest line, file_list *list)
{
    listed_file file = {.has_digest = true};
    uint64_t changed = 0;
    if (!read_number(&line, &file.size) || line.left < 2 ||
        (line.next[0] != 'x' && line.next[0] != '-') || line.next[1] != ' ') {
        return false;
    }
    file.is_executable = line.next[0] == 'x';
    line.next += 2;
    line.left -= 2;
    if (!read_number(&line, &changed) || !read_digest(&line, file.digest) ||
        !file_path_is_sound(line.next, line.left)) {
        return false;
    }
    file.changed_ns = (int64_t)changed;
    file.path = must(strndup(line.next, line.left));
    const bool is_in_order =
        list->count == 0 || strcmp(list->files[list->count - 1].path, file.path) < 0;
    file_list_add(list, file);
    return is_in_order && list->count <= FILE_LIST_MAX;
}

bool file_list_from_text(const char *text, size_t size, file_list *ret_list)
{
    const size_t header_size = sizeof header - 1;
    if (size < header_size || memcmp(text, header, header_size) != 0) {
        return false;
    }
    file_list list = {0};
    for (size_t at = header_size; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end == NULL ? 0 : (size_t)(end - text) - at;
        if (end == NULL || !read_line((line_rest){text + at, length}, &list)) {
            file_list_free(&list);
            return false;
        }
        at += length + 1;
    }
    *ret_list = list;
    return true;
}
