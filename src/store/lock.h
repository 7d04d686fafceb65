/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks between processes: open-file-description locks on byte ranges of a file. Each kilni_lock
 * opens its file itself, because two locks of one open file description do not exclude each other.
 * The system releases a lock when its process ends. A forked child immediately closes its copies of
 * the descriptors. Otherwise it would keep a lock after the parent has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <kiln/status.h>

#include "os/owned_descriptor.h"

typedef struct kilni_lock {
    kilni_owned_descriptor held; /* none in a forked child */
    bool is_listed;              /* false in a forked child */
    bool is_brief;
    struct kilni_lock *previous, *next;
} kilni_lock;

/* Opens a lock's file. It must be a regular file that belongs to this user (or to root, if it is
 * only read) and that nobody else may write. The struct must not move until kilni_lock_close.
 *
 * @directory  the path is relative to it, or AT_FDCWD
 * @flags      O_RDONLY or O_RDWR, with or without O_CREAT (mode 0600)
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_lock_open(int directory, const char *path, int flags, kilni_lock *ret_lock);

/* As kilni_lock_open, for a lock that is closed before the present call into Kiln returns.
 * Therefore the descriptor is neither moved to a high number nor checked before it is closed.
 *
 * @ret_stat  of the opened file; may be NULL */
kiln_status kilni_lock_open_briefly(int directory, const char *path, int flags,
                                    kilni_lock *ret_lock, struct stat *ret_stat);

/* Locks a range of bytes. Sleeps between attempts.
 *
 * @type     F_RDLCK or F_WRLCK
 * @count    in bytes; 0: to the end of the file, however large it becomes
 * @wait_ns  0: one attempt
 * Returns KILN_OK; KILN_BUSY; KILN_E_UNSUPPORTED: this file system has no locks; KILN_E_IO. */
kiln_status kilni_lock_take(kilni_lock *lock, short type, off_t first, off_t count,
                            uint64_t wait_ns);

/* Unlocks and closes. */
void kilni_lock_close(kilni_lock *lock);
