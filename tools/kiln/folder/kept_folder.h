/* SPDX-License-Identifier: Apache-2.0
 *
 * One folder during one run: it is opened and filled when a program first needs it, and its state
 * is kept in the store while the program runs and when it has ended.
 */
#pragma once

#include <sys/types.h>

#include <kiln/store.h>

#include "cache_table.h"
#include "snapshot.h"

/* A process that has asked for a folder, and has not announced that it ends. */
typedef struct folder_user {
    pid_t process;
    int handle; /* its pidfd; -1: it had ended, or is not known in this namespace */
} folder_user;

typedef struct kept_folder {
    const folder_cache *cache;
    char *path;
    int place;

    kiln_key *key; /* NULL: not opened yet, and all members below are unset */
    int folder, own;
    file_list known;     /* the state that was kept last */
    bool is_refused;     /* the state could not be kept, and is tried once more at the end */
    bool forgets_stored; /* the list in the store could not be used, and is not merged with */
    uint64_t files_filled, files_kept;

    folder_user *users;
    size_t user_count, user_capacity;
} kept_folder;

/* How far a state was kept. */
typedef enum kept_state {
    KEPT_UNCHANGED, /* it was kept before */
    KEPT_NOW,
    KEPT_LATER,  /* the folder is being changed */
    KEPT_REFUSED /* it cannot be kept: it is too large, the store refuses it, a killed program may
                    have torn a file, or programs of two identities have used it */
} kept_state;

/* Opens a folder, and fills it if it is empty and the store has a state of it. If that fails, the
 * folder is not opened, and later calls try again. */
void kept_folder_open(kept_folder *kept, kiln_store *store, snapshot_stop stop);

/* Notes that a process uses the folder, or that it ends in an orderly way. */
void kept_folder_add_user(kept_folder *kept, pid_t user);
void kept_folder_remove_user(kept_folder *kept, pid_t user);

/* Returns whether a process has ended that used the folder, but has not announced its end. It may
 * have left a torn file. */
bool kept_folder_lost_user(const kept_folder *kept);

/* Waits until all processes that use the folder have ended. */
void kept_folder_await_users(const kept_folder *kept);

/* Keeps the folder's state if no process is changing it.
 *
 * @has_ended  all processes that used it have ended in an orderly way. Its files are then complete,
 *             even if they are new */
kept_state kept_folder_keep(kept_folder *kept, kiln_store *store, bool has_ended,
                            snapshot_stop stop);

/* Ends the use of a folder.
 *
 * @is_orderly  false: a process may have left a torn file. If the folder has changed since it was
 *              kept last, the next program gets an empty one */
void kept_folder_leave(kept_folder *kept, bool is_orderly);
