/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
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

/* Numbers that follow a random one. Another process may have the same ones, as a forked child has:
 * the process that meets the other's file begins elsewhere. Relaxed: only its own value matters. */
static bool next_number(bool is_taken, uint64_t *ret_number)
{
    static _Atomic uint64_t next; /* 0: has not begun */
    uint64_t number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    if (number == 0 || is_taken) {
        if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
            atomic_store_explicit(&next, 0, memory_order_relaxed);
            return false;
        }
        atomic_store_explicit(&next, number + 1, memory_order_relaxed);
    }
    *ret_number = number;
    return true;
}

static kiln_status create_temporary(int directory, const char *folder, char *path, size_t size,
                                    int *ret_file)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number;
        if (!next_number(i > 0, &number)) {
            return KILN_E_IO;
        }
        if (!kilni_dir_temporary_path(folder, number, path, size)) {
            return KILN_E_IO;
        }
        int file = kilni_os()->openat(directory, path,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0) {
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
    if (status == KILN_OK) {
        kilni_file_complete_known_mode(file, &stat, 0600);
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
