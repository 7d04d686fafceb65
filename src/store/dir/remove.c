/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes the file that was examined, and no other file.
 *
 * The system has no call that removes a name only if it belongs to a given file. Between a check
 * and the removal, another process might rename a new file over the name. So a process that removes
 * a file (the remover) first sets the file aside: it renames the file to a second name. Then it
 * checks the file under that name. If the file is the one that was examined, the remover deletes
 * it. Otherwise it renames the file back, unless a newer file has got the first name by then.
 *
 * The second name is derived from the first one, and setting a file aside never replaces a file. So
 * only one remover at a time can have set aside a file of a given name. During that time, other
 * removers do not touch files of that name. Only writers create such files, and these are newer
 * than the file that was set aside. So a new file is lost only if an even newer one replaces it,
 * with one exception. A remover can set a new file aside by mistake. Readers do not find that file
 * until it is renamed back, and it is lost if the remover is killed before that. After such a kill,
 * no process can remove a file of that name until a trim has removed the file that the killed
 * process set aside.
 *
 * A file is identified by its device and its inode number. The system can use that number again as
 * soon as the file is removed. So either a descriptor of the file stays open from the examination
 * to the removal, or the file's size and mtime (in nanoseconds) must be unchanged, too.
 */
#include <errno.h>
#include <fcntl.h>

#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/dir.h"

bool kilni_dir_may_be_newer(const kilni_dir *dir, int file, const struct stat *stat)
{
    unsigned char bytes[KILNI_ENTRY_PREVIEW_SIZE];
    size_t count = 0;
    kilni_entry_preview head;
    if (kilni_file_read_at(file, bytes, sizeof bytes, 0, &count) != KILN_OK) {
        return true;
    }
    kiln_status status = kilni_entry_preview_decode(bytes, count, (uint64_t)stat->st_size, &head);
    if (status == KILN_OK && head.seems_newer) {
        /* A damaged file must not be mistaken for an entry of a newer format, so the whole file is
         * read. */
        kiln_entry *entry = NULL;
        status = kilni_dir_read_file(dir, file, stat, &entry);
        kiln_entry_release(&entry);
    }
    return status == KILN_E_VERSION || status == KILN_E_IO || status == KILN_E_NO_MEMORY;
}

bool kilni_dir_may_remove(const kilni_dir *dir, int directory, const char *path)
{
    int file;
    struct stat stat;
    kiln_status status = kilni_dir_open_file(dir, directory, path, &file, &stat);
    if (status != KILN_OK) {
        return status == KILN_E_DENIED || status == KILN_MISS;
    }
    bool stays = kilni_dir_may_be_newer(dir, file, &stat);
    kilni_os()->close(file);
    return !stays;
}

kiln_status kilni_dir_hold(const kilni_dir *dir, int directory, const char *path,
                           kilni_dir_held *ret_held)
{
    kilni_dir_held held = {.file = -1, .is_trusted = true};
    kiln_status status = kilni_dir_open_file(dir, directory, path, &held.file, &held.stat);
    if (status == KILN_E_DENIED) {
        held.is_trusted = false;
        held.file = kilni_os()->openat(directory, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
        if (held.file < 0) {
            return kilni_dir_read_status(errno);
        }
        status =
            kilni_os()->fstat(held.file, &held.stat) == 0 ? KILN_OK : kilni_dir_read_status(errno);
    }
    if (status == KILN_OK) {
        *ret_held = held;
    } else {
        kilni_dir_release(&held);
    }
    return status;
}

void kilni_dir_release(kilni_dir_held *held)
{
    kilni_file_close(&held->file);
}

kiln_status kilni_dir_judge_held(const kilni_dir *dir, const kilni_dir_held *held,
                                 const kiln_entry *judged)
{
    if (!S_ISREG(held->stat.st_mode)) {
        return KILN_MISS;
    }
    if (!judged) {
        const bool stays = held->is_trusted && kilni_dir_may_be_newer(dir, held->file, &held->stat);
        return stays ? KILN_EXISTS : KILN_OK;
    }
    kiln_entry *entry = NULL;
    const kiln_status status =
        held->is_trusted ? kilni_dir_read_file(dir, held->file, &held->stat, &entry) : KILN_MISS;
    const bool is_judged = status == KILN_OK && kilni_entry_equals(entry, judged);
    kiln_entry_release(&entry);
    return is_judged ? KILN_OK : status == KILN_E_NO_MEMORY ? status : KILN_MISS;
}

kiln_status kilni_dir_remove_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_MISS || status == KILN_E_READONLY ? status : KILN_E_IO;
}

