/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a pair. Other processes can write and remove files in the same folder at the same time. So
 * a file that existed at one step might no longer exist at the next step. In that case the next
 * step returns KILN_BUSY, and the put begins again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "os/file.h"
#include "os/os.h"
#include "store/dir/file_pair.h"

#define TRIES 16

typedef struct pair_put {
    kilni_dir *dir;
    const kiln_entry *entry;
    const kiln_key *key;
    char path[KILNI_PAIR_FOLDER_SIZE];
    int folder;
    uint32_t number;            /* the number whose key half contains the key */
    kilni_dir_identity claimed; /* the key half that this put created */
    uint64_t disk_bytes;
    kilni_dir_incumbent replaced;
} pair_put;

/* ---- the number ---- */

static bool may_take(const pair_put *put, const kilni_pair_slot *slot)
{
    return slot->has_key && kilni_pair_look_at_payload(put->dir, put->folder, slot->number, NULL) !=
                                KILNI_PAIR_STAYS;
}

/* Finds the lowest number whose key half contains the key and whose payload can be replaced.
 * Returns KILN_OK; KILN_MISS; KILN_E_NO_MEMORY. */
static kiln_status find_own(const pair_put *put, const kilni_pair_list *list, uint32_t *ret_number)
{
    for (size_t i = 0; i < list->count; i++) {
        const kilni_pair_slot *slot = &list->slots[i];
        if (!may_take(put, slot)) {
            continue;
        }
        const kiln_status status =
            kilni_pair_compare_key(put->dir, put->folder, slot->number, put->key);
        if (status != KILN_MISS) {
            *ret_number = slot->number;
            return status;
        }
    }
    return KILN_MISS;
}

/* Returns the lowest number that has no files. */
static uint32_t find_free(const kilni_pair_list *list)
{
    uint32_t number = 0;
    for (size_t i = 0; i < list->count && list->slots[i].number <= number; i++) {
        const kilni_pair_slot *slot = &list->slots[i];
        number +=
            slot->number == number && (slot->has_key || slot->has_payload || slot->is_foreign);
    }
    return number;
}

/* Returns true if a link failed because the file system does not support links. */
static bool has_no_links(int system_error)
{
    return system_error == EPERM || system_error == EOPNOTSUPP || system_error == ENOSYS ||
           system_error == EMLINK;
}

static kiln_status claim_status(int system_error)
{
    const kiln_status status = kilni_status_from_errno(system_error);
    return status == KILN_EXISTS || status == KILN_MISS ? KILN_BUSY : status;
}

/* Gives a key half its name by a link. Returns KILN_BUSY if a file already has that name. */
static kiln_status link_key(pair_put *put, const char *temporary, uint32_t number)
{
    char name[KILNI_PAIR_NAME_SIZE];
    struct stat ours;
    kilni_pair_key_name(put->dir, number, name);
    if (kilni_os()->fstatat(put->folder, temporary, &ours, AT_SYMLINK_NOFOLLOW) != 0) {
        return claim_status(errno);
    }
    int result = kilni_os()->linkat(put->folder, temporary, put->folder, name, 0);
    if (result != 0 && has_no_links(errno)) {
        result = kilni_dir_rename_to_claimed(put->folder, temporary, name);
    }
    if (result != 0) {
        return claim_status(errno);
    }
    put->number = number;
    put->claimed = kilni_dir_identity_of(&ours);
    return KILN_OK;
}

static kiln_status write_and_link_key(pair_put *put, uint32_t number)
{
    char temporary[KILNI_PAIR_NAME_SIZE];
    kiln_bytes bytes = {0};
    bytes.data = kiln_key_encoding(put->key, &bytes.size);
    uint64_t disk_bytes = 0;
    kiln_status status = kilni_dir_write_temporary(put->dir, put->folder, ".", bytes, temporary,
                                                   sizeof temporary, &disk_bytes);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_BUSY : status;
    }
    status = link_key(put, temporary, number);
    kilni_os()->unlinkat(put->folder, temporary, 0);
    if (status == KILN_OK) {
        put->disk_bytes += disk_bytes;
    }
    return status;
}

