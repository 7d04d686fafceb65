/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a build was not found although its key is that of an entry: NVRTC's layer believes a result
 * only while the files that it was made from are what they were.
 */
#pragma once

#include "../entry/made_from.h"
#include "missed_key.h"

typedef struct missed_files {
    made_from_reading made; /* what the entry that is there now holds */
    char *noted;            /* the path that differed, as the trace says; NULL: it doesn't */
} missed_files;

/* @trace  where programs noted what they missed; NULL: nowhere */
missed_files missed_files_find(const missed_key *missed, const char *trace);
void missed_files_free(missed_files *files);

/* Prints what differs. Returns whether that was the cause: other keys have nothing to do with it.
 */
bool missed_files_print(const missed_files *files);

/* Adds it to what is said of the key. */
void missed_files_to_json(const missed_files *files, json_t *object);
