/* SPDX-License-Identifier: Apache-2.0 */
#include "item_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../output.h"

static bool is_stale(int directory, const char *name, const struct rules *rules)
{
    struct stat stat;
    if (fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(stat.st_mode)) {
        return false;
    }
    struct file_facts facts = {.is_there = true, .changed_s = stat.st_mtim.tv_sec};
    return !lock_is_held(&facts, rules);
}

enum lock_result lock_take(int directory, const char *name, const struct rules *rules)
{
    int file = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0200);
    if (file >= 0) {
        close(file);
        return LOCK_TAKEN;
    }
    if (errno != EEXIST) {
        return LOCK_FAILED;
    }
    if (!is_stale(directory, name, rules)) {
        return LOCK_HELD_BY_OTHERS;
    }
    /* From now on it is ours, and a second kiln sees it as fresh. */
    return utimensat(directory, name, NULL, AT_SYMLINK_NOFOLLOW) == 0 ? LOCK_TAKEN : LOCK_FAILED;
}

bool item_locks_have(const struct item_locks *locks, uint64_t number)
{
    for (size_t i = 0; i < locks->count; i++) {
        if (locks->numbers[i] == number) {
            return true;
        }
    }
    return false;
}

enum lock_result item_locks_take(struct item_locks *locks, uint64_t number,
                                 const struct rules *rules)
{
    if (item_locks_have(locks, number)) {
        return LOCK_TAKEN;
    }
    if (locks->count == locks->capacity) {
        locks->capacity = locks->capacity == 0 ? 8 : locks->capacity * 2;
        locks->numbers =
            must(reallocarray(locks->numbers, locks->capacity, sizeof *locks->numbers));
    }
    char name[SLOT_NAME_SIZE];
    slot_name_format(number, SLOT_LOCK, name);
    enum lock_result result = lock_take(locks->directory, name, rules);
    if (result == LOCK_TAKEN) {
        locks->numbers[locks->count++] = number;
    }
    return result;
}

void item_locks_release(struct item_locks *locks)
{
    for (size_t i = 0; i < locks->count; i++) {
        char name[SLOT_NAME_SIZE];
        slot_name_format(locks->numbers[i], SLOT_LOCK, name);
        unlinkat(locks->directory, name, 0);
    }
    free(locks->numbers);
    locks->numbers = NULL;
    locks->count = locks->capacity = 0;
}
