/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a store's directory is open, and how it is found again.
 */
#include "store/dir/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "os/file.h"
#include "os/os.h"
#include "os/trust.h"

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

void kilni_dir_leave(kilni_dir *dir)
{
    if (place_of(dir) != &nowhere) {
        kilni_owned_file_close(&place_of(dir)->directory);
    }
    while (dir->places) {
        kilni_dir_place *before = dir->places->before;
        free(dir->places);
        dir->places = before;
    }
    kilni_owned_file_close(&dir->start);
}

bool kilni_dir_is_there(const kilni_dir *dir)
{
    return kilni_owned_file_is_intact(&place_of(dir)->directory);
}

bool kilni_dir_is_readonly(const kilni_dir *dir)
{
    return dir->store.options.flags & KILN_STORE_READONLY;
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
    if (!kilni_is_trusted(&stat, S_IFDIR, dir->user, kilni_dir_is_readonly(dir))) {
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

kiln_status kilni_dir_go(kilni_dir *dir, kiln_error *error)
{
    dir->start.file = -1;
    atomic_init(&dir->place, &nowhere);
    const kiln_status status = is_relative(dir) ? open_start(dir, error) : KILN_OK;
    return status == KILN_OK ? go_there(dir, error) : status;
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
