/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines whether a build was not found because files had changed, although there is an entry
 * with its key. A result is used only if the files that it was made from are unchanged.
 */
#pragma once

#include "../entry/input_files.h"
#include "missed_key.h"

typedef enum missed_cause {
    CAUSE_UNKNOWN,
    CAUSE_FILES,      /* an entry was stored, but its files had changed */
    CAUSE_FIRST_BUILD /* no entry was found; its result has been stored since */
} missed_cause;

typedef struct missed_files {
    missed_cause cause;
    input_files_reading made; /* the files of the entry that is stored now */
    char
        *traced; /* the path that had changed, according to the trace; NULL: the trace names none */
} missed_files;

/* @trace  the trace to read; NULL: none */
missed_files missed_files_find(const missed_key *missed, const char *trace);
void missed_files_free(missed_files *files);

/* Prints the cause, and what has changed. */
void missed_files_print(const missed_files *files);

/* Adds the same information to the object that describes the key. */
void missed_files_to_json(const missed_files *files, json_t *object);
