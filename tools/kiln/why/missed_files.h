/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a build was not found although there is an entry with its key: NVRTC's layer uses a result
 * only if the files that it was made from are unchanged.
 */
#pragma once

#include "../entry/made_from.h"
#include "missed_key.h"

typedef struct missed_files {
    made_from_reading made; /* the files of the entry that is there now */
    char
        *traced; /* the path that had changed, according to the trace; NULL: the trace names none */
} missed_files;

/* @trace  the trace to read; NULL: none */
missed_files missed_files_find(const missed_key *missed, const char *trace);
void missed_files_free(missed_files *files);

/* Prints what has changed. Returns whether that was the cause, so that no other keys need be
 * compared. */
bool missed_files_print(const missed_files *files);

/* Adds the same to the object that describes the key. */
void missed_files_to_json(const missed_files *files, json_t *object);