/* Claims a number for the key. Returns KILN_BUSY if a different writer has claimed the number
 * first. */
static kiln_status claim(pair_put *put, uint32_t number)
{
    char slot[KILNI_PAIR_NAME_SIZE];
    kilni_pair_slot_name(number, slot);
    if (kilni_pair_naming_of(put->dir)->has_slots &&
        kilni_dir_make_directory(put->folder, slot) != 0 && errno != EEXIST) {
        return claim_status(errno);
    }
    if (!kilni_pair_is_slot_real(put->dir, put->folder, number)) {
        return KILN_BUSY;
    }
    const kiln_status status = write_and_link_key(put, number);
    if (status != KILN_OK) {
        kilni_pair_remove_slot_folder(put->dir, put->folder, number);
    }
    return status;
}

/* Releases a number that this put has claimed, unless another writer of the same key has used it in
 * the meantime. */
static void unclaim(const pair_put *put)
{
    kilni_pair_remove_half_of(put->dir, put->folder, put->number, KILNI_DIR_HALF_KEY,
                              &put->claimed);
}

/* All writers of a key must use the same number. So this function checks that this put's number is
 * the lowest one that is claimed for the key. A lower number might have become free in the
 * meantime, and another writer of the key might have claimed that number. If that has happened,
 * this function releases this put's number and returns KILN_BUSY. */
static kiln_status agree_on_number(pair_put *put)
{
    kilni_pair_list list;
    kiln_status status = kilni_pair_list_read(put->dir, put->folder, NULL, NULL, &list);
    uint32_t lowest = put->number;
    if (status == KILN_OK) {
        status = find_own(put, &list, &lowest);
        kilni_pair_list_done(&list);
    }
    if (status != KILN_OK || lowest != put->number) {
        unclaim(put);
        return status == KILN_OK || status == KILN_MISS ? KILN_BUSY : status;
    }
    return KILN_OK;
}

/* Finds the number that is claimed for the key, or claims one. */
static kiln_status choose_number(pair_put *put, bool *ret_is_claimed)
{
    kilni_pair_list list;
    kiln_status status = kilni_pair_list_read(put->dir, put->folder, NULL, NULL, &list);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_BUSY : status;
    }
    status = find_own(put, &list, &put->number);
    const uint32_t free_number = find_free(&list);
    kilni_pair_list_done(&list);
    *ret_is_claimed = status == KILN_MISS;
    if (status != KILN_MISS) {
        return status;
    }
    if (free_number > KILNI_PAIR_MAX_NUMBER) {
        return KILN_E_FULL;
    }
    status = claim(put, free_number);
    return status == KILN_OK ? agree_on_number(put) : status;
}

/* ---- the payload ---- */

/* Examines the payload that the new payload will replace. Returns KILN_OK; KILN_BUSY: the present
 * payload must not be replaced, or the number's folder can no longer be used; KILN_E_FULL: there is
 * no room for @size bytes.
 *
 * @size  the size of the files that this put has written so far */
static kiln_status look_at_incumbent(pair_put *put, uint64_t size)
{
    struct stat stat;
    put->replaced = (kilni_dir_incumbent){.is_there = false};
    const kilni_pair_payload payload =
        kilni_pair_look_at_payload(put->dir, put->folder, put->number, &stat);
    if (payload == KILNI_PAIR_STAYS ||
        !kilni_pair_is_slot_real(put->dir, put->folder, put->number)) {
        return KILN_BUSY;
    }
    if (payload == KILNI_PAIR_REPLACEABLE) {
        put->replaced =
            (kilni_dir_incumbent){.is_there = true, .disk_bytes = kilni_dir_disk_bytes(&stat)};
    }
    return kilni_dir_has_room(put->dir, size, put->replaced.disk_bytes) ? KILN_OK : KILN_E_FULL;
}

/* Writes the payload and renames it to its name. Returns KILN_BUSY if the number no longer belongs
 * to the key, or if the present payload must not be replaced. */
