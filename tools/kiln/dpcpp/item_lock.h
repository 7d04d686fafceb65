/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYCL runtime's own locks. A lock is an empty file <n>.lock, which only one process can
 * create. Only its holder is allowed to write or remove the files with that number. Readers skip
 * these files. A lock does not name its owner, so only its age shows that a killed process left it.
 * Several kiln processes use the system's locks on these files to decide which of the processes
 * takes over a stale lock; the runtime does not look at the system's locks.
 */
#pragma once

#include "inspect.h"

/* The result of taking a lock, or of a repair. */
typedef enum outcome {
    OUTCOME_DONE,
    OUTCOME_IN_USE,
    OUTCOME_FAILED /* with errno */
} outcome;

/* A lock that this process holds. */
typedef struct held_lock {
    int file;      /* holds the system's lock */
    bool was_made; /* false: a stale lock was taken over */
} held_lock;

/* Creates a lock with the given name, or takes over an existing lock that is stale according to
 * @rules. */
outcome lock_take(int directory, const char *name, const inspection_rules *rules,
                  held_lock *ret_lock);

/* Takes over a stale lock, but does not create a lock. Returns OUTCOME_FAILED with ENOENT if there
 * is no such lock. */
outcome lock_take_over(int directory, const char *name, const inspection_rules *rules,
                       held_lock *ret_lock);

/* Frees a lock and removes its file. Returns false with errno. */
bool lock_free(int directory, const char *name, held_lock *lock);

/* The locks that this process holds in one directory. The lock that is taken first keeps out other
 * kiln processes. So all kiln processes must take the same lock first. */
typedef struct item_locks {
    int directory;
    int first_file;
    struct item_lock {
        uint64_t number;
        bool was_made;
    } * locks;
    size_t count, capacity;
} item_locks;

/* Takes a lock. Also returns OUTCOME_DONE if this process already holds the lock. */
outcome item_locks_take(item_locks *locks, uint64_t number, const inspection_rules *rules);

bool item_locks_have(const item_locks *locks, uint64_t number);

/* Frees all locks, including those that were taken over, because the directory is in order now. */
void item_locks_free(item_locks *locks);

/* Releases all locks, but leaves the files of those that were taken over. The items that these
 * locks hide stay hidden. */
void item_locks_give_back(item_locks *locks);
