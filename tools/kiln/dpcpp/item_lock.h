/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYCL runtime's own locks: an empty file <n>.lock that only one can make. Who holds one may
 * write or remove the files of that number; readers pass it by. They carry no owner, so that one
 * which a killed process left is told by its age alone. Among ourselves the system's locks on
 * these files tell who took over a stale one; the runtime doesn't look at them.
 */
#pragma once

#include "inspect.h"

typedef enum lock_result {
    LOCK_TAKEN,
    LOCK_HELD_BY_OTHERS,
    LOCK_FAILED /* with errno */
} lock_result;

/* One that is ours. */
typedef struct held_lock {
    int file;      /* has the system's lock */
    bool was_made; /* false: a stale one was taken over */
} held_lock;

/* Makes a lock of any name, or takes over one that is stale by @rules. */
lock_result lock_take(int directory, const char *name, const inspection_rules *rules,
                      held_lock *ret_lock);

/* Takes over a stale one; makes none: LOCK_FAILED with ENOENT. */
lock_result lock_take_over(int directory, const char *name, const inspection_rules *rules,
                           held_lock *ret_lock);

/* Frees a lock: nobody has it then. Returns false with errno. */
bool lock_free(int directory, const char *name, held_lock *lock);

/* Leaves it as it was found: what it hides stays hidden. */
void lock_give_back(int directory, const char *name, held_lock *lock);

/* The locks that we hold in one directory. The first one keeps all others of us out, so that it
 * is to be the same one for all. */
typedef struct item_locks {
    int directory;
    int first_file;
    struct item_lock {
        uint64_t number;
        bool was_made;
    } * locks;
    size_t count, capacity;
} item_locks;

/* Taking one twice gives LOCK_TAKEN. */
lock_result item_locks_take(item_locks *locks, uint64_t number, const inspection_rules *rules);

bool item_locks_have(const item_locks *locks, uint64_t number);

/* Frees all, those too that were taken over: what is in the directory is in order now. */
void item_locks_free(item_locks *locks);

/* Leaves all as they were found. */
void item_locks_give_back(item_locks *locks);