static kiln_status publish(pair_put *put)
{
    char name[KILNI_PAIR_NAME_SIZE], temporary[KILNI_PAIR_NAME_SIZE];
    kilni_pair_payload_name(put->dir, put->number, name);
    uint64_t disk_bytes = 0;
    kiln_status status =
        kilni_dir_write_temporary(put->dir, put->folder, ".", kiln_entry_encoding(put->entry),
                                  temporary, sizeof temporary, &disk_bytes);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_BUSY : status;
    }
    status = look_at_incumbent(put, put->disk_bytes + disk_bytes);
    if (status != KILN_OK) {
        kilni_os()->unlinkat(put->folder, temporary, 0);
        return status;
    }
    struct stat ours;
    if (kilni_os()->fstatat(put->folder, temporary, &ours, AT_SYMLINK_NOFOLLOW) != 0) {
        status = kilni_dir_write_status(errno);
        kilni_os()->unlinkat(put->folder, temporary, 0);
    } else {
        status = kilni_dir_publish_temporary(put->folder, temporary, name);
    }
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_BUSY : status;
    }
    if (kilni_pair_compare_key(put->dir, put->folder, put->number, put->key) == KILN_MISS) {
        const kilni_dir_identity seen = kilni_dir_identity_of(&ours);
        kilni_dir_remove_seen(put->folder, name, &seen);
        return KILN_BUSY;
    }
    put->disk_bytes += disk_bytes;
    return KILN_OK;
}

/* Removes pairs of the same key that have higher numbers. Concurrent writers can leave such pairs.
 */
static void remove_others(const pair_put *put)
{
    kilni_pair_list list;
    if (kilni_pair_list_read(put->dir, put->folder, NULL, NULL, &list) != KILN_OK) {
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        const kilni_pair_slot *slot = &list.slots[i];
        struct stat stat;
        uint64_t key_size;
        if (slot->number > put->number &&
            kilni_pair_stat(put->dir, put->folder, slot->number, &stat, &key_size) &&
            may_take(put, slot) &&
            kilni_pair_compare_key(put->dir, put->folder, slot->number, put->key) == KILN_OK) {
            const kilni_dir_identity seen = kilni_dir_identity_of(&stat);
            if (kilni_pair_remove_slot(put->dir, put->folder, slot->number, &seen) == KILN_OK) {
                kilni_dir_count_removed(put->dir, 0, &stat);
            }
        }
    }
    kilni_pair_list_done(&list);
}

static kiln_status put_once(pair_put *put)
{
    kiln_status status = kilni_pair_make_folder(put->dir, put->path, &put->folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_BUSY : status;
    }
    bool is_claimed = false;
    put->disk_bytes = 0;
    status = choose_number(put, &is_claimed);
    if (status == KILN_OK) {
        status = publish(put);
        if (status == KILN_OK) {
            remove_others(put);
        } else if (is_claimed) {
            unclaim(put);
        }
    }
    kilni_os()->close(put->folder);
    return status;
}

kiln_status kilni_pair_put(kiln_store *store, const kiln_entry *entry)
{
    pair_put put = {
        .dir = kilni_dir_of(store), .entry = entry, .key = kiln_entry_key(entry), .folder = -1};
    kiln_status status = kilni_pair_folder_of(put.dir, put.key, put.path);
    if (status != KILN_OK) {
        return status;
    }
    status = KILN_BUSY;
    for (int i = 0; i < TRIES && status == KILN_BUSY; i++) {
        status = put_once(&put);
    }
    if (status != KILN_OK) {
        /* Empty folders are removed only after the last try. If puts removed them after each try,
         * two puts could keep removing folders that the other put has just created. */
        kilni_pair_remove_empty(put.dir, put.path);
        status = status == KILN_BUSY ? KILN_E_IO : status;
        kilni_store_warn(store, KILNI_WARNED_PUT, "%s/%s: can't be written: %s", put.dir->path,
                         put.path, kiln_status_text(status));
        return status;
    }
    kilni_dir_count_put(put.dir, 0, put.disk_bytes, &put.replaced);
    return KILN_OK;
}
