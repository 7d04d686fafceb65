/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../text/memory.h"
#include "file_tree.h"
#include "identity.h"
#include "place.h"

#define NS_PER_MS 1000000

/* How long a folder must not have changed before its state counts as complete. */
#define QUIET_NS ((int64_t)1000 * NS_PER_MS)

/* The same when nothing that is known changes the folder any more. This is more than the step of
 * the clock of files, so that a later change gives a file a later time. */
#define QUIET_AT_END_NS ((int64_t)30 * NS_PER_MS)

/* How long to wait for a different process that fills or keeps the folder. */
#define LOCK_WAIT_MS 10000

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- filling ---- */

/* Takes over the digests of a list of the same files. */
static void take_digests(file_list *list, const file_list *from, bool compares_times)
{
    for (size_t i = 0; i < list->count; i++) {
        listed_file *file = &list->files[i];
        const listed_file *old = file_list_find(from, file->path);
        if (old != NULL && old->has_digest && old->size == file->size &&
            (!compares_times ||
             (old->changed_ns == file->changed_ns && old->is_executable == file->is_executable))) {
            memcpy(file->digest, old->digest, FILE_DIGEST_SIZE);
            file->has_digest = true;
        }
    }
}

/* Fills a new folder beside the empty one, and then puts it in its place. A program sees all files
 * or none. */
