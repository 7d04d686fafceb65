/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "entry/entry.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/layout.h"

#define NAME_TRIES 4

kiln_status kilni_dir_write_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_EXISTS || status == KILN_BUSY ? KILN_E_IO : status;
}

bool kilni_dir_may_be_newer(const kilni_dir *dir, int file, const struct stat *stat)
{
    unsigned char bytes[KILNI_ENTRY_HEAD_SIZE];
    size_t count = 0;
    kilni_entry_head head;
    if (kilni_file_read_at(file, bytes, sizeof bytes, 0, &count) != KILN_OK) {
        return true;
    }
    kiln_status status = kilni_entry_head_decode(bytes, count, (uint64_t)stat->st_size, &head);
    if (status == KILN_OK && head.seems_newer) {
        /* Damage must not pass for something newer: all of it is read. */
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

/* KILN_OK: nothing, or what may be replaced; KILN_EXISTS; KILN_E_IO, KILN_E_NO_MEMORY: can't be
 * told. */
static kiln_status look_at_incumbent(const kilni_dir *dir, int folder, const char *name,
                                     kilni_dir_incumbent *ret_incumbent)
{
    int file = -1;
    struct stat stat;
    *ret_incumbent = (kilni_dir_incumbent){.is_there = false};
    kiln_status status = kilni_dir_open_file(dir, folder, name, &file, &stat);
    if (status != KILN_OK) {
        return status == KILN_MISS || status == KILN_E_DENIED ? KILN_OK : status;
    }
    *ret_incumbent =
        (kilni_dir_incumbent){.is_there = true, .disk_bytes = kilni_dir_disk_bytes(&stat)};
    bool stays = kilni_dir_may_be_newer(dir, file, &stat);
    kilni_os()->close(file);
    return stays ? KILN_EXISTS : KILN_OK;
}

static kiln_status create_temporary(int directory, const char *folder, char *path, size_t size,
                                    int *ret_file)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
            return KILN_E_IO;
        }
        if (!kilni_dir_temporary_path(folder, number, path, size)) {
            return KILN_E_IO;
        }
        int file = kilni_os()->openat(directory, path,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0) {
            kilni_file_complete_mode(file, 0600);
            *ret_file = file;
            return KILN_OK;
        }
        if (errno != EEXIST) {
            return kilni_dir_write_status(errno);
        }
    }
    return KILN_E_IO;
}

/* Writes and closes a temporary. */
static kiln_status fill_temporary(const kilni_dir *dir, int file, kiln_bytes bytes,
                                  uint64_t *ret_disk_bytes)
{
    /* The lock says that the writer lives; without it, age alone decides what is a leftover. */
    kilni_os()->lock(file, F_WRLCK, 0, 0);
    kiln_status status = kilni_file_write(file, bytes.data, bytes.size);
    bool is_synced = dir->store.options.flags & KILN_STORE_SYNC;
    if (status == KILN_OK && is_synced && kilni_os()->fdatasync(file) != 0) {
        status = kilni_dir_write_status(errno);
    }
    struct stat stat;
    if (status == KILN_OK && kilni_os()->fstat(file, &stat) != 0) {
        status = kilni_dir_write_status(errno);
    }
    /* Network file systems may report a failed write only now. */
    if (kilni_os()->close(file) != 0 && status == KILN_OK) {
        status = kilni_dir_write_status(errno);
    }
    if (status == KILN_OK) {
        *ret_disk_bytes = kilni_dir_disk_bytes(&stat);
    }
    return status;
}

kiln_status kilni_dir_write_temporary(const kilni_dir *dir, int directory, const char *folder,
                                      kiln_bytes bytes, char *path, size_t size,
                                      uint64_t *ret_disk_bytes)
{
    int file = -1;
    kiln_status status = create_temporary(directory, folder, path, size, &file);
    if (status != KILN_OK) {
        return status;
    }
    status = fill_temporary(dir, file, bytes, ret_disk_bytes);
    if (status != KILN_OK) {
        kilni_os()->unlinkat(directory, path, 0);
    }
    return status;
}

/* KILN_MISS: the shard is gone. */
static kiln_status publish(const kilni_dir *dir, int folder, const char *name, kiln_bytes bytes,
                           uint64_t *ret_disk_bytes)
{
    char temporary[KILNI_DIR_PATH_SIZE];
    kiln_status status = kilni_dir_write_temporary(dir, folder, ".", bytes, temporary,
                                                   sizeof temporary, ret_disk_bytes);
    if (status == KILN_OK && kilni_os()->renameat(folder, temporary, folder, name) != 0) {
        status = kilni_dir_write_status(errno);
        kilni_os()->unlinkat(folder, temporary, 0);
    }
    return status;
}

/* What a put has written, and what it replaced. */
typedef struct written_entry {
    uint64_t disk_bytes;
    kilni_dir_incumbent replaced;
    bool is_declined; /* by what is there: no failure to warn of */
} written_entry;

/* Statuses as kiln_store_put; KILN_MISS: the shard is gone. */
static kiln_status put_in_shard(kilni_dir *dir, unsigned shard, const kiln_entry *entry,
                                written_entry *ret_written)
{
    char name[KILN_DIGEST_TEXT_SIZE];
    const kiln_bytes bytes = kiln_entry_encoding(entry);
    int folder;
    kilni_dir_name_of(kiln_entry_key(entry), name);
    kiln_status status = kilni_dir_open_shard(dir, shard, O_PATH, &folder);
    if (status != KILN_OK) {
        return status;
    }
    status = look_at_incumbent(dir, folder, name, &ret_written->replaced);
    if (status == KILN_OK && !kilni_dir_takes(dir, bytes.size, ret_written->replaced.disk_bytes)) {
        status = KILN_E_FULL;
    }
    ret_written->is_declined = status != KILN_OK;
    if (status == KILN_OK) {
        status = publish(dir, folder, name, bytes, &ret_written->disk_bytes);
    }
    kilni_os()->close(folder);
    return status;
}

