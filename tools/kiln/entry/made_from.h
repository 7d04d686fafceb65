/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that an entry of NVRTC's layer was made from: of each of its results, the newest first,
 * and whether they are still what they were.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include <kiln/nvrtc.h>

typedef struct made_from_result {
    kiln_nvrtc_read *reads;
    size_t count;
    size_t changed; /* of them */
    size_t untold;
} made_from_result;

typedef struct made_from_reading {
    made_from_result *results;
    size_t count; /* 0: another kind of entry */
} made_from_reading;

/* Looks the files up; names on stderr what is damaged. What it gives points into the entry. */
made_from_reading made_from_read(const kiln_entry *entry);
void made_from_free(made_from_reading *made);

/* "made from another /a/b.h", for one result; to be freed. */
char *made_from_state(const made_from_result *result);

/* Where relative paths were looked up; nothing where none has changed. */
void made_from_print_place(const made_from_reading *made);

/* All results, each with some of its files: those first that are not what they were. */
void made_from_print(const made_from_reading *made);

/* A list of the results. @all: also of what is still as it was */
json_t *made_from_to_json(const made_from_reading *made, bool all);
