/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dir/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "store/missed.h"

typedef struct kilni_dir_place {
    kilni_owned_file directory;
    struct kilni_dir_place *before; /* a call may still look at it */
} kilni_dir_place;

/* Where a store is that has lost its directory: whatever is asked for there fails. Never changed.
 */
static kilni_dir_place nowhere = {.directory.file = -1};

static kilni_dir_place *place_of(const kilni_dir *dir)
{
    return atomic_load_explicit(&dir->place, memory_order_acquire);
}

int kilni_dir_root(const kilni_dir *dir)
{
    return place_of(dir)->directory.file;
}

/* The number of a lost directory's descriptor may be the application's by now: nobody works there.
 * Who has revived the directory meanwhile has put another place there, and that one stays. */
static void leave_lost(kilni_dir *dir, kilni_dir_place *lost)
{
    atomic_compare_exchange_strong_explicit(&dir->place, &lost, &nowhere, memory_order_release,
                                            memory_order_relaxed);
}

kilni_dir *kilni_dir_of(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    kilni_dir_place *place = place_of(dir);
    if (!kilni_owned_file_is_intact(&place->directory) && kilni_dir_revive(dir) != KILN_OK) {
        leave_lost(dir, place);
    }
    return dir;
}

/* Puts an open directory in the place of the last one, whose descriptor it takes the number of.
 * Takes the descriptor over. One thread at a time. */
static kiln_status settle_at(kilni_dir *dir, int root)
{
    kilni_dir_place *place = calloc(1, sizeof *place);
    if (!place) {
        kilni_os()->close(root);
        return KILN_E_NO_MEMORY;
    }
    kilni_dir_place *last = place_of(dir);
    kiln_status status = kilni_owned_file_put_over(&last->directory, root, &place->directory);
    if (status != KILN_OK) {
        kilni_os()->close(root);
        free(place);
        return status;
    }
    place->before = dir->places;
    dir->places = place;
    atomic_store_explicit(&dir->place, place, memory_order_release);
    return KILN_OK;
}

static void leave_places(kilni_dir *dir)
{
    if (place_of(dir) != &nowhere) {
        kilni_owned_file_close(&place_of(dir)->directory);
    }
    while (dir->places) {
        kilni_dir_place *before = dir->places->before;
        free(dir->places);
        dir->places = before;
    }
}

static void free_dir(kilni_dir *dir)
{
    leave_places(dir);
    kilni_owned_file_close(&dir->start);
    free(dir->path);
    free(dir);
}

static void dir_close(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    if (!kilni_dir_is_readonly(dir)) {
        kilni_dir_tell_owed(store);
    }
    /* The application may have closed the descriptor, and opened something else under its number.
     */
    if (kilni_owned_file_is_intact(&place_of(dir)->directory)) {
        kilni_dir_tend_at_end(dir);
    }
    free_dir(dir);
}

static kiln_status dir_note_miss(kiln_store *store, const kiln_entry *miss)
{
    return kilni_missed_write(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_MISSED, miss);
}

static kiln_status dir_last_miss(kiln_store *store, kiln_entry **ret_miss)
{
    return kilni_missed_read(kilni_dir_root(kilni_dir_of(store)), KILNI_DIR_MISSED, store->mac_key,
                             ret_miss);
}

static const kilni_dir_layout *layout_for(const kiln_store *store, const kiln_key *key)
{
    const kilni_dir_layout *layout = ((const kilni_dir *)store)->layout;
    return layout != &kilni_layout_kiln && kilni_store_is_request(key) ? &kilni_layout_kiln
                                                                       : layout;
}

static kiln_status dir_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry)
{
    return layout_for(store, key)->get(store, key, ret_entry);
}

static kiln_status dir_put(kiln_store *store, const kiln_entry *entry)
{
    return layout_for(store, kiln_entry_key(entry))->put(store, entry);
}

static kiln_status dir_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
{
    return layout_for(store, key)->remove(store, key, judged);
}

static kiln_status dir_contains(kiln_store *store, const kiln_key *key)
{
    return layout_for(store, key)->contains(store, key);
}

