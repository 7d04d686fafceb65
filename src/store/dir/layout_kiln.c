/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout "kiln": one file for each entry, named by the digest of the entry's key. Every layout
 * keeps capture requests in this way.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "entry/entry.h"
#include "os/os.h"
#include "store/dir/layout.h"

/* The maximum number of times that a put creates its shard. A janitor can remove a new shard,
 * because the shard is still empty. */
#define PUT_TRIES 4

/* Checks a shard by its path. This is safe because only this user and root can put a different
 * folder there. */
static kiln_status judge_shard(const kilni_dir *dir, unsigned shard)
{
    char path[KILNI_DIR_PATH_SIZE];
    struct stat stat;
    kilni_dir_shard_path(shard, path);
    if (kilni_os()->fstatat(kilni_dir_root(dir), path, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return kilni_dir_read_status(errno);
    }
    return kilni_dir_trusts_folder(dir, &stat) ? KILN_OK : KILN_E_DENIED;
}

/* Opens a file by its whole path, and then checks the file's shard. In this order, a get of a
 * missing file needs only one call. */
static kiln_status open_in_shard(const kilni_dir *dir, unsigned shard, const char *path,
                                 int *ret_file, struct stat *ret_stat)
{
    kiln_status status = kilni_dir_open_file_below(dir, path, ret_file, ret_stat);
    if (status != KILN_OK) {
        return status;
    }
    status = judge_shard(dir, shard);
    if (status != KILN_OK) {
        kilni_os()->close(*ret_file);
    }
    return status;
}

static kiln_status kiln_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                            bool *ret_first_use)
{
    kilni_dir *dir = kilni_dir_of(store);
    char path[KILNI_DIR_PATH_SIZE];
    int file;
    struct stat stat;
    kilni_dir_path_of(key, path);
    kiln_status status = open_in_shard(dir, kilni_dir_shard_of(key), path, &file, &stat);
    if (status == KILN_OK) {
        status = kilni_dir_read_entry(dir, file, &stat, key, ret_entry, ret_first_use);
    }
    if (status == KILN_E_DENIED) {
        kilni_store_warn(store, KILNI_WARNED_ENTRY,
                         "%s/%s: it or its folder is not trusted: owner, mode or kind", dir->path,
                         path);
    }
    return status;
}

static kiln_status read_named(const kilni_dir *dir, int folder, const kiln_digest *digest,
                              kiln_entry **ret_entry)
{
    char name[KILN_DIGEST_TEXT_SIZE];
    int file;
    struct stat stat;
    kiln_digest_format(digest, name);
    kiln_status status = kilni_dir_open_file(dir, folder, name, &file, &stat);
    if (status != KILN_OK) {
        return status;
    }
    kiln_entry *entry = NULL;
    status = kilni_dir_read_file(dir, file, &stat, &entry);
    kilni_os()->close(file);
    if (status != KILN_OK) {
        return status;
    }
    const kiln_digest own = kiln_key_digest(kiln_entry_key(entry));
    if (memcmp(&own, digest, sizeof own) != 0) {
        kiln_entry_release(&entry);
        return KILN_E_CORRUPT;
    }
    *ret_entry = entry;
    return KILN_OK;
}

static kiln_status kiln_read_digest(kiln_store *store, const kiln_digest *digest,
                                    kiln_entry **ret_entry)
{
    kilni_dir *dir = kilni_dir_of(store);
    int folder;
    kiln_status status = kilni_dir_open_shard(dir, digest->bytes[0], O_PATH, &folder);
    if (status == KILN_OK) {
        status = read_named(dir, folder, digest, ret_entry);
        kilni_os()->close(folder);
    }
    return status;
}

static kiln_status kiln_contains(kiln_store *store, const kiln_key *key)
{
    kilni_dir *dir = kilni_dir_of(store);
    char name[KILN_DIGEST_TEXT_SIZE];
    int folder;
    struct stat stat;
    kilni_dir_name_of(key, name);
    kiln_status status = kilni_dir_open_shard(dir, kilni_dir_shard_of(key), O_PATH, &folder);
    if (status == KILN_OK) {
        if (kilni_os()->fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
            status = kilni_dir_read_status(errno);
        } else if (!S_ISREG(stat.st_mode)) {
            status = KILN_MISS;
        }
        kilni_os()->close(folder);
    }
    return status == KILN_OK || status == KILN_E_IO ? status : KILN_MISS;
}

/* Examines the file that a put will replace. Returns KILN_OK: there is no file, or the file can be
 * replaced; KILN_EXISTS: the file must not be replaced; KILN_E_IO, KILN_E_NO_MEMORY: the file could
 * not be examined. */
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
    const bool stays = kilni_dir_may_be_newer(dir, file, &stat);
    kilni_os()->close(file);
    return stays ? KILN_EXISTS : KILN_OK;
}

