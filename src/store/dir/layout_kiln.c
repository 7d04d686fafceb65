/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout "kiln": one file for each entry, named by the digest of its key. Every layout keeps
 * requests this way.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "entry/entry.h"
#include "os/os.h"
#include "store/dir/layout.h"

/* How often a put creates a shard again that a janitor removed because it was still empty. */
#define PUT_TRIES 4

/* Statuses as kilni_dir_open_file, for the entry and for its shard. */
static kiln_status open_entry(const kilni_dir *dir, const kiln_key *key, int *ret_file,
                              struct stat *ret_stat)
{
    char name[KILN_DIGEST_TEXT_SIZE];
    int folder;
    kiln_status status = kilni_dir_open_shard(dir, kilni_dir_shard_of(key), O_PATH, &folder);
    if (status == KILN_OK) {
        kilni_dir_name_of(key, name);
        status = kilni_dir_open_file(dir, folder, name, ret_file, ret_stat);
        kilni_os()->close(folder);
    }
    return status;
}

static kiln_status kiln_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry)
{
    kilni_dir *dir = kilni_dir_of(store);
    int file;
    struct stat stat;
    kiln_status status = open_entry(dir, key, &file, &stat);
    if (status != KILN_OK) {
        if (status == KILN_E_DENIED) {
            char path[KILNI_DIR_PATH_SIZE];
            kilni_dir_path_of(key, path);
            kilni_store_warn(store, KILNI_WARNED_ENTRY,
                             "%s/%s: it or its folder is not trusted: owner, mode or kind",
                             dir->path, path);
        }
        return status;
    }
    kiln_entry *entry = NULL;
    status = kilni_dir_read_file(dir, file, &stat, &entry);
    if (status == KILN_OK && !kiln_key_equals(key, kiln_entry_key(entry))) {
        kiln_entry_release(&entry);
        status = KILN_MISS;
    }
    if (status == KILN_OK) {
        kilni_dir_stamp_use(dir, file, &stat);
        *ret_entry = entry;
    }
    kilni_os()->close(file);
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

/* Returns KILN_OK: there is nothing, or what may be replaced; KILN_EXISTS; KILN_E_IO,
 * KILN_E_NO_MEMORY: unknown. */
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

/* Returns KILN_MISS if the shard is gone. */
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
    bool is_declined; /* because of the entry that is there: no failure to warn of */
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

/* Sets @ret_stat to what was removed, on KILN_OK. Statuses as kiln_store_remove. */
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
    kilni_dir_let_go(&held);
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
    .contains = kiln_contains,
    .put = kiln_put,
    .remove = kiln_remove,
    .walk = walk,
    .check_place = check_place,
    .digest_of = digest_of,
    .remove_place = remove_place,
};
