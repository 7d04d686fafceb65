/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks between processes: open-file-description locks on byte ranges of a file. Each kilni_lock
 * opens the file separately, because two locks that share an open file description do not exclude
 * each other. The system releases a lock when its process ends. A forked child immediately closes
 * its copies of the descriptors. If the child kept them, it would also keep the lock after the
 * parent has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <kiln/status.h>

#include "os/owned_descriptor.h"

typedef struct kilni_lock {
    kilni_owned_descriptor held; /* contains no descriptor in a forked child */
    bool is_listed;              /* false in a forked child */
    bool is_brief;
    struct kilni_lock *previous, *next;
} kilni_lock;

/* Opens a lock's file. It must be a regular file that belongs to this user, or, if it is opened
 * with O_RDONLY, to root. Nobody else is allowed to write it. The caller must not move the struct
 * before kilni_lock_close.
 *
 * @directory  the directory in which a relative path begins; can be AT_FDCWD
 * @flags      O_RDONLY or O_RDWR, with or without O_CREAT (mode 0600)
 * Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_READONLY; KILN_E_FULL; KILN_E_IO;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_lock_open(int directory, const char *path, int flags, kilni_lock *ret_lock);

/* Does the same as kilni_lock_open, for a lock that is closed before the present call into Kiln
 * returns. For that reason the descriptor is not moved to a high number, and is not checked before
 * it is closed.
 *
 * @ret_stat  [out] the stat of the opened file; can be NULL */
kiln_status kilni_lock_open_briefly(int directory, const char *path, int flags,
                                    kilni_lock *ret_lock, struct stat *ret_stat);

/* Locks a range of bytes. If the range is locked, this function sleeps and tries again until
 * @wait_ns nanoseconds have passed.
 *
 * @type     F_RDLCK or F_WRLCK
 * @count    the number of bytes to lock; 0: all bytes up to the end of the file, even if the file
 *           grows
 * @wait_ns  how long to keep trying; 0: try only once
 * Returns KILN_OK; KILN_BUSY; KILN_E_UNSUPPORTED: this file system has no locks; KILN_E_IO. */
kiln_status kilni_lock_take(kilni_lock *lock, short type, off_t first, off_t count,
                            uint64_t wait_ns);

/* Unlocks the range and closes the file. */
void kilni_lock_close(kilni_lock *lock);
