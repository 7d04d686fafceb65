/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a store's directory, and opens it again if it was lost.
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

typedef struct kilni_dir_open_root {
    kilni_owned_descriptor directory;
    struct kilni_dir_open_root *before; /* calls might still use it */
} kilni_dir_open_root;

/* The open root of a store that has lost its directory, so that all operations in the directory
 * fail. Constant. */
static kilni_dir_open_root nowhere = {.directory.file = -1};

static kilni_dir_open_root *open_root_of(const kilni_dir *dir)
{
    return atomic_load_explicit(&dir->open_root, memory_order_acquire);
}

int kilni_dir_root(const kilni_dir *dir)
{
    return open_root_of(dir)->directory.file;
}

/* Makes operations in a lost directory fail until a later call has reopened it. By now the
 * application might use the number of the lost descriptor for a different file, so Kiln must not
 * use it any more. If another thread has reopened the directory in the meantime, this function
 * keeps the root that that thread has opened. */
static void abandon_root(kilni_dir *dir, kilni_dir_open_root *lost)
{
    atomic_compare_exchange_strong_explicit(&dir->open_root, &lost, &nowhere, memory_order_release,
                                            memory_order_relaxed);
}

kilni_dir *kilni_dir_of(kiln_store *store)
{
    kilni_dir *dir = (kilni_dir *)store;
    kilni_dir_open_root *open_root = open_root_of(dir);
    if (!kilni_owned_descriptor_is_intact(&open_root->directory) &&
        kilni_dir_reopen(dir) != KILN_OK) {
        abandon_root(dir, open_root);
    }
    return dir;
}

/* Makes an open directory the store's root, and takes ownership of @root. The new root gets the
 * descriptor number of the previous one. Only one thread at a time calls this function. */
static kiln_status install_root(kilni_dir *dir, int root)
{
    kilni_dir_open_root *open_root = calloc(1, sizeof *open_root);
    if (!open_root) {
        kilni_os()->close(root);
        return KILN_E_NO_MEMORY;
    }
    kilni_dir_open_root *last = open_root_of(dir);
    kiln_status status =
        kilni_owned_descriptor_replace(&last->directory, root, &open_root->directory);
    if (status != KILN_OK) {
        kilni_os()->close(root);
        free(open_root);
        return status;
    }
    open_root->before = dir->open_roots;
    dir->open_roots = open_root;
    atomic_store_explicit(&dir->open_root, open_root, memory_order_release);
    return KILN_OK;
}

void kilni_dir_close_root(kilni_dir *dir)
{
    if (open_root_of(dir) != &nowhere) {
        kilni_owned_descriptor_close(&open_root_of(dir)->directory);
    }
    while (dir->open_roots) {
        kilni_dir_open_root *before = dir->open_roots->before;
        free(dir->open_roots);
        dir->open_roots = before;
    }
    kilni_owned_descriptor_close(&dir->start);
}

bool kilni_dir_is_there(const kilni_dir *dir)
{
    return kilni_owned_descriptor_is_intact(&open_root_of(dir)->directory);
}

bool kilni_dir_is_readonly(const kilni_dir *dir)
{
    return dir->store.options.flags & KILN_STORE_READONLY;
}

bool kilni_dir_trusts(const kilni_dir *dir, const struct stat *stat, mode_t kind)
{
    return dir->store.options.trusts_any_owner
               ? (stat->st_mode & S_IFMT) == kind
               : kilni_is_trusted(stat, kind, dir->user, kilni_dir_is_readonly(dir));
}

/* Checks the folder "v1". Entries are read from it, so it must be as trusted as the directory. */
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
    if (!kilni_dir_trusts(dir, &stat, S_IFDIR)) {
        return kilni_error_set(error, KILN_E_DENIED, 0,
                               "%s/%s must be a directory of user %u that nobody else may write",
                               dir->path, KILNI_DIR_VERSION, (unsigned)dir->user);
    }
    *ret_exists = true;
    return KILN_OK;
}

static bool is_empty(const kilni_dir *dir)
{
    DIR *listing = kilni_file_list(kilni_dir_root(dir));
    if (!listing) {
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

/* Marks a directory as a cache, for backup programs. A directory that held other files before, such
 * as a home directory, is never marked. A failure does no harm. */
static void write_tag(const kilni_dir *dir)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This file is a cache directory tag created by Kiln.\n"
                              "# For information about cache directory tags, see:\n"
                              "#\thttps://bford.info/cachedir/\n";
    int file = kilni_os()->openat(kilni_dir_root(dir), KILNI_DIR_TAG,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
        kilni_file_ensure_mode(file, 0600);
        if (kilni_file_write(file, tag, sizeof tag - 1) != KILN_OK) {
            /* An incomplete tag has no effect, and nothing would complete it later. */
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
    if (is_relative(dir) && !kilni_owned_descriptor_is_intact(&dir->start)) {
        return kilni_error_set(error, KILN_E_IO, 0,
                               "%s: the directory in which the path begins is lost", dir->path);
    }
    kilni_path_rules entrance = {
        .start = dir->start.file,
        .user = dir->user,
        .is_readonly = kilni_dir_is_readonly(dir),
        .may_create = may_create(dir),
        .any_owner = dir->store.options.trusts_any_owner,
    };
    return kilni_dir_enter(dir->path, &entrance, ret_root, ret_made, error);
}

/* Opens the working directory and keeps it open, because relative paths begin there. */
static kiln_status open_start(kilni_dir *dir, kiln_error *error)
{
    int here = kilni_os()->openat(AT_FDCWD, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (here >= 0 && kilni_owned_descriptor_take(here, &dir->start) == KILN_OK) {
        return KILN_OK;
    }
    kilni_file_close(&here);
    return kilni_error_set(error, KILN_E_IO, errno, "the working directory: %s", strerror(errno));
}

/* Opens the directory, checks it, and makes it the store's root. */
static kiln_status open_and_install(kilni_dir *dir, kiln_error *error)
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
    status = install_root(dir, root);
    if (status == KILN_OK && !has_entries && may_create(dir) && (made || is_empty(dir))) {
        write_tag(dir);
    }
    return status;
}

kiln_status kilni_dir_start(kilni_dir *dir, kiln_error *error)
{
    dir->start.file = -1;
    atomic_init(&dir->open_root, &nowhere);
    const kiln_status status = is_relative(dir) ? open_start(dir, error) : KILN_OK;
    return status == KILN_OK ? open_and_install(dir, error) : status;
}

/* The ID of the process in which a thread is reopening a directory; 0: no thread is. Only one
 * thread reopens a directory at a time. During that time, attempts by other threads fail. A child
 * that is forked during that time finds its parent's ID here, and so knows that none of its own
 * threads is reopening a directory. The release at the end of a reopening pairs with the acquire at
 * the beginning of the next one. */
static _Atomic pid_t reopening;

static bool begin_reopening(void)
{
    const pid_t self = getpid();
    pid_t seen = atomic_load_explicit(&reopening, memory_order_relaxed);
    return seen != self && atomic_compare_exchange_strong_explicit(
                               &reopening, &seen, self, memory_order_acquire, memory_order_relaxed);
}

kiln_status kilni_dir_reopen(kilni_dir *dir)
{
    if (!begin_reopening()) {
        return KILN_E_IO;
    }
    const kiln_status status = open_and_install(dir, NULL);
    atomic_store_explicit(&reopening, 0, memory_order_release);
    return status == KILN_MISS ? KILN_E_IO : status;
}
