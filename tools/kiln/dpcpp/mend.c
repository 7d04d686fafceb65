/* SPDX-License-Identifier: Apache-2.0 */
#include "mend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../text/memory.h"
#include "files.h"
#include "item_lock.h"

/* ---- no end in the middle ---- */

/* Ctrl-C must not leave our locks behind: they would be stale ones. Nor must Ctrl-Z let programs
 * wait for them. */
static void hold_signals(sigset_t *ret_before)
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigaddset(&ending, SIGQUIT);
    sigaddset(&ending, SIGPIPE);
    sigaddset(&ending, SIGTSTP);
    sigprocmask(SIG_BLOCK, &ending, ret_before);
}

static void let_signals_through(const sigset_t *before)
{
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* ---- files of slots; these return false with errno ---- */

static bool remove_file(int directory, uint64_t number, slot_file file)
{
    char name[SLOT_NAME_SIZE];
    slot_name_format(number, file, name);
    return unlinkat(directory, name, 0) == 0 || errno == ENOENT;
}

/* The key first: a reader that comes between finds none. */
static bool remove_slot(int directory, const cache_slot *slot)
{
    static const slot_file order[] = {SLOT_SRC, SLOT_BIN, SLOT_STAMP, SLOT_STAMP_LOCK};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (slot->files[order[i]].is_there && !remove_file(directory, slot->number, order[i])) {
            return false;
        }
    }
    return true;
}

/* The key last, for the same reason. */
static bool move_slot(int directory, const cache_slot *slot, uint64_t place)
{
    static const slot_file order[] = {SLOT_BIN, SLOT_STAMP, SLOT_SRC};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        char from[SLOT_NAME_SIZE], to[SLOT_NAME_SIZE];
        slot_name_format(slot->number, order[i], from);
        slot_name_format(place, order[i], to);
        if (slot->files[order[i]].is_there && renameat(directory, from, directory, to) != 0) {
            return false;
        }
    }
    return true;
}

/* Over what is there: who reads meanwhile, or after we were killed, finds a number, never an empty
 * file, which programs die of. */
static bool write_number(int directory, const char *name, uint64_t number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRIu64, number);
    int file = openat(directory, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    errno = ENOSPC; /* what a short write means */
    bool is_written =
        pwrite(file, text, (size_t)length, 0) == length && ftruncate(file, length) == 0;
    int error = errno;
    if (close(file) != 0 && is_written) {
        return false;
    }
    errno = error;
    return is_written;
}

static bool finish_kept(int directory, const cache_slot *slot, const slot_plan *plan)
{
    char name[SLOT_NAME_SIZE];
    slot_name_format(plan->place, SLOT_STAMP, name);
    if (slot->files[SLOT_STAMP_LOCK].is_there &&
        !remove_file(directory, slot->number, SLOT_STAMP_LOCK)) {
        return false;
    }
    return (slot->number == plan->place || move_slot(directory, slot, plan->place)) &&
           (!plan->restamp || write_number(directory, name, plan->stamp_ns));
}

static bool carry_out(int descriptor, const item_directory *directory, const inspection_plan *plan,
                      mend_counts *mended)
{
    for (size_t i = 0; i < directory->slot_count; i++) {
        const cache_slot *slot = &directory->slots[i];
        if (plan->slots[i].verdict != SLOT_REMOVE) {
            continue;
        }
        if (!remove_slot(descriptor, slot)) {
            return false;
        }
        mended->removed += slot_has_content(slot);
        mended->removed_bytes += slot_size(slot);
    }
    for (size_t i = 0; i < directory->slot_count; i++) {
        if (plan->slots[i].verdict == SLOT_KEEP &&
            !finish_kept(descriptor, &directory->slots[i], &plan->slots[i])) {
            return false;
        }
    }
    return true;
}

/* ---- a directory ---- */

static mend_result of_lock(lock_result result)
{
    return result == LOCK_TAKEN            ? MEND_DONE
           : result == LOCK_HELD_BY_OTHERS ? MEND_IN_USE
                                           : MEND_FAILED;
}

/* Then not even a stale lock beside is touched. */
static bool is_in_use(const item_directory *directory, const inspection_rules *rules)
{
    for (size_t i = 0; i < directory->slot_count; i++) {
        const file_facts *files = directory->slots[i].files;
        if (lock_is_held(&files[SLOT_LOCK], rules) ||
            lock_is_held(&files[SLOT_STAMP_LOCK], rules)) {
            return true;
        }
    }
    return false;
}

/* Each slot that is there, and each place that one may come to: 0 before all others. */
static mend_result take_locks(const item_directory *directory, const inspection_rules *rules,
                              item_locks *locks)
{
    lock_result result = LOCK_TAKEN;
    for (size_t i = 0; i < directory->slot_count && result == LOCK_TAKEN; i++) {
        if (directory->kind != ITEM_IR) {
            result = item_locks_take(locks, i, rules);
        }
        if (result == LOCK_TAKEN) {
            result = item_locks_take(locks, directory->slots[i].number, rules);
        }
    }
    return of_lock(result);
}

/* Our own locks are no locks. Returns false where a slot came that we don't hold. */
static bool forget_own_locks(item_directory *directory, const item_locks *locks)
{
    for (size_t i = 0; i < directory->slot_count; i++) {
        if (!item_locks_have(locks, directory->slots[i].number)) {
            return false;
        }
        directory->slots[i].files[SLOT_LOCK].is_there = false;
    }
    return true;
}