static const kilni_store_ops dir_ops = {
    .close = dir_close,
    .get = dir_get,
    .put = dir_put,
    .remove = dir_remove,
    .contains = dir_contains,
    .lease = kilni_dir_lease,
    .lease_release = kilni_dir_lease_release,
    .each = kilni_dir_each,
    .each_request = kilni_dir_each_request,
    .item_info = kilni_dir_item_info,
    .item_read = kilni_dir_item_read,
    .item_remove = kilni_dir_item_remove,
    .stat = kilni_dir_stat,
    .known_stat = kilni_dir_known_stat,
    .account = kilni_dir_account,
    .trim = kilni_dir_trim,
    .trim_by = kilni_dir_trim_by,
    .note_miss = dir_note_miss,
    .last_miss = dir_last_miss,
};

static const kilni_dir_layout *const layouts[] = {
    [KILNI_STORE_LAYOUT_KILN] = &kilni_layout_kiln,
    [KILNI_STORE_LAYOUT_SYCL] = &kilni_layout_sycl,
    [KILNI_STORE_LAYOUT_ONEDNN] = &kilni_layout_onednn,
};

bool kilni_dir_is_readonly(const kilni_dir *dir)
{
    return dir->store.options.flags & KILN_STORE_READONLY;
}

uint32_t kilni_dir_capabilities(uint32_t flags)
{
    uint32_t capabilities = KILNI_STORE_TOTALS;
    if (!(flags & KILN_STORE_READONLY)) {
        capabilities |= KILNI_STORE_WRITABLE;
    }
    if (!(flags & (KILN_STORE_READONLY | KILN_STORE_NO_LEASE))) {
        capabilities |= KILNI_STORE_LEASES;
    }
    return capabilities;
}