static bool fill(kept_folder *kept, kiln_store *store, const file_list *list, snapshot_stop stop)
{
    char name[64];
    snprintf(name, sizeof name, ".fill-%s", kept->cache->name);
    file_tree_remove(kept->place, name); /* of a process that was killed; this one has the lock */
    if (mkdirat(kept->place, name, 0700) != 0) {
        return false;
    }
    const int folder = openat(kept->place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    file_list filled = {0};
    bool is_filled = folder >= 0 && snapshot_fill(store, list, folder, stop) &&
                     file_tree_scan(folder, kept->cache, &filled) && filled.count == list->count &&
                     renameat(kept->place, name, kept->place, kept->cache->name) == 0;
    if (is_filled) {
        take_digests(&filled, list, false);
        place_write_known(kept->place, kept->cache, &filled);
        close(kept->folder);
        kept->folder = folder;
        kept->known = filled;
        kept->files_filled += filled.count;
        return true;
    }
    file_list_free(&filled);
    if (folder >= 0) {
        close(folder);
    }
    file_tree_remove(kept->place, name);
    return false;
}

/* Reads the state that was kept last. If the store has no state, because it is a different store or
 * has made room, nothing is known, so everything is kept again. */
static void read_known(kept_folder *kept, kiln_store *store)
{
    file_list stored = {0};
    if (snapshot_read(store, kept->key, kept->cache, &stored)) {
        place_read_known(kept->place, kept->cache, &kept->known);
        file_list_free(&stored);
    }
}

static void fill_if_empty(kept_folder *kept, kiln_store *store, snapshot_stop stop)
{
    file_list present = {0}, stored = {0};
    if (!file_tree_scan(kept->folder, kept->cache, &present)) {
        return;
    }
    if (present.count > 0) {
        read_known(kept, store);
    } else if (snapshot_read(store, kept->key, kept->cache, &stored)) {
        kept->forgets_stored = !fill(kept, store, &stored, stop);
    } else {
        kept->forgets_stored = true;
    }
    file_list_free(&present);
    file_list_free(&stored);
}

/* Empties a folder in which a killed program may have left a torn file, one whose files were made
 * for a different identity, and one that is too large to be kept. */
static void empty_if_useless(kept_folder *kept, place_users users)
{
    file_list present = {0};
    const bool is_sound = file_tree_scan(kept->folder, kept->cache, &present) &&
                          file_list_bytes(&present) <= kept->cache->max_bytes;
    file_list_free(&present);
    const bool has_identity = place_has_identity(kept->place, kept->cache, kept->key);
    if (users.is_doubtful || !has_identity || !is_sound) {
        close(kept->folder);
        place_empty(kept->place, kept->cache);
        kept->folder = place_open_folder(kept->place, kept->cache);
    }
    if (!has_identity) {
        place_set_identity(kept->place, kept->cache, kept->key);
    }
}

/* A folder that is in use is used as it is. If it has a different identity, it will have files of
 * two, and no program keeps it any more. */
static void share(kept_folder *kept, kiln_store *store)
{
    if (place_has_identity(kept->place, kept->cache, kept->key)) {
        read_known(kept, store);
    } else {
        place_set_identity(kept->place, kept->cache, NULL);
    }
}

void kept_folder_open(kept_folder *kept, kiln_store *store, snapshot_stop stop)
{
    if (kept->key != NULL) {
        return;
    }
    const int lock = place_lock(kept->place, kept->cache, LOCK_WAIT_MS);
    kept->folder = lock < 0 ? -1 : place_open_folder(kept->place, kept->cache);
    if (kept->folder >= 0) {
        kept->key = identity_key(kept->cache, kept->path);
        const place_users users = place_survey(kept->place, kept->cache, false);
        if (users.is_used) {
            share(kept, store);
        } else {
            empty_if_useless(kept, users);
        }
        if (kept->folder >= 0 && !users.is_used) {
            fill_if_empty(kept, store, stop);
        }
        kept->own = kept->folder < 0 ? -1 : place_enter(kept->place, kept->cache);
    }
    if (lock >= 0) {
        close(lock);
    }
}

/* ---- users ---- */

/* Returns whether a process has ended, even if its parent has not asked for its status. */
static bool is_gone(const folder_user *user)
{
    struct pollfd end = {.fd = user->handle, .events = POLLIN};
    return user->handle < 0 || poll(&end, 1, 0) > 0;
}

/* A user that has ended stays, even if a new process has its number. */
void kept_folder_add_user(kept_folder *kept, pid_t user)
{
    for (size_t i = 0; i < kept->user_count; i++) {
        if (kept->users[i].process == user && !is_gone(&kept->users[i])) {
            return;
        }
    }
    kept->users =
        array_grown(kept->users, kept->user_count, &kept->user_capacity, sizeof *kept->users);
    kept->users[kept->user_count++] =
        (folder_user){.process = user, .handle = (int)syscall(SYS_pidfd_open, user, 0)};
}

void kept_folder_remove_user(kept_folder *kept, pid_t user)
{
    for (size_t i = 0; i < kept->user_count; i++) {
        if (kept->users[i].process == user) {
            if (kept->users[i].handle >= 0) {
                close(kept->users[i].handle);
            }
            kept->users[i] = kept->users[--kept->user_count];
            return;
        }
    }
}

bool kept_folder_lost_user(const kept_folder *kept)
{
    for (size_t i = 0; i < kept->user_count; i++) {
        if (is_gone(&kept->users[i])) {
            return true;
        }
    }
    return false;
}

void kept_folder_await_users(const kept_folder *kept)
{
    for (size_t i = 0; i < kept->user_count; i++) {
        struct pollfd end = {.fd = kept->users[i].handle, .events = POLLIN};
        while (end.fd >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR) {
        }
    }
}

/* ---- keeping ---- */

static bool are_equal(const file_list *a, const file_list *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; i < a->count && equal; i++) {
        const listed_file *one = &a->files[i], *other = &b->files[i];
        equal = strcmp(one->path, other->path) == 0 && one->size == other->size &&
                one->changed_ns == other->changed_ns && one->is_executable == other->is_executable;
    }
    return equal;
}

static bool is_quiet(const file_list *list, int64_t quiet_ns)
{
    const int64_t before = now_ns() - quiet_ns;
    for (size_t i = 0; i < list->count; i++) {
        if (list->files[i].changed_ns > before) {
            return false;
        }
    }
    return true;
}

/* Adds to a copy of the list @own the files of the stored list that it does not have, as far as the
 * cache's size allows. Their contents may have been removed from the store; the folder is then not
 * filled, and the next state is not merged with this one. */