static mend_result mend_locked(int descriptor, item_directory *directory, const item_locks *locks,
                               const inspection_rules *rules, mend_counts *mended)
{
    if (!item_directory_read(descriptor, directory, NULL)) {
        return MEND_FAILED;
    }
    if (!forget_own_locks(directory, locks)) {
        return MEND_IN_USE;
    }
    inspection_plan plan;
    inspect(descriptor, directory, rules, NULL, &plan);
    mend_result result = MEND_IN_USE;
    if (!plan.must_be_left && plan.has_foreign_keys) {
        /* Their locks may go where there is nothing behind them but whole items. */
        result = plan.has_work ? MEND_IN_USE : MEND_DONE;
    } else if (!plan.must_be_left) {
        result = carry_out(descriptor, directory, &plan, mended) ? MEND_DONE : MEND_FAILED;
    }
    int error = errno;
    plan_free(&plan);
    errno = error;
    return result;
}

mend_result mend_directory(const cache_tree *tree, const item_directory *directory,
                           const inspection_rules *rules, mend_counts *mended)
{
    if (is_in_use(directory, rules)) {
        return MEND_IN_USE;
    }
    int descriptor = open_directory_below(tree->root, directory->path);
    if (descriptor < 0) {
        return errno == ENOENT ? MEND_DONE : MEND_FAILED;
    }
    sigset_t before;
    hold_signals(&before);
    item_locks locks = {.directory = descriptor};
    item_directory now = {.path = must(strdup(directory->path)), .kind = directory->kind};
    memcpy(now.levels, directory->levels, sizeof now.levels);
    mend_result result = take_locks(directory, rules, &locks);
    if (result == MEND_DONE) {
        result = mend_locked(descriptor, &now, &locks, rules, mended);
    } else if (result == MEND_FAILED && errno == ENOENT) {
        result = MEND_DONE; /* the directory went meanwhile */
    }
    int error = errno;
    if (result == MEND_DONE) {
        item_locks_free(&locks);
    } else {
        item_locks_give_back(&locks); /* a stale one may hide what is torn */
    }
    let_signals_through(&before);
    item_directory_clear(&now);
    close(descriptor);
    if (result == MEND_DONE) {
        mend_empty_directory(tree, directory->path);
    }
    errno = error;
    return result;
}

/* Removes one directory that is empty; false with errno. */
static bool remove_directory(const cache_tree *tree, const char *above, const char *name)
{
    int parent = open_directory_below(tree->root, above);
    if (parent < 0) {
        return false;
    }
    bool is_removed = unlinkat(parent, name, AT_REMOVEDIR) == 0;
    int error = errno;
    close(parent);
    errno = error;
    return is_removed;
}

mend_result mend_empty_directory(const cache_tree *tree, const char *path)
{
    char *rest = must(strdup(path));
    bool is_removed = true, is_any_removed = false;
    while (is_removed && rest[0] != '\0') {
        char *slash = strrchr(rest, '/');
        if (slash != NULL) {
            *slash = '\0';
            is_removed = remove_directory(tree, rest, slash + 1);
        } else {
            is_removed = remove_directory(tree, "", rest);
            rest[0] = '\0';
        }
        is_any_removed = is_any_removed || is_removed;
    }
    int error = errno;
    free(rest);
    errno = error;
    if (is_any_removed || error == ENOENT) {
        return MEND_DONE;
    }
    return error == ENOTEMPTY || error == EEXIST ? MEND_IN_USE : MEND_FAILED;
}

/* ---- beside the items ---- */

mend_result mend_root_lock(const cache_tree *tree, int which, const inspection_rules *rules)
{
    const char *path = tree->files[which].path;
    held_lock lock;
    lock_result result = lock_take_over(tree->root, path, rules, &lock);
    if (result == LOCK_FAILED && errno == ENOENT) {
        return MEND_DONE; /* its owner freed it */
    }
    if (result != LOCK_TAKEN) {
        return of_lock(result);
    }
    return lock_free(tree->root, path, &lock) ? MEND_DONE : MEND_FAILED;
}

static mend_result write_size(const cache_tree *tree)
{
    cache_tree now;
    bool is_number;
    uint64_t said, size;
    if (!tree_read(tree->path, &now)) {
        return MEND_FAILED;
    }
    size = tree_size(&now);
    bool is_right =
        read_number_in(tree->root, SIZE_NAME, &is_number, &said) && is_number && said == size;
    bool is_done = is_right || write_number(tree->root, SIZE_NAME, size);
    int error = errno;
    tree_free(&now);
    errno = error;
    return is_done ? MEND_DONE : MEND_FAILED;
}

mend_result mend_size(const cache_tree *tree, const inspection_rules *rules)
{
    if (!tree->files[ROOT_SIZE].facts.is_there) {
        return MEND_DONE;
    }
    sigset_t before;
    hold_signals(&before);
    held_lock lock;
    mend_result result = of_lock(lock_take(tree->root, SIZE_NAME ".lock", rules, &lock));
    if (result == MEND_DONE) {
        result = write_size(tree);
        int error = errno;
        lock_free(tree->root, SIZE_NAME ".lock", &lock);
        errno = error;
    }
    let_signals_through(&before);
    return result;
}
