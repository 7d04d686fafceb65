/* SPDX-License-Identifier: Apache-2.0 */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"

#define FIRST_SLEEP_NS 100000u
#define LONGEST_SLEEP_NS 50000000u

/* Guards the list of all open locks. Held while one is opened or closed too, so that a forked child
 * finds every copy in the list. Taken before fork and let go after it on both sides. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_lock *first_lock;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* Locks may be on the stacks of threads that are not here, which others will get: so none is looked
 * at again unless its owner closes it. */
static void after_fork_in_child(void)
{
    for (kilni_lock *lock = first_lock; lock; lock = lock->next) {
        kilni_owned_file_close(&lock->held);
        lock->is_listed = false;
    }
    first_lock = NULL;
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void enlist(kilni_lock *lock)
{
    lock->is_listed = true;
    lock->previous = NULL;
    lock->next = first_lock;
    if (first_lock) {
        first_lock->previous = lock;
    }
    first_lock = lock;
}

static void unlist(kilni_lock *lock)
{
    if (!lock->is_listed) {
        return;
    }
    if (lock->previous) {
        lock->previous->next = lock->next;
    } else {
        first_lock = lock->next;
    }
    if (lock->next) {
        lock->next->previous = lock->previous;
    }
}

static bool is_trusted(const struct stat *stat, bool only_read)
{
    uid_t owner = stat->st_uid;
    return S_ISREG(stat->st_mode) && !(stat->st_mode & (S_IWGRP | S_IWOTH)) &&
           (owner == kilni_os()->geteuid() || (only_read && owner == 0));
}

/* Opens, trusts and enlists a lock's file, with the list's lock held: a fork meanwhile would leave
 * the child a copy that it doesn't know. */
static kiln_status open_locked(int directory, const char *path, int flags, kilni_lock *ret_lock)
{
    const int file = kilni_file_open_or_make(directory, path, flags);
    if (file < 0) {
        return kilni_status_from_errno(errno);
    }
    struct stat stat;
    kiln_status status = KILN_OK;
    if (kilni_os()->fstat(file, &stat) != 0) {
        status = KILN_E_IO;
    } else if (!is_trusted(&stat, !(flags & O_RDWR))) {
        status = KILN_E_DENIED;
    }
    if (status == KILN_OK) {
        status = kilni_owned_file_take(file, &ret_lock->held);
    }
    if (status != KILN_OK) {
        kilni_os()->close(file);
        return status;
    }
    enlist(ret_lock);
    return KILN_OK;
}

kiln_status kilni_lock_open(int directory, const char *path, int flags, kilni_lock *ret_lock)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    pthread_once(&watching, watch_forks);
    pthread_mutex_lock(&list_lock);
    const kiln_status status = open_locked(directory, path, flags, ret_lock);
    pthread_mutex_unlock(&list_lock);
    return status;
}

static kiln_status try_lock(int file, short type, off_t first, off_t count)
{
    if (kilni_os()->lock(file, type, first, count) == 0) {
        return KILN_OK;
    }
    switch (errno) {
    case EAGAIN:
    case EACCES:
    case EINTR:
        return KILN_BUSY;
    case ENOLCK:
    case EOPNOTSUPP:
    case EINVAL:
    case ENOSYS:
        return KILN_E_UNSUPPORTED;
    default:
        return KILN_E_IO;
    }
}

kiln_status kilni_lock_take(kilni_lock *lock, short type, off_t first, off_t count,
                            uint64_t wait_ns)
{
    kiln_status status = try_lock(lock->held.file, type, first, count);
    if (status != KILN_BUSY || wait_ns == 0) {
        return status;
    }
    uint64_t start_ns = kilni_clock_ns();
    uint64_t sleep_ns = FIRST_SLEEP_NS;
    for (;;) {
        uint64_t waited_ns = kilni_clock_ns() - start_ns;
        if (waited_ns >= wait_ns) {
            return KILN_BUSY;
        }
        uint64_t left_ns = wait_ns - waited_ns;
        kilni_sleep_ns(sleep_ns < left_ns ? sleep_ns : left_ns);
        sleep_ns = sleep_ns < LONGEST_SLEEP_NS / 2 ? sleep_ns * 2 : LONGEST_SLEEP_NS;
        status = try_lock(lock->held.file, type, first, count);
        if (status != KILN_BUSY) {
            return status;
        }
    }
}

void kilni_lock_close(kilni_lock *lock)
{
    pthread_mutex_lock(&list_lock);
    if (kilni_owned_file_is_intact(&lock->held)) {
        /* Closing alone frees nothing where a child that ran no fork handler has a copy. */
        kilni_os()->lock(lock->held.file, F_UNLCK, 0, 0);
        kilni_os()->close(lock->held.file);
    }
    lock->held.file = -1;
    unlist(lock);
    pthread_mutex_unlock(&list_lock);
}