/* Writes an entry under its name. Returns KILN_MISS if the shard no longer exists. */
static kiln_status publish(const kilni_dir *dir, int folder, const char *name, kiln_bytes bytes,
                           uint64_t *ret_disk_bytes)
{
    char temporary[KILNI_DIR_PATH_SIZE];
    const kiln_status status = kilni_dir_write_temporary(dir, folder, ".", bytes, temporary,
                                                         sizeof temporary, ret_disk_bytes);
    return status == KILN_OK ? kilni_dir_publish_temporary(folder, temporary, name) : status;
}

/* What a put has written, and what it replaced. */
typedef struct written_entry {
    uint64_t disk_bytes;
    kilni_dir_incumbent replaced;
    bool is_declined; /* the store is full, or the existing file must not be replaced or could not
                         be examined. In these cases no warning is logged */
} written_entry;

/* Puts an entry into its shard. Returns the statuses of kiln_store_put. KILN_MISS: the shard no
 * longer exists. */
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
    if (status == KILN_OK &&
        !kilni_dir_has_room(dir, bytes.size, ret_written->replaced.disk_bytes)) {
        status = KILN_E_FULL;
    }
    ret_written->is_declined = status != KILN_OK;
    if (status == KILN_OK) {
        status = publish(dir, folder, name, bytes, &ret_written->disk_bytes);
    }
    kilni_os()->close(folder);
    return status;
}

static kiln_status kiln_put(kiln_store *store, const kiln_entry *entry)
{
    kilni_dir *dir = kilni_dir_of(store);
    const unsigned shard = kilni_dir_shard_of(kiln_entry_key(entry));
    written_entry written = {0};
    kiln_status status = put_in_shard(dir, shard, entry, &written);
    for (int i = 0; status == KILN_MISS && i < PUT_TRIES; i++) {
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
        kilni_dir_count_put(dir, shard, written.disk_bytes, &written.replaced);
    }
    return status;
}

/* Removes an entry. On KILN_OK, sets @ret_stat to the stat of the removed file. The statuses are
 * those of kiln_store_remove. */
static kiln_status remove_in_shard(const kilni_dir *dir, int folder, const char *name,
                                   const kiln_entry *judged, struct stat *ret_stat)
{
    kilni_dir_held held;
    kiln_status status = kilni_dir_hold(dir, folder, name, &held);
    if (status != KILN_OK) {
        return status == KILN_MISS || status == KILN_E_NO_MEMORY ? status : KILN_EXISTS;
    }
    status = kilni_dir_judge_held(dir, &held, judged);
    if (status == KILN_OK) {
        const kilni_dir_identity seen = kilni_dir_identity_of_held(&held);
        status = kilni_dir_remove_seen(folder, name, &seen);
    }
    *ret_stat = held.stat;
    kilni_dir_release(&held);
    return status;
}

static kiln_status kiln_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
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
    status = remove_in_shard(dir, folder, name, judged, &stat);
    kilni_os()->close(folder);
    if (status == KILN_OK) {
        kilni_dir_count_removed(dir, shard, &stat);
    }
    return status;
}

static kiln_status walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended)
{
    kiln_status first_failure = KILN_OK;
    for (unsigned shard = 0; shard < KILNI_DIR_REQUESTS && !*ret_has_ended; shard++) {
        const kiln_status status = kilni_dir_walk_shard(dir, shard, visit, user, ret_has_ended);
        if (status != KILN_OK && status != KILN_MISS && first_failure == KILN_OK) {
            first_failure = status;
        }
    }
    return first_failure;
}

static kiln_status check_place(kilni_dir *dir, const kilni_dir_found *found,
                               const kiln_entry *entry)
{
    (void)dir;
    const kiln_digest digest = kiln_key_digest(kiln_entry_key(entry));
    return memcmp(&digest, &found->digest, sizeof digest) == 0 ? KILN_OK : KILN_E_CORRUPT;
}

static kiln_digest digest_of(kilni_dir *dir, const kilni_dir_found *found)
{
    (void)dir;
    return found->digest;
}

static kiln_status remove_place(kilni_dir *dir, const kilni_dir_spot *spot,
                                const kilni_dir_identity *seen)
{
    char name[KILN_DIGEST_TEXT_SIZE];
    int folder;
    kiln_digest_format(&spot->digest, name);
    kiln_status status = kilni_dir_open_shard(dir, spot->shard, O_PATH, &folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    }
    status = kilni_dir_remove_seen(folder, name, seen);
    kilni_os()->close(folder);
    return status;
}

const kilni_dir_layout kilni_layout_kiln = {
    .get = kiln_get,
    .read_digest = kiln_read_digest,
    .contains = kiln_contains,
    .put = kiln_put,
    .remove = kiln_remove,
    .walk = walk,
    .check_place = check_place,
    .digest_of = digest_of,
    .remove_place = remove_place,
};