kilni_dir_identity kilni_dir_identity_of(const struct stat *stat)
{
    return (kilni_dir_identity){.device = stat->st_dev,
                                .inode = stat->st_ino,
                                .size = stat->st_size,
                                .used = stat->st_mtim};
}

kilni_dir_identity kilni_dir_identity_of_held(const kilni_dir_held *held)
{
    kilni_dir_identity identity = kilni_dir_identity_of(&held->stat);
    identity.is_held = true;
    return identity;
}

static bool is_identical(const struct stat *now, const kilni_dir_identity *seen)
{
    const bool is_same_inode = now->st_dev == seen->device && now->st_ino == seen->inode;
    return is_same_inode && (seen->is_held || (now->st_size == seen->size &&
                                               now->st_mtim.tv_sec == seen->used.tv_sec &&
                                               now->st_mtim.tv_nsec == seen->used.tv_nsec));
}

kiln_status kilni_dir_recheck(int directory, const char *path, const kilni_dir_identity *seen)
{
    struct stat now;
    if (kilni_os()->fstatat(directory, path, &now, AT_SYMLINK_NOFOLLOW) != 0) {
        return kilni_dir_remove_status(errno);
    }
    return is_identical(&now, seen) ? KILN_OK : KILN_MISS;
}

bool kilni_dir_is_gone(int directory, const char *path)
{
    struct stat stat;
    return kilni_os()->fstatat(directory, path, &stat, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

int kilni_dir_rename_to_claimed(int directory, const char *path, const char *claimed)
{
    const int file = kilni_os()->openat(directory, claimed,
                                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat empty;
    if (file < 0) {
        return -1;
    }
    const bool is_known = kilni_os()->fstat(file, &empty) == 0;
    kilni_os()->close(file);
    if (kilni_os()->renameat(directory, path, directory, claimed) == 0) {
        return 0;
    }
    const int system_error = errno;
    if (is_known) {
        const kilni_dir_identity seen = kilni_dir_identity_of(&empty);
        kilni_dir_remove_aside(directory, claimed, &seen);
    }
    errno = system_error;
    return -1;
}

kiln_status kilni_dir_move_aside(int directory, const char *path, char *aside)
{
    kilni_dir_aside_name(path, aside);
    int result = kilni_os()->rename_new(directory, path, directory, aside);
    if (result != 0 && errno != EEXIST && errno != ENOENT) {
        /* Perhaps this file system does not support renames that never replace a file. */
        result = kilni_dir_rename_to_claimed(directory, path, aside);
    }
    if (result == 0) {
        return KILN_OK;
    }
    if (errno == EEXIST) {
        return kilni_dir_is_gone(directory, path) ? KILN_MISS : KILN_BUSY;
    }
    return kilni_dir_remove_status(errno);
}

void kilni_dir_restore_aside(int directory, const char *aside, const char *path)
{
    if (kilni_os()->rename_new(directory, aside, directory, path) == 0) {
        return;
    }
    /* Not every file system supports renames that never replace a file, or links. */
    const bool is_taken = errno == EEXIST ||
                          kilni_os()->linkat(directory, aside, directory, path, 0) == 0 ||
                          errno == EEXIST;
    if (is_taken) {
        kilni_os()->unlinkat(directory, aside, 0);
    } else if (kilni_dir_is_gone(directory, path)) {
        kilni_os()->renameat(directory, aside, directory, path);
    }
    /* If an error leaves unknown whether another file has the name, the file that was set aside
     * stays as a leftover. */
}

kiln_status kilni_dir_remove_aside(int directory, const char *aside, const kilni_dir_identity *seen)
{
    const kiln_status status = kilni_dir_recheck(directory, aside, seen);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_os()->unlinkat(directory, aside, 0) == 0 ? KILN_OK
                                                          : kilni_dir_remove_status(errno);
}

kiln_status kilni_dir_remove_seen(int directory, const char *path, const kilni_dir_identity *seen)
{
    char aside[KILNI_DIR_PATH_SIZE];
    /* Because of this check, it is rare that a file is set aside that was not examined. */
    kiln_status status = kilni_dir_recheck(directory, path, seen);
    if (status == KILN_OK) {
        status = kilni_dir_move_aside(directory, path, aside);
    }
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_remove_aside(directory, aside, seen);
    if (status != KILN_OK) {
        kilni_dir_restore_aside(directory, aside, path);
    }
    return status;
}
