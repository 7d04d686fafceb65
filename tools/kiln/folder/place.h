/* SPDX-License-Identifier: Apache-2.0
 *
 * The place that has all folders of a user, at the same path in every container. Beside the folder
 * NAME are a lock, NAME.lock, a list of the files that were kept last, NAME.known, the identity for
 * which the files were made, NAME.identity, and a file NAME.run-RUN for each program that uses the
 * folder. RUN is a random name, because containers that share a place have processes with the same
 * numbers. The process that looks after the program holds a lock on that file, and removes it if
 * the program has ended in an orderly way. If such a file is there that nobody locks, a program was
 * killed, and may have left a torn file. Programs reach the process through the socket ask-RUN.
 */
#pragma once

#include <stdbool.h>

#include <kiln/key.h>

#include "cache_table.h"
#include "file_list.h"

/* Opens a place, and creates it (mode 0700) if it is missing. Returns a descriptor; -1 if the place
 * does not belong to the user, is a link or not a folder, other users have any right to it, or it
 * had files before Kiln first used it. */
int place_open(const char *path);

/* Returns why a place cannot be used; the caller frees it. NULL if it can be used or created. */
char *place_reason_against(const char *path);

/* Returns the random name of this run. A child has the name that its parent had before the fork. */
const char *place_run_name(void);

/* Returns the path of this run's socket in the place of that path; the caller frees it. */
char *place_socket_path(const char *path);

/* Removes the sockets of runs that were killed. */
void place_remove_sockets(int place);

/* The users of a folder. */
typedef struct place_users {
    bool is_used;     /* a program uses it, besides the caller's own */
    bool is_doubtful; /* a program that used it was killed */
} place_users;

/* Waits for the lock of a folder for at most @wait_ms. Returns a descriptor, to be closed in order
 * to unlock; -1 if a different process holds the lock. */
int place_lock(int place, const folder_cache *cache, int wait_ms);

/* The next functions are for the process that holds the lock. */

/* Opens a folder, and creates it if it is missing. Returns -1 if other users have any right to it.
 */
int place_open_folder(int place, const folder_cache *cache);

/* @has_own  whether the caller has a file of its own, which does not count */
place_users place_survey(int place, const folder_cache *cache, bool has_own);

/* Empties a folder, and forgets programs that were killed. */
void place_empty(int place, const folder_cache *cache);

/* Returns whether all files of the folder were made for one identity, which is @key. */
bool place_has_identity(int place, const folder_cache *cache, const kiln_key *key);

/* Notes the identity for which the files of an empty folder will be made. NULL: they were made for
 * several. If that fails, the folder has no identity. */
void place_set_identity(int place, const folder_cache *cache, const kiln_key *key);

/* Makes the caller's own file. Returns a descriptor, which locks it; -1 if that failed. */
int place_enter(int place, const folder_cache *cache);

/* Removes the caller's own file. */
void place_leave(int place, const folder_cache *cache);

/* Reads and writes the list of files that were kept last, with the times of changes. */
void place_read_known(int place, const folder_cache *cache, file_list *ret_list);
void place_write_known(int place, const folder_cache *cache, const file_list *list);
