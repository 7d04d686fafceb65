/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the files that an entry of OpenCL or NVRTC was made from, separately for each of its
 * results. Also finds out which of these files have changed. The newest result is first.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <kiln/entry.h>

typedef struct input_files_result {
    kiln_read *reads;
    size_t count, capacity;
    size_t changed; /* number of paths that have changed */
    size_t unknown; /* number of files that this process can't look up */
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

/* Prints the folder in which relative paths were looked up, if any file with a relative path has
 * changed. */
void input_files_print_place(const input_files_reading *made);

/* Prints all results, each with some of its files; files that have changed come first. */
void input_files_print(const input_files_reading *made);

/* Returns a list of the results. If @all is true, the list includes files that have not changed. */
json_t *input_files_to_json(const input_files_reading *made, bool all);
