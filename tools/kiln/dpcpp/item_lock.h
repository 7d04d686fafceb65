/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYCL runtime's own locks: a file <n>.lock that only one can make. Who holds one may write or
 * remove the files of that number; readers pass it by. They carry no owner, so that one which a
 * killed process left is told by its age alone.
 */
#pragma once

#include "inspect.h"

/* The locks that we hold in one directory. */
struct item_locks {
    int directory;
    uint64_t *numbers;
    size_t count, capacity;
};

enum lock_result { LOCK_TAKEN, LOCK_HELD_BY_OTHERS, LOCK_FAILED /* with errno */ };

/* Takes one, or takes over one that is stale by @rules. Taking one twice gives LOCK_TAKEN. */
enum lock_result item_locks_take(struct item_locks *locks, uint64_t number,
                                 const struct rules *rules);

bool item_locks_have(const struct item_locks *locks, uint64_t number);

void item_locks_release(struct item_locks *locks);

/* Makes a lock of any name; LOCK_TAKEN where a stale one is taken over too. It is freed by
 * unlinking it. */
enum lock_result lock_take(int directory, const char *name, const struct rules *rules);
