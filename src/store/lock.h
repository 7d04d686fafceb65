/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks between processes: open-file-description locks on byte ranges of a file. Each kilni_lock
 * opens its file anew, since one open file description is granted the same byte twice. The system
 * frees a lock when its process dies; a forked child closes its copy at once, so that it can't
 * keep a dead parent's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <kiln/status.h>

#include "os/owned_file.h"

typedef struct kilni_lock {
    kilni_owned_file held; /* none in a forked child */
    bool is_listed;        /* nor is it there */
    bool is_brief;
    struct kilni_lock *previous, *next;
} kilni_lock;

/* Opens a lock's file and trusts it: a regular file of this user's (of root's too where it is only
 * read) that nobody else may write. The struct must not move until kilni_lock_close.
 *
 * @directory  the path is relative to it, or AT_FDCWD
 * @flags      O_RDONLY or O_RDWR, with O_CREAT (mode 0600) or without
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_lock_open(int directory, const char *path, int flags, kilni_lock *ret_lock);

/* The same for what the same call closes again: the descriptor is neither moved out of the
 * application's way nor checked before it is closed.
 *
 * @ret_stat  of the file, as it was opened; may be NULL */
kiln_status kilni_lock_open_briefly(int directory, const char *path, int flags,
                                    kilni_lock *ret_lock, struct stat *ret_stat);

/* Locks a range, asleep between tries.
 *
 * @type     F_RDLCK or F_WRLCK
 * @count    in bytes; 0: up to the end of all files
 * @wait_ns  0: one try
 * Returns KILN_OK; KILN_BUSY; KILN_E_UNSUPPORTED: this file system has no locks; KILN_E_IO. */
kiln_status kilni_lock_take(kilni_lock *lock, short type, off_t first, off_t count,
                            uint64_t wait_ns);

/* Unlocks and closes. */
void kilni_lock_close(kilni_lock *lock);
