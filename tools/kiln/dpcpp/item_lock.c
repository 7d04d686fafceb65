/* SPDX-License-Identifier: Apache-2.0 */
#include "item_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../text/memory.h"
#include "files.h"

/* While this process tries to take a lock, other processes might make and remove the lock again and
 * again. This process gives up after this many times. */
#define TRIES_MAX 8

/* ---- one lock ---- */

static outcome close_with(int file, outcome result)
{
    close_descriptor(&file);
    return result;
}

/* Takes the system's lock on the file. Always succeeds on a file system without locks. */
static bool claim(int file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

static bool is_stale(const struct stat *stat, const inspection_rules *rules)
{
    file_facts facts = {
        .is_there = true, .size = (uint64_t)stat->st_size, .changed_s = stat->st_mtim.tv_sec};
    return S_ISREG(stat->st_mode) && !lock_is_held(&facts, rules);
}

static bool is_still_named(int directory, const char *name, const struct stat *opened)
{
    struct stat now;
    return fstatat(directory, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_ino == opened->st_ino && now.st_dev == opened->st_dev;
}

outcome lock_take_over(int directory, const char *name, const inspection_rules *rules,
                       held_lock *ret_lock)
{
    struct stat opened;
    int file = openat(directory, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        /* The file is a link, a directory, or a pipe without a reader. The runtime makes no such
         * locks. */
        return errno == ELOOP || errno == ENXIO || errno == EISDIR ? OUTCOME_IN_USE
                                                                   : OUTCOME_FAILED;
    }
    if (fstat(file, &opened) != 0) {
        return close_with(file, OUTCOME_FAILED);
    }
    if (!is_stale(&opened, rules) || !claim(file)) {
        return close_with(file, OUTCOME_IN_USE);
    }
    /* A process that had the lock might have removed the file after this process opened it. */
    if (!is_still_named(directory, name, &opened)) {
        errno = ENOENT;
        return close_with(file, OUTCOME_FAILED);
    }
    *ret_lock = (held_lock){.file = file};
    return OUTCOME_DONE;
}

static outcome make(int directory, const char *name, held_lock *ret_lock)
{
    int file = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0200);
    if (file < 0) {
        return OUTCOME_FAILED;
    }
    /* If the grace period is 0, a different kiln process might already have taken over the lock. */
    if (!claim(file)) {
        return close_with(file, OUTCOME_IN_USE);
    }
    *ret_lock = (held_lock){.file = file, .was_made = true};
    return OUTCOME_DONE;
}

outcome lock_take(int directory, const char *name, const inspection_rules *rules,
                  held_lock *ret_lock)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        outcome result = make(directory, name, ret_lock);
        if (result != OUTCOME_FAILED || errno != EEXIST) {
            return result;
        }
        result = lock_take_over(directory, name, rules, ret_lock);
        if (result != OUTCOME_FAILED || errno != ENOENT) {
            return result;
        }
    }
    return OUTCOME_IN_USE;
}

bool lock_free(int directory, const char *name, held_lock *lock)
{
    const bool is_free = unlinkat(directory, name, 0) == 0 || errno == ENOENT;
    close_descriptor(&lock->file);
    return is_free;
}

/* ---- the locks of a directory ---- */

bool item_locks_have(const item_locks *locks, uint64_t number)
{
    for (size_t i = 0; i < locks->count; i++) {
        if (locks->locks[i].number == number) {
            return true;
        }
    }
    return false;
}

outcome item_locks_take(item_locks *locks, uint64_t number, const inspection_rules *rules)
{
    if (item_locks_have(locks, number)) {
        return OUTCOME_DONE;
    }
    locks->locks = array_grown(locks->locks, locks->count, &locks->capacity, sizeof *locks->locks);
    char name[SLOT_NAME_SIZE];
    held_lock lock;
    slot_name_format(number, SLOT_LOCK, name);
    outcome result = lock_take(locks->directory, name, rules, &lock);
    if (result != OUTCOME_DONE) {
        return result;
    }
    /* Keeps only the first lock's file open, because there might be thousands of locks. */
    if (locks->count == 0) {
        locks->first_file = lock.file;
    } else {
        close(lock.file);
    }
    locks->locks[locks->count++] = (struct item_lock){number, lock.was_made};
    return OUTCOME_DONE;
}

/* Releases the first lock last, since it keeps other kiln processes out. */
static void release(item_locks *locks, bool frees_all)
{
    for (size_t i = locks->count; i > 0; i--) {
        const struct item_lock *lock = &locks->locks[i - 1];
        char name[SLOT_NAME_SIZE];
        slot_name_format(lock->number, SLOT_LOCK, name);
        if (frees_all || lock->was_made) {
            unlinkat(locks->directory, name, 0);
        }
    }
    if (locks->count > 0) {
        close(locks->first_file);
    }
    free(locks->locks);
    *locks = (item_locks){.directory = locks->directory};
}

void item_locks_free(item_locks *locks)
{
    release(locks, true);
}

void item_locks_give_back(item_locks *locks)
{
    release(locks, false);
}
