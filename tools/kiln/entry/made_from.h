/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that an entry of NVRTC's layer was made from, for each of its results, and whether they
 * have changed. The newest result is first.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <kiln/nvrtc.h>

typedef struct made_from_result {
    kiln_nvrtc_read *reads;
    size_t count, capacity;
    size_t changed; /* files that have changed */
    size_t unknown; /* files that can't be looked up here */
} made_from_result;

typedef struct made_from_reading {
    made_from_result *results;
    size_t count; /* 0: the entry is not of NVRTC's layer */
} made_from_reading;

/* Looks up the files, and reports damage on stderr. The result points into the entry. */
made_from_reading made_from_read(const kiln_entry *entry);
void made_from_free(made_from_reading *made);

/* Returns the state of one result, such as "/a/b.h has changed"; the caller frees it. */
char *made_from_state(const made_from_result *result);

/* Prints where relative paths were looked up, if any of those files has changed. */
void made_from_print_place(const made_from_reading *made);

/* Prints all results, each with some of its files; those that have changed come first. */
void made_from_print(const made_from_reading *made);

/* Returns a list of the results. @all: includes files that are unchanged. */
json_t *made_from_to_json(const made_from_reading *made, bool all);