kiln_status kilni_dir_put(kiln_store *store, const kiln_entry *entry)
{
    kilni_dir *dir = kilni_dir_of(store);
    const unsigned shard = kilni_dir_shard_of(kiln_entry_key(entry));
    written_entry written = {0};
    kiln_status status = put_in_shard(dir, shard, entry, &written);
    /* A janitor may remove a shard that is still empty. */
    for (int i = 0; status == KILN_MISS && i < NAME_TRIES; i++) {
        status = kilni_dir_make_shard(dir, shard);
        if (status == KILN_OK) {
            status = put_in_shard(dir, shard, entry, &written);
        }
    }
    if (status != KILN_OK && !written.is_declined) {
        char path[KILNI_DIR_PATH_SIZE];
        kilni_dir_path_of(kiln_entry_key(entry), path);
        status = status == KILN_MISS ? KILN_E_IO : status;
        kilni_store_warn(store, KILNI_WARNED_PUT, "%s/%s: can't be written: %s", dir->path, path,
                         kiln_status_text(status));
    }
    if (status == KILN_OK) {
        kilni_dir_settle(dir, shard, written.disk_bytes, &written.replaced);
    }
    return status;
}

kiln_status kilni_dir_remove_status(int system_error)
{
    kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_MISS || status == KILN_E_READONLY ? status : KILN_E_IO;
}

kilni_dir_identity kilni_dir_identity_of(const struct stat *stat)
{
    return (kilni_dir_identity){
        .inode = stat->st_ino, .size = stat->st_size, .used = stat->st_mtim};
}

kiln_status kilni_dir_look_again(int directory, const char *path, const kilni_dir_identity *seen)
{
    struct stat now;
    if (kilni_os()->fstatat(directory, path, &now, AT_SYMLINK_NOFOLLOW) != 0) {
        return kilni_dir_remove_status(errno);
    }
    const bool is_same = now.st_ino == seen->inode && now.st_size == seen->size &&
                         now.st_mtim.tv_sec == seen->used.tv_sec &&
                         now.st_mtim.tv_nsec == seen->used.tv_nsec;
    return is_same ? KILN_OK : KILN_MISS;
}

kiln_status kilni_dir_move_aside(int directory, const char *folder, const char *path, char *aside)
{
    uint64_t number;
    if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number ||
        !kilni_dir_aside_path(folder, number, aside, KILNI_DIR_PATH_SIZE)) {
        return KILN_E_IO;
    }
    return kilni_os()->renameat(directory, path, directory, aside) == 0
               ? KILN_OK
               : kilni_dir_remove_status(errno);
}

bool kilni_dir_is_gone(int directory, const char *path)
{
    struct stat stat;
    return kilni_os()->fstatat(directory, path, &stat, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

void kilni_dir_bring_back(int directory, const char *aside, const char *path)
{
    if (kilni_os()->linkat(directory, aside, directory, path, 0) != 0 &&
        kilni_dir_is_gone(directory, path)) {
        /* Not all file systems have links, and not at all times. */
        kilni_os()->renameat(directory, aside, directory, path);
    } else {
        kilni_os()->unlinkat(directory, aside, 0);
    }
}

kiln_status kilni_dir_remove_aside(int directory, const char *aside, const kilni_dir_identity *seen)
{
    const kiln_status status = kilni_dir_look_again(directory, aside, seen);
    if (status != KILN_OK) {
        return status;
    }
    return kilni_os()->unlinkat(directory, aside, 0) == 0 ? KILN_OK
                                                          : kilni_dir_remove_status(errno);
}

/* Between a look and a removal by name another process may put a new file there. So the file gets
 * a name that nobody else knows, and is looked at under that. */
kiln_status kilni_dir_remove_seen(int directory, const char *folder, const char *path,
                                  const kilni_dir_identity *seen)
{
    char aside[KILNI_DIR_PATH_SIZE];
    kiln_status status = kilni_dir_look_again(directory, path, seen);
    if (status == KILN_OK) {
        status = kilni_dir_move_aside(directory, folder, path, aside);
    }
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_remove_aside(directory, aside, seen);
    if (status != KILN_OK) {
        kilni_dir_bring_back(directory, aside, path);
    }
    return status;
}

/* KILN_OK, with what was removed; else as kiln_store_remove. */
static kiln_status remove_in_shard(const kilni_dir *dir, int folder, const char *name,
                                   struct stat *ret_stat)
{
    if (kilni_os()->fstatat(folder, name, ret_stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return kilni_dir_remove_status(errno);
    }
    if (!S_ISREG(ret_stat->st_mode)) {
        return KILN_MISS;
    }
    if (!kilni_dir_may_remove(dir, folder, name)) {
        return KILN_EXISTS;
    }
    return kilni_os()->unlinkat(folder, name, 0) == 0 ? KILN_OK : kilni_dir_remove_status(errno);
}

kiln_status kilni_dir_remove(kiln_store *store, const kiln_key *key)
{
    kilni_dir *dir = kilni_dir_of(store);
    const unsigned shard = kilni_dir_shard_of(key);
    char name[KILN_DIGEST_TEXT_SIZE];
    int folder;
    struct stat stat;
    kilni_dir_name_of(key, name);
    kiln_status status = kilni_dir_open_shard(dir, shard, O_PATH, &folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    }
    status = remove_in_shard(dir, folder, name, &stat);
    kilni_os()->close(folder);
    if (status == KILN_OK) {
        kilni_dir_count_removed(dir, shard, &stat);
    }
    return status;
}
