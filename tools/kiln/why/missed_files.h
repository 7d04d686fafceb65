/* SPDX-License-Identifier: Apache-2.0
 *
 * If a build was not found although there is an entry with its key, finds out if the reason is that
 * files had changed. A result is used only if the files that it was made from have not changed.
 */
#pragma once

#include "../entry/input_files.h"
#include "missed_key.h"

typedef enum missed_cause {
    CAUSE_UNKNOWN,
    CAUSE_FILES,      /* there was an entry, but the files that it was made from had changed */
    CAUSE_FIRST_BUILD /* there was no entry; the result of this build has been stored since then */
} missed_cause;

typedef struct missed_files {
    missed_cause cause;
    input_files_reading made; /* the files of the entry that is stored now */
    char *traced; /* the path that had changed, according to the trace; NULL: the trace does not
                     name a path */
} missed_files;

/* @trace  the trace to read; NULL: none */
missed_files missed_files_find(const missed_key *missed, const char *trace);
void missed_files_free(missed_files *files);

/* Prints the cause, and what has changed. */
void missed_files_print(const missed_files *files);

/* Adds the cause and the changes to the object that describes the key. */
void missed_files_to_json(const missed_files *files, json_t *object);
