/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing pairs. The key file goes first, so that nobody believes what is left. It is only moved
 * aside at first: where the payload is found to be another one by then, it is put back.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "os/os.h"
#include "store/dir/pair.h"

kilni_pair_payload kilni_pair_look_at_payload(const kilni_dir *dir, int folder, uint32_t number,
                                              struct stat *ret_stat)
{
    char name[KILNI_PAIR_NAME_SIZE];
    kilni_pair_payload_name(dir, number, name);
    struct stat stat;
    if (kilni_os()->fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        return kilni_dir_read_status(errno) == KILN_MISS ? KILNI_PAIR_NONE : KILNI_PAIR_STAYS;
    }
    if (ret_stat) {
        *ret_stat = stat;
    }
    return !S_ISDIR(stat.st_mode) && kilni_dir_may_remove(dir, folder, name)
               ? KILNI_PAIR_REPLACEABLE
               : KILNI_PAIR_STAYS;
}

bool kilni_pair_stat(const kilni_dir *dir, int folder, uint32_t number, struct stat *ret_payload,
                     uint64_t *ret_key_size)
{
    char name[KILNI_PAIR_NAME_SIZE];
    struct stat key, payload;
    kilni_pair_key_name(dir, number, name);
    if (kilni_os()->fstatat(folder, name, &key, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(key.st_mode)) {
        return false;
    }
    kilni_pair_payload_name(dir, number, name);
    if (kilni_os()->fstatat(folder, name, &payload, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(payload.st_mode)) {
        return false;
    }
    const uint64_t disk_bytes = kilni_dir_disk_bytes(&key) + kilni_dir_disk_bytes(&payload);
    payload.st_blocks = (blkcnt_t)((disk_bytes + 511) / 512);
    *ret_payload = payload;
    *ret_key_size = (uint64_t)key.st_size;
    return true;
}

void kilni_pair_remove_empty(const kilni_dir *dir, const char *path)
{
    char part[KILNI_PAIR_FOLDER_SIZE];
    memcpy(part, path, strlen(path) + 1);
    for (char *end = part; end; end = strrchr(part, '/')) {
        if (end != part) {
            *end = '\0';
        }
        if (kilni_os()->unlinkat(kilni_dir_root(dir), part, AT_REMOVEDIR) != 0) {
            return;
        }
    }
}

static bool is_payload(const kilni_dir *dir, int folder, uint32_t number,
                       const kilni_dir_identity *seen)
{
    char name[KILNI_PAIR_NAME_SIZE];
    struct stat now;
    kilni_pair_payload_name(dir, number, name);
    return kilni_os()->fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_ino == seen->inode && now.st_size == seen->size &&
           now.st_mtim.tv_sec == seen->used.tv_sec && now.st_mtim.tv_nsec == seen->used.tv_nsec;
}

/* Gives a key file a name that finds nothing. */
static kiln_status move_aside(int folder, const char *name, char *aside)
{
    uint64_t number;
    if (kilni_os()->getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number ||
        !kilni_dir_temporary_path(".", number, aside, KILNI_PAIR_NAME_SIZE)) {
        return KILN_E_IO;
    }
    return kilni_os()->renameat(folder, name, folder, aside) == 0 ? KILN_OK
                                                                  : kilni_dir_remove_status(errno);
}

/* Unless another key has got the number meanwhile. */
static void put_back(int folder, const char *aside, const char *name)
{
    if (kilni_os()->linkat(folder, aside, folder, name, 0) == 0 || errno == EEXIST) {
        kilni_os()->unlinkat(folder, aside, 0);
    } else {
        kilni_os()->renameat(folder, aside, folder, name);
    }
}

kiln_status kilni_pair_remove_slot(kilni_dir *dir, int folder, uint32_t number,
                                   const kilni_dir_identity *seen)
{
    char key_name[KILNI_PAIR_NAME_SIZE], name[KILNI_PAIR_NAME_SIZE], aside[KILNI_PAIR_NAME_SIZE];
    kilni_pair_key_name(dir, number, key_name);
    kilni_pair_payload_name(dir, number, name);
    if (!is_payload(dir, folder, number, seen)) {
        return KILN_MISS;
    }
    if (!kilni_dir_may_remove(dir, folder, name)) {
        return KILN_EXISTS;
    }
    kiln_status status = move_aside(folder, key_name, aside);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_remove_seen(folder, name, seen);
    if (status != KILN_OK) {
        put_back(folder, aside, key_name);
        return status;
    }
    kilni_os()->unlinkat(folder, aside, 0);
    if (kilni_pair_naming_of(dir)->has_slots) {
        kilni_pair_slot_name(number, name);
        kilni_os()->unlinkat(folder, name, AT_REMOVEDIR);
    }
    return KILN_OK;
}

kiln_status kilni_pair_remove_place(kilni_dir *dir, const kilni_dir_spot *spot,
                                    const kilni_dir_identity *seen)
{
    int folder;
    kiln_status status = kilni_pair_open_folder(dir, spot->folder, &folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    }
    status = kilni_pair_remove_slot(dir, folder, spot->number, seen);
    kilni_os()->close(folder);
    if (status == KILN_OK) {
        kilni_pair_remove_empty(dir, spot->folder);
    }
    return status;
}

/* Removes a number's pair where it is the key's. KILN_MISS: it is not. */
static kiln_status remove_if_own(kilni_dir *dir, int folder, const kilni_pair_slot *slot,
                                 const kiln_key *key)
{
    struct stat stat;
    uint64_t key_size;
    if (!slot->has_key || !slot->has_payload ||
        !kilni_pair_stat(dir, folder, slot->number, &stat, &key_size)) {
        return KILN_MISS;
    }
    kiln_status status = kilni_pair_compare_key(dir, folder, slot->number, key);
    if (status != KILN_OK) {
        return status;
    }
    const kilni_dir_identity seen = kilni_dir_identity_of(&stat);
    status = kilni_pair_remove_slot(dir, folder, slot->number, &seen);
    if (status == KILN_OK) {
        kilni_dir_count_removed(dir, 0, &stat);
    }
    return status;
}

kiln_status kilni_pair_remove(kiln_store *store, const kiln_key *key)
{
    kilni_dir *dir = kilni_dir_of(store);
    char path[KILNI_PAIR_FOLDER_SIZE];
    int folder;
    if (kilni_pair_folder_of(dir, key, path) != KILN_OK) {
        return KILN_MISS;
    }
    kiln_status status = kilni_pair_open_folder(dir, path, &folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    }
    kilni_pair_list list;
    status = kilni_pair_list_read(dir, folder, NULL, NULL, &list);
    kiln_status result = status == KILN_OK || status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    for (size_t i = 0; status == KILN_OK && i < list.count; i++) {
        const kiln_status removed = remove_if_own(dir, folder, &list.slots[i], key);
        if (removed != KILN_MISS && result != KILN_EXISTS) {
            result = removed;
        }
    }
    if (status == KILN_OK) {
        kilni_pair_list_done(&list);
    }
    kilni_os()->close(folder);
    kilni_pair_remove_empty(dir, path);
    return result;
}