static void merge_stored(const kept_folder *kept, kiln_store *store, const file_list *own,
                         file_list *list)
{
    file_list stored = {0};
    if (kept->cache->update != FOLDER_MERGED || kept->forgets_stored ||
        !snapshot_read(store, kept->key, kept->cache, &stored)) {
        return;
    }
    uint64_t bytes = file_list_bytes(list);
    for (size_t i = 0; i < stored.count && list->count < FILE_LIST_MAX; i++) {
        listed_file *file = &stored.files[i];
        if (file_list_find(own, file->path) == NULL &&
            file->size <= kept->cache->max_bytes - bytes) {
            bytes += file->size;
            file_list_add(list, *file);
            file->path = NULL;
        }
    }
    file_list_sort(list);
    file_list_free(&stored);
}

static file_list copy_of(const file_list *list)
{
    file_list copy = {0};
    for (size_t i = 0; i < list->count; i++) {
        listed_file file = list->files[i];
        file.path = must(strdup(file.path));
        file_list_add(&copy, file);
    }
    return copy;
}

static bool is_unchanged(const kept_folder *kept, const file_list *list)
{
    file_list now = {0};
    const bool is_same = file_tree_scan(kept->folder, kept->cache, &now) && are_equal(list, &now);
    file_list_free(&now);
    return is_same;
}

/* Puts contents and list of a folder, unless it changes meanwhile. Takes the list. */
static kept_state keep_state(kept_folder *kept, kiln_store *store, file_list list,
                             snapshot_stop stop)
{
    uint64_t count = 0;
    take_digests(&list, &kept->known, true);
    kiln_status status =
        snapshot_put_contents(store, kept->cache, kept->folder, &list, stop, &count);
    if (status != KILN_OK || !is_unchanged(kept, &list)) {
        file_list_free(&list);
        return status == KILN_OK || status == KILN_BUSY ? KEPT_LATER : KEPT_REFUSED;
    }
    file_list merged = copy_of(&list);
    merge_stored(kept, store, &list, &merged);
    status = snapshot_put_list(store, kept->key, kept->cache, &merged);
    file_list_free(&merged);
    if (status != KILN_OK) {
        file_list_free(&list);
        return KEPT_REFUSED;
    }
    file_list_free(&kept->known);
    kept->known = list;
    place_write_known(kept->place, kept->cache, &kept->known);
    kept->files_kept += count;
    return KEPT_NOW;
}

static kept_state keep_locked(kept_folder *kept, kiln_store *store, bool has_ended,
                              snapshot_stop stop)
{
    const place_users users = place_survey(kept->place, kept->cache, true);
    file_list list = {0};
    if (users.is_doubtful || !place_has_identity(kept->place, kept->cache, kept->key) ||
        !file_tree_scan(kept->folder, kept->cache, &list)) {
        return KEPT_REFUSED;
    }
    kept_state state = KEPT_REFUSED;
    if (are_equal(&list, &kept->known)) {
        state = KEPT_UNCHANGED;
    } else if (file_list_bytes(&list) <= kept->cache->max_bytes) {
        const bool is_last = has_ended && !users.is_used;
        if (is_last && !is_quiet(&list, QUIET_AT_END_NS)) {
            poll(NULL, 0, 2 * QUIET_AT_END_NS / NS_PER_MS);
        }
        state = KEPT_LATER;
        if (is_quiet(&list, is_last ? QUIET_AT_END_NS : QUIET_NS)) {
            return keep_state(kept, store, list, stop);
        }
    }
    file_list_free(&list);
    return state;
}

kept_state kept_folder_keep(kept_folder *kept, kiln_store *store, bool has_ended,
                            snapshot_stop stop)
{
    if (kept->key == NULL || kept->own < 0 || (kept->is_refused && !has_ended)) {
        return KEPT_REFUSED;
    }
    const int lock = place_lock(kept->place, kept->cache, has_ended ? LOCK_WAIT_MS : 0);
    if (lock < 0) {
        return KEPT_LATER;
    }
    const kept_state state = keep_locked(kept, store, has_ended, stop);
    kept->is_refused = state == KEPT_REFUSED;
    close(lock);
    return state;
}

void kept_folder_leave(kept_folder *kept, bool is_orderly)
{
    if (kept->key != NULL && kept->own >= 0 && (is_orderly || is_unchanged(kept, &kept->known))) {
        place_leave(kept->place, kept->cache);
        close(kept->own);
        kept->own = -1;
    }
}
