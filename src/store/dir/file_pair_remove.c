/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes pairs. The key half is removed first, because no reader accepts a payload without its key
 * half. To remove it, a remover first sets the key half aside. If the payload was replaced in the
 * meantime, the remover renames the key half back.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "os/os.h"
#include "store/dir/file_pair.h"

kilni_pair_payload kilni_pair_look_at_payload(const kilni_dir *dir, int folder, uint32_t number,
                                              struct stat *ret_stat)
{
    char name[KILNI_PAIR_NAME_SIZE];
    kilni_pair_payload_name(dir, number, name);
    struct stat stat;
    const bool is_known = kilni_os()->fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0;
    const int system_error = errno;
    if (ret_stat) {
        *ret_stat = is_known ? stat : (struct stat){0};
    }
    if (!is_known) {
        return kilni_dir_read_status(system_error) == KILN_MISS ? KILNI_PAIR_NONE
                                                                : KILNI_PAIR_STAYS;
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

void kilni_pair_remove_slot_folder(const kilni_dir *dir, int folder, uint32_t number)
{
    if (kilni_pair_naming_of(dir)->has_slots) {
        char name[KILNI_PAIR_NAME_SIZE];
        kilni_pair_slot_name(number, name);
        kilni_os()->unlinkat(folder, name, AT_REMOVEDIR);
    }
}

kiln_status kilni_pair_remove_slot(kilni_dir *dir, int folder, uint32_t number,
                                   const kilni_dir_identity *seen)
{
    char key_name[KILNI_PAIR_NAME_SIZE], name[KILNI_PAIR_NAME_SIZE], aside[KILNI_DIR_PATH_SIZE];
    if (!kilni_pair_is_slot_real(dir, folder, number)) {
        return KILN_MISS;
    }
    kilni_pair_key_name(dir, number, key_name);
    kilni_pair_payload_name(dir, number, name);
    kiln_status status = kilni_dir_recheck(folder, name, seen);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_move_aside(folder, key_name, aside);
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_remove_seen(folder, name, seen);
    if (status != KILN_OK) {
        kilni_dir_restore_aside(folder, aside, key_name);
        return status;
    }
    kilni_os()->unlinkat(folder, aside, 0);
    kilni_pair_remove_slot_folder(dir, folder, number);
    return KILN_OK;
}

/* A listing can miss a file that is being replaced, and a writer can add the missing file of a pair
 * at any time. So this function first sets the half aside, and then looks for the other file again.
 * A writer first puts a payload, and then looks for its key half. So the remover sees the writer's
 * file, or the writer sees that the key half is missing. */
kiln_status kilni_pair_remove_half_of(const kilni_dir *dir, int folder, uint32_t number,
                                      kilni_dir_half half, const kilni_dir_identity *seen)
{
    char names[2][KILNI_PAIR_NAME_SIZE], aside[KILNI_DIR_PATH_SIZE];
    if (!kilni_pair_is_slot_real(dir, folder, number)) {
        return KILN_MISS;
    }
    kilni_pair_key_name(dir, number, names[half != KILNI_DIR_HALF_KEY]);
    kilni_pair_payload_name(dir, number, names[half == KILNI_DIR_HALF_KEY]);
    const char *const name = names[0], *const other = names[1];
    kiln_status status =
        kilni_dir_is_gone(folder, other) ? kilni_dir_recheck(folder, name, seen) : KILN_EXISTS;
    if (status == KILN_OK) {
        status = kilni_dir_move_aside(folder, name, aside);
    }
    if (status != KILN_OK) {
        return status;
    }
    status = kilni_dir_is_gone(folder, other) ? kilni_dir_remove_aside(folder, aside, seen)
                                              : KILN_EXISTS;
    if (status != KILN_OK) {
        kilni_dir_restore_aside(folder, aside, name);
        return status;
    }
    kilni_pair_remove_slot_folder(dir, folder, number);
    return KILN_OK;
}

kiln_status kilni_pair_remove_half(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen)
{
    return kilni_pair_remove_half_of(dir, found->directory, found->number, found->half, seen);
}

kiln_status kilni_pair_remove_place(kilni_dir *dir, const kilni_dir_spot *spot,
                                    const kilni_dir_identity *seen)
{
    int folder;
    kiln_status status = kilni_dir_open_folder(dir, spot->folder, O_RDONLY, &folder);
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

/* Removes a pair. The caller holds its payload. The statuses are those of remove_if_own. */
static kiln_status remove_held(kilni_dir *dir, int folder, uint32_t number, const kiln_key *key,
                               const kiln_entry *judged, const kilni_dir_held *held)
{
    struct stat stat;
    uint64_t key_size;
    kiln_status status = kilni_pair_compare_key(dir, folder, number, key);
    if (status == KILN_OK) {
        status = kilni_dir_judge_held(dir, held, judged);
    }
    if (status == KILN_OK && !kilni_pair_stat(dir, folder, number, &stat, &key_size)) {
        status = KILN_MISS;
    }
    if (status != KILN_OK) {
        return status;
    }
    const kilni_dir_identity seen = kilni_dir_identity_of_held(held);
    status = kilni_pair_remove_slot(dir, folder, number, &seen);
    if (status == KILN_OK) {
        kilni_dir_count_removed(dir, 0, &stat);
    }
    return status;
}

/* Removes a number's pair if it belongs to the key. If @judged is not NULL, the pair's entry must
 * also equal @judged. If one of these conditions is false, or the pair was replaced in the
 * meantime, this function returns KILN_MISS. */
static kiln_status remove_if_own(kilni_dir *dir, int folder, uint32_t number, const kiln_key *key,
                                 const kiln_entry *judged)
{
    char name[KILNI_PAIR_NAME_SIZE];
    kilni_dir_held held;
    kilni_pair_payload_name(dir, number, name);
    kiln_status status = kilni_dir_hold(dir, folder, name, &held);
    if (status != KILN_OK) {
        return status == KILN_MISS || status == KILN_E_NO_MEMORY ? status : KILN_EXISTS;
    }
    status = remove_held(dir, folder, number, key, judged, &held);
    kilni_dir_release(&held);
    return status;
}

kiln_status kilni_pair_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged)
{
    kilni_dir *dir = kilni_dir_of(store);
    char path[KILNI_PAIR_FOLDER_SIZE];
    int folder;
    if (kilni_pair_folder_of(dir, key, path) != KILN_OK) {
        return KILN_MISS;
    }
    kiln_status status = kilni_dir_open_folder(dir, path, O_RDONLY, &folder);
    if (status != KILN_OK) {
        return status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    }
    kilni_pair_list list = {0};
    status = kilni_pair_list_read(dir, folder, NULL, NULL, &list);
    kiln_status result = status == KILN_OK || status == KILN_MISS ? KILN_MISS : KILN_E_IO;
    for (size_t i = 0; status == KILN_OK && i < list.count; i++) {
        const kiln_status removed =
            list.slots[i].has_key ? remove_if_own(dir, folder, list.slots[i].number, key, judged)
                                  : KILN_MISS;
        result = kilni_store_worse_removal(result, removed);
    }
    kilni_pair_list_done(&list);
    kilni_os()->close(folder);
    /* If no pair was removed, an empty folder might belong to a put that has just created it. */
    if (result != KILN_MISS) {
        kilni_pair_remove_empty(dir, path);
    }
    return result;
}
