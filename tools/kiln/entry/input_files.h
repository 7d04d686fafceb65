/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that an entry of OpenCL or NVRTC was made from, for each of its results, and whether
 * they have changed. The newest result is first.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <kiln/entry.h>

typedef struct input_files_result {
    kiln_read *reads;
    size_t count, capacity;
    size_t changed; /* paths that have changed */
    size_t unknown; /* files that can't be looked up here */
} input_files_result;

typedef struct input_files_reading {
    input_files_result *results;
    size_t count; /* 0: the build could not read files */
} input_files_reading;

/* Looks up the files, and reports damage on stderr. The result points into the entry. */
input_files_reading input_files_read(const kiln_entry *entry);
void input_files_free(input_files_reading *made);

/* Returns the state of one result, such as "/a/b.h has changed"; the caller frees it. */
char *input_files_state(const input_files_result *result);

/* Prints where relative paths were looked up, if any of those files has changed. */
void input_files_print_place(const input_files_reading *made);

/* Prints all results, each with some of its files; those that have changed come first. */
void input_files_print(const input_files_reading *made);

/* Returns a list of the results. @all: includes files that are unchanged. */
json_t *input_files_to_json(const input_files_reading *made, bool all);
