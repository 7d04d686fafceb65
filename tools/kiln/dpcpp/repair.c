/* SPDX-License-Identifier: Apache-2.0 */
#include "repair.h"

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

/* ---- no interruption ---- */

/* Blocks signals during a repair: Ctrl-C would leave stale locks behind, and Ctrl-Z would make
 * programs wait for locks. */
static void hold_signals(sigset_t *ret_before)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};
    sigset_t ending;
    sigemptyset(&ending);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaddset(&ending, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &ending, ret_before);
}

static void restore_signals(const sigset_t *before)
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

/* Removes the key first, so that a reader that looks at the slot meanwhile finds no key. */
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

/* Moves the key last, so that a reader that looks at the new number meanwhile finds no key. */
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

/* Overwrites the number in the existing file. A reader always finds a number, even during the write
 * or if this process is killed. It never finds an empty file, because that would make programs
 * crash. */
static bool write_number(int directory, const char *name, uint64_t number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRIu64, number);
    int file = openat(directory, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    errno = ENOSPC; /* the cause of a short write */
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
           (!plan->restamp || write_number(directory, name, plan->last_access_ns));
}

static bool apply_plan(int descriptor, const item_directory *directory, const inspection_plan *plan,
                       repair_counts *repaired)
{
    for (size_t i = 0; i < directory->slot_count; i++) {
        const cache_slot *slot = &directory->slots[i];
        if (plan->slots[i].verdict != SLOT_REMOVE) {
            continue;
        }
        if (!remove_slot(descriptor, slot)) {
            return false;
        }
        repaired->removed += slot_has_content(slot);
        repaired->removed_bytes += slot_size(slot);
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

/* Returns true if any lock is held. In that case, the repair does not even touch stale locks of the
 * directory. */
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

/* Locks each existing slot, and each number that a slot might move to. Locks number 0 before all
 * others. */
static outcome take_locks(const item_directory *directory, const inspection_rules *rules,
                          item_locks *locks)
{
    outcome result = OUTCOME_DONE;
    for (size_t i = 0; i < directory->slot_count && result == OUTCOME_DONE; i++) {
        if (directory->kind != ITEM_IR) {
            result = item_locks_take(locks, i, rules);
        }
        if (result == OUTCOME_DONE) {
            result = item_locks_take(locks, directory->slots[i].number, rules);
        }
    }
    return result;
}

/* Marks the locks that this process holds as missing in @directory. Returns false if there is a new
 * slot that this process has not locked. */
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

static outcome repair_locked(int descriptor, item_directory *directory, const item_locks *locks,
                             const inspection_rules *rules, repair_counts *repaired)
{
    if (!item_directory_read(descriptor, directory, NULL)) {
        return OUTCOME_FAILED;
    }
    if (!forget_own_locks(directory, locks)) {
        return OUTCOME_IN_USE;
    }
    inspection_plan plan;
    inspect(descriptor, directory, rules, NULL, &plan);
    outcome result = OUTCOME_IN_USE;
    if (!plan.must_be_left && plan.has_foreign_keys) {
        /* Stale locks are removed only if all items are whole. */
        result = plan.has_work ? OUTCOME_IN_USE : OUTCOME_DONE;
    } else if (!plan.must_be_left) {
        result = apply_plan(descriptor, directory, &plan, repaired) ? OUTCOME_DONE : OUTCOME_FAILED;
    }
    plan_free(&plan);
    return result;
}

outcome repair_directory(const cache_tree *tree, const item_directory *directory,
                         const inspection_rules *rules, repair_counts *repaired)
{
    if (is_in_use(directory, rules)) {
        return OUTCOME_IN_USE;
    }
    owned_descriptor descriptor = open_directory_below(tree->root, directory->path);
    if (descriptor < 0) {
        return errno == ENOENT ? OUTCOME_DONE : OUTCOME_FAILED;
    }
    sigset_t before;
    hold_signals(&before);
    item_locks locks = {.directory = descriptor};
    item_directory now = {.path = must(strdup(directory->path)), .kind = directory->kind};
    memcpy(now.levels, directory->levels, sizeof now.levels);
    outcome result = take_locks(directory, rules, &locks);
    if (result == OUTCOME_DONE) {
        result = repair_locked(descriptor, &now, &locks, rules, repaired);
    } else if (result == OUTCOME_FAILED && errno == ENOENT) {
        result = OUTCOME_DONE; /* the directory was removed meanwhile */
    }
    int error = errno;
    if (result == OUTCOME_DONE) {
        item_locks_free(&locks);
    } else {
        item_locks_give_back(&locks); /* a stale lock might hide a half-written item, so all locks
                                         stay */
    }
    restore_signals(&before);
    item_directory_clear(&now);
    if (result == OUTCOME_DONE) {
        repair_empty_directory(tree, directory->path);
    }
    errno = error;
    return result;
}

/* Removes a single empty directory. Returns false with errno. */
static bool remove_directory(const cache_tree *tree, const char *above, const char *name)
{
    owned_descriptor parent = open_directory_below(tree->root, above);
    return parent >= 0 && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

outcome repair_empty_directory(const cache_tree *tree, const char *path)
{
    owned char *rest = must(strdup(path));
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
    if (is_any_removed || errno == ENOENT) {
        return OUTCOME_DONE;
    }
    return errno == ENOTEMPTY || errno == EEXIST ? OUTCOME_IN_USE : OUTCOME_FAILED;
}

/* ---- at the root ---- */

outcome repair_root_lock(const cache_tree *tree, int which, const inspection_rules *rules)
{
    const char *path = tree->files[which].path;
    held_lock lock;
    outcome result = lock_take_over(tree->root, path, rules, &lock);
    if (result == OUTCOME_FAILED && errno == ENOENT) {
        return OUTCOME_DONE; /* the lock's owner has freed it */
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    return lock_free(tree->root, path, &lock) ? OUTCOME_DONE : OUTCOME_FAILED;
}

static outcome write_size(const cache_tree *tree)
{
    cache_tree now;
    bool is_number;
    uint64_t recorded, size;
    if (!tree_read(tree->path, &now)) {
        return OUTCOME_FAILED;
    }
    size = tree_size(&now);
    bool is_right = read_number_in(tree->root, SIZE_NAME, &is_number, &recorded) && is_number &&
                    recorded == size;
    bool is_done = is_right || write_number(tree->root, SIZE_NAME, size);
    tree_free(&now);
    return is_done ? OUTCOME_DONE : OUTCOME_FAILED;
}

outcome repair_size(const cache_tree *tree, const inspection_rules *rules)
{
    if (!tree->files[ROOT_SIZE].facts.is_there) {
        return OUTCOME_DONE;
    }
    sigset_t before;
    hold_signals(&before);
    held_lock lock;
    outcome result = lock_take(tree->root, SIZE_NAME ".lock", rules, &lock);
    if (result == OUTCOME_DONE) {
        result = write_size(tree);
        int error = errno;
        lock_free(tree->root, SIZE_NAME ".lock", &lock);
        errno = error;
    }
    restore_signals(&before);
    return result;
}
