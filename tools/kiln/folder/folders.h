/* SPDX-License-Identifier: Apache-2.0
 *
 * The folders of other programs' caches, under `kiln run`.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The folders of one run. */
typedef struct folder_run folder_run;

/* Sets the variables of the caches that this run looks after, and starts the process that does so.
 * Returns NULL if there is nothing to look after, or this is turned off.
 *
 * @is_watched  the audit library is in the program, so it asks for folders, and announces its end
 * @is_awaited  this process waits for the program, and then calls folder_run_end */
folder_run *folder_run_start(bool is_watched, bool is_awaited);

/* Waits until the folders are kept. @is_orderly: the program has not been ended by a signal. */
void folder_run_end(folder_run *run, bool is_orderly);

/* These show the counts of a run that has ended. NULL is a run without folders. */

/* Writes a line on stderr for each folder that was filled or kept. Returns false if there was none.
 */
bool folder_run_print(const folder_run *run);

/* Adds "folders" to a summary, if a folder was filled or kept. */
void folder_run_add_json(const folder_run *run, json_t *summary);
