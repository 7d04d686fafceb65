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
#include "os/trust.h"

#define FIRST_SLEEP_NS 100000u
#define LONGEST_SLEEP_NS 50000000u

/* How many times to try to open a file. A try fails if the process forks in the meantime. */
#define OPEN_TRIES 16

/* Guards the two variables below. It is locked before fork, and unlocked after it in both
 * processes. Apart from that, no thread holds it during a system call, because a file server that
 * does not answer must not block the application's fork. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_lock *first_lock; /* the head of the list of all open locks */
static unsigned fork_count;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    fork_count++;
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* Locks can be on the stacks of threads that do not exist in the child. New threads of the child
 * can get the memory of these stacks. So after this handler, the child accesses a lock only in
 * kilni_lock_close. */
static void after_fork_in_child(void)
{
    for (kilni_lock *lock = first_lock; lock; lock = lock->next) {
        kilni_owned_descriptor_close(&lock->held);
        lock->is_listed = false;
    }
    first_lock = NULL;
    pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static unsigned count_forks(void)
{
    pthread_mutex_lock(&list_lock);
    const unsigned count = fork_count;
    pthread_mutex_unlock(&list_lock);
    return count;
}

/* Adds a lock to the list. Fails if the process has forked since @forks_before was read. The child
 * could then have a copy of the descriptor that is missing from the child's list. */
static bool enlist(kilni_lock *lock, unsigned forks_before)
{
    pthread_mutex_lock(&list_lock);
    lock->is_listed = fork_count == forks_before;
    if (lock->is_listed) {
        lock->previous = NULL;
        lock->next = first_lock;
        if (first_lock) {
            first_lock->previous = lock;
        }
        first_lock = lock;
    }
    const bool is_listed = lock->is_listed;
    pthread_mutex_unlock(&list_lock);
    return is_listed;
}

static void unlist(kilni_lock *lock)
{
    pthread_mutex_lock(&list_lock);
    if (lock->is_listed) {
        if (lock->previous) {
            lock->previous->next = lock->next;
        } else {
            first_lock = lock->next;
        }
        if (lock->next) {
            lock->next->previous = lock->previous;
        }
        lock->is_listed = false;
    }
    pthread_mutex_unlock(&list_lock);
}

/* Opens a lock's file, and checks that it can be trusted. */
static kiln_status open_trusted(int directory, const char *path, int flags, int *ret_file,
                                struct stat *ret_stat)
{
    const int file = kilni_file_open_or_make(directory, path, flags);
    if (file < 0) {
        return kilni_status_from_errno(errno);
    }
    kiln_status status = KILN_OK;
    if (kilni_os()->fstat(file, ret_stat) != 0) {
        status = KILN_E_IO;
    } else if (!kilni_is_trusted(ret_stat, S_IFREG, kilni_os()->geteuid(), !(flags & O_RDWR))) {
        status = KILN_E_DENIED;
    }
    if (status != KILN_OK) {
        kilni_os()->close(file);
        return status;
    }
    *ret_file = file;
    return KILN_OK;
}

/* Opens a lock's file and adds the lock to the list. Nothing is locked yet, so a copy of the
 * descriptor in a forked child does no harm. If there might be such a copy, this process closes its
 * own descriptor and opens the file again. */
static kiln_status open_and_enlist(int directory, const char *path, int flags, bool is_brief,
                                   kilni_lock *ret_lock, struct stat *ret_stat)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        const unsigned forks_before = count_forks();
        int file = -1;
        kiln_status status = open_trusted(directory, path, flags, &file, ret_stat);
        if (status != KILN_OK) {
            return status;
        }
        ret_lock->is_brief = is_brief;
        ret_lock->held = (kilni_owned_descriptor){
            .file = file, .device = ret_stat->st_dev, .inode = ret_stat->st_ino};
        if (!is_brief) {
            kilni_owned_descriptor_move_up(&ret_lock->held);
        }
        if (enlist(ret_lock, forks_before)) {
            return KILN_OK;
        }
        kilni_os()->close(ret_lock->held.file);
    }
    return KILN_E_IO;
}

static kiln_status open_lock(int directory, const char *path, int flags, bool is_brief,
                             kilni_lock *ret_lock, struct stat *ret_stat)
{
    static pthread_once_t watching = PTHREAD_ONCE_INIT;
    struct stat stat;
    pthread_once(&watching, watch_forks);
    return open_and_enlist(directory, path, flags, is_brief, ret_lock, ret_stat ? ret_stat : &stat);
}

kiln_status kilni_lock_open(int directory, const char *path, int flags, kilni_lock *ret_lock)
{
    return open_lock(directory, path, flags, false, ret_lock, NULL);
}

kiln_status kilni_lock_open_briefly(int directory, const char *path, int flags,
                                    kilni_lock *ret_lock, struct stat *ret_stat)
{
    return open_lock(directory, path, flags, true, ret_lock, ret_stat);
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
    const bool is_ours =
        lock->is_brief ? lock->held.file >= 0 : kilni_owned_descriptor_is_intact(&lock->held);
    const int file = is_ours ? lock->held.file : -1;
    if (is_ours) {
        /* A child that ran no fork handlers might have a copy of the descriptor. In that case,
         * closing the descriptor here would not unlock the range. */
        kilni_os()->lock(file, F_UNLCK, 0, 0);
    }
    /* A child that is forked from now on can keep a copy of the descriptor, because the descriptor
     * no longer locks anything. */
    unlist(lock);
    lock->held.file = -1;
    if (is_ours) {
        kilni_os()->close(file);
    }
}
