/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYCL runtime's own locks. A lock is an empty file <n>.lock, which only one process can
 * create. Its holder may write or remove the files with that number, and readers skip them. A lock
 * does not name its owner, so only its age shows that it was left by a killed process. Several kiln
 * processes use the system's locks on these files to decide which of them takes over a stale one;
 * the runtime does not look at them.
 */
#pragma once

#include "inspect.h"

typedef enum lock_result {
    LOCK_TAKEN,
    LOCK_HELD_BY_OTHERS,
    LOCK_FAILED /* with errno */
} lock_result;

/* A lock that this process holds. */
typedef struct held_lock {
    int file;      /* holds the system's lock */
    bool was_made; /* false: a stale lock was taken over */
} held_lock;

/* Creates a lock of any name, or takes over one that is stale by @rules. */
lock_result lock_take(int directory, const char *name, const inspection_rules *rules,
                      held_lock *ret_lock);

/* Takes over a stale lock; creates none. LOCK_FAILED with ENOENT if there is none. */
lock_result lock_take_over(int directory, const char *name, const inspection_rules *rules,
                           held_lock *ret_lock);

/* Frees a lock and removes its file. Returns false with errno. */
bool lock_free(int directory, const char *name, held_lock *lock);

/* The locks that this process holds in one directory. The first one keeps out other kiln processes,
 * so all of them must take the same one first. */
typedef struct item_locks {
    int directory;
    int first_file;
    struct item_lock {
        uint64_t number;
        bool was_made;
    } * locks;
    size_t count, capacity;
} item_locks;

/* Takes a lock; returns LOCK_TAKEN if it is held already. */
lock_result item_locks_take(item_locks *locks, uint64_t number, const inspection_rules *rules);

bool item_locks_have(const item_locks *locks, uint64_t number);

/* Frees all locks, also those that were taken over: the directory is in order now. */
void item_locks_free(item_locks *locks);

/* Leaves all locks as they were found: what they hide stays hidden. */
void item_locks_give_back(item_locks *locks);