/* The entries' folder decides where entries are read: it has to be as trusted as the directory. */
static kiln_status check_version_folder(const kilni_dir *dir, int root, bool *ret_exists,
                                        kiln_error *error)
{
    struct stat stat;
    if (kilni_os()->fstatat(root, KILNI_DIR_VERSION, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        *ret_exists = false;
        return errno == ENOENT ? KILN_OK
                               : kilni_error_set(error, KILN_E_IO, errno, "%s/%s: %s", dir->path,
                                                 KILNI_DIR_VERSION, strerror(errno));
    }
    bool is_ours = stat.st_uid == dir->user || (kilni_dir_is_readonly(dir) && stat.st_uid == 0);
    if (!S_ISDIR(stat.st_mode) || !is_ours || (stat.st_mode & (S_IWGRP | S_IWOTH))) {
        return kilni_error_set(error, KILN_E_DENIED, 0,
                               "%s/%s has to be a directory of user %u that nobody else may write",
                               dir->path, KILNI_DIR_VERSION, (unsigned)dir->user);
    }
    *ret_exists = true;
    return KILN_OK;
}

static bool is_empty(const kilni_dir *dir)
{
    int copy = kilni_os()->openat(kilni_dir_root(dir), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *listing = copy < 0 ? NULL : kilni_os()->fdopendir(copy);
    if (!listing) {
        if (copy >= 0) {
            kilni_os()->close(copy);
        }
        return false;
    }
    errno = 0;
    const struct dirent *found = kilni_os()->readdir(listing);
    while (found && (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)) {
        found = kilni_os()->readdir(listing);
    }
    bool empty = !found && errno == 0;
    kilni_os()->closedir(listing);
    return empty;
}

/* Marks a directory as a cache, for backup programs. One that holds other things already, such as
 * a home, is never marked. A failure does no harm. */
static void write_tag(const kilni_dir *dir)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This file is a cache directory tag created by Kiln.\n"
                              "# For information about cache directory tags, see:\n"
                              "#\thttps://bford.info/cachedir/\n";
    int file = kilni_os()->openat(kilni_dir_root(dir), KILNI_DIR_TAG,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
        kilni_file_complete_mode(file, 0600);
        if (kilni_file_write(file, tag, sizeof tag - 1) != KILN_OK) {
            /* Half of it is no tag, and nobody would write the other half. */
            kilni_os()->unlinkat(kilni_dir_root(dir), KILNI_DIR_TAG, 0);
        }
        kilni_os()->close(file);
    }
}

static bool may_create(const kilni_dir *dir)
{
    return !(dir->store.options.flags & (KILN_STORE_READONLY | KILN_STORE_NO_CREATE));
}

static bool is_relative(const kilni_dir *dir)
{
    return dir->path[0] != '/';
}

static kiln_status enter(const kilni_dir *dir, int *ret_root, bool *ret_made, kiln_error *error)
{
    if (is_relative(dir) && !kilni_owned_file_is_intact(&dir->start)) {
        return kilni_error_set(error, KILN_E_IO, 0, "%s: where it begins is not known any more",
                               dir->path);
    }
    kilni_entrance entrance = {
        .start = dir->start.file,
        .user = dir->user,
        .is_readonly = kilni_dir_is_readonly(dir),
        .may_create = may_create(dir),
    };
    return kilni_dir_enter(dir->path, &entrance, ret_root, ret_made, error);
}

/* Remembers the working directory. */
static kiln_status open_start(kilni_dir *dir, kiln_error *error)
{
    const int here = kilni_os()->openat(AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (here >= 0 && kilni_owned_file_take(here, &dir->start) == KILN_OK) {
        return KILN_OK;
    }
    const int system_error = errno;
    if (here >= 0) {
        kilni_os()->close(here);
    }
    return kilni_error_set(error, KILN_E_IO, system_error, "the working directory: %s",
                           strerror(system_error));
}

/* Goes to the directory, trusts what is there, and stays. */
static kiln_status go_there(kilni_dir *dir, kiln_error *error)
{
    bool made = false;
    bool has_entries = false;
    int root = -1;
    kiln_status status = enter(dir, &root, &made, error);
    if (status != KILN_OK) {
        return status;
    }
    status = check_version_folder(dir, root, &has_entries, error);
    if (status != KILN_OK) {
        kilni_os()->close(root);
        return status;
    }
    status = settle_at(dir, root);
    if (status == KILN_OK && !has_entries && may_create(dir) && (made || is_empty(dir))) {
        write_tag(dir);
    }
    return status;
}

static kiln_status open_directory(kilni_dir *dir, kiln_error *error)
{
    const kiln_status status = is_relative(dir) ? open_start(dir, error) : KILN_OK;
    return status == KILN_OK ? go_there(dir, error) : status;
}

kiln_status kilni_dir_open(const char *path, const kilni_store_options *options,
                           kiln_store **ret_store, kiln_error *error)
{
    kilni_dir *dir = calloc(1, sizeof *dir);
    char *copy = strdup(path);
    if (!dir || !copy) {
        free(dir);
        free(copy);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    dir->store.ops = &dir_ops;
    dir->store.options = *options;
    dir->store.capabilities = kilni_dir_capabilities(options->flags);
    dir->layout = layouts[options->layout];
    dir->hash_bits = 8 * sizeof(kiln_digest);
    dir->path = copy;
    dir->user = kilni_os()->geteuid();
    dir->start.file = -1;
    atomic_init(&dir->place, &nowhere);
    kiln_status status = open_directory(dir, error);
    if (status != KILN_OK) {
        free_dir(dir);
        return status;
    }
    *ret_store = &dir->store;
    return KILN_OK;
}

/* The process that has a thread reviving a directory; 0: none. One thread at a time; who comes
 * meanwhile goes without the store once, which is a miss. A forked child finds its parent's number
 * here where another thread was at it, and knows by that that nobody is. The store (release) at the
 * end pairs with the exchange (acquire) at the next beginning. */
static _Atomic pid_t reviving;

static bool begin_reviving(void)
{
    const pid_t self = getpid();
    pid_t seen = atomic_load_explicit(&reviving, memory_order_relaxed);
    return seen != self && atomic_compare_exchange_strong_explicit(
                               &reviving, &seen, self, memory_order_acquire, memory_order_relaxed);
}

kiln_status kilni_dir_revive(kilni_dir *dir)
{
    if (!begin_reviving()) {
        return KILN_E_IO;
    }
    const kiln_status status = go_there(dir, NULL);
    atomic_store_explicit(&reviving, 0, memory_order_release);
    return status == KILN_MISS ? KILN_E_IO : status;
}
