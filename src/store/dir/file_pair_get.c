/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "os/os.h"
#include "store/dir/file_pair.h"

/* Opens a key's folder and lists it. */
static kiln_status list_folder(kilni_dir *dir, const kiln_key *key, int *ret_folder,
                               kilni_pair_list *ret_list)
{
    char path[KILNI_PAIR_FOLDER_SIZE];
    if (kilni_pair_folder_of(dir, key, path) != KILN_OK) {
        return KILN_MISS;
    }
    int folder;
    kiln_status status = kilni_dir_open_folder(dir, path, O_RDONLY, &folder);
    if (status != KILN_OK) {
        if (status == KILN_E_DENIED) {
            kilni_store_warn(&dir->store, KILNI_WARNED_ENTRY,
                             "%s/%s: not trusted: owner, mode or a link on the way", dir->path,
                             path);
        }
        return status;
    }
    status = kilni_pair_list_read(dir, folder, NULL, NULL, ret_list);
    if (status != KILN_OK) {
        kilni_os()->close(folder);
        return status;
    }
    *ret_folder = folder;
    return KILN_OK;
}

static kiln_status read_payload(kilni_dir *dir, int folder, uint32_t number, const kiln_key *key,
                                kiln_entry **ret_entry, bool *ret_first_use)
{
    char name[KILNI_PAIR_NAME_SIZE];
    int file;
    struct stat stat;
    kilni_pair_payload_name(dir, number, name);
    kiln_status status = kilni_dir_open_file(dir, folder, name, &file, &stat);
    if (status == KILN_OK) {
        status = kilni_dir_read_entry(dir, file, &stat, key, ret_entry, ret_first_use);
    }
    if (status == KILN_E_DENIED) {
        kilni_store_warn(&dir->store, KILNI_WARNED_ENTRY,
                         "%s: a file %s is not trusted: owner, mode or kind", dir->path, name);
    }
    return status;
}

/* Searches a folder for the entry of a key. If several pairs have the key, this function skips
 * damaged pairs and pairs of a newer format. */
static kiln_status search(kilni_dir *dir, int folder, const kilni_pair_list *list,
                          const kiln_key *key, kiln_entry **ret_entry, bool *ret_first_use)
{
    kiln_status first_failure = KILN_MISS;
    for (size_t i = 0; i < list->count; i++) {
        const kilni_pair_slot *slot = &list->slots[i];
        if (!slot->has_key) {
            continue;
        }
        kiln_status status = kilni_pair_compare_key(dir, folder, slot->number, key);
        if (status == KILN_OK) {
            status = read_payload(dir, folder, slot->number, key, ret_entry, ret_first_use);
        }
        if (status == KILN_OK || status == KILN_E_NO_MEMORY) {
            return status;
        }
        if (first_failure == KILN_MISS) {
            first_failure = status;
        }
    }
    return first_failure;
}

kiln_status kilni_pair_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                           bool *ret_first_use)
{
    kilni_dir *dir = kilni_dir_of(store);
    int folder;
    kilni_pair_list list;
    kiln_status status = list_folder(dir, key, &folder, &list);
    if (status != KILN_OK) {
        return status;
    }
    status = search(dir, folder, &list, key, ret_entry, ret_first_use);
    kilni_pair_list_done(&list);
    kilni_os()->close(folder);
    return status;
}

kiln_status kilni_pair_contains(kiln_store *store, const kiln_key *key)
{
    kilni_dir *dir = kilni_dir_of(store);
    int folder;
    kilni_pair_list list;
    kiln_status status = list_folder(dir, key, &folder, &list);
    if (status != KILN_OK) {
        return status == KILN_E_IO ? status : KILN_MISS;
    }
    bool is_found = false;
    for (size_t i = 0; i < list.count && !is_found; i++) {
        const kilni_pair_slot *slot = &list.slots[i];
        struct stat stat;
        uint64_t key_size;
        is_found = slot->has_key && kilni_pair_stat(dir, folder, slot->number, &stat, &key_size) &&
                   kilni_pair_compare_key(dir, folder, slot->number, key) == KILN_OK;
    }
    kilni_pair_list_done(&list);
    kilni_os()->close(folder);
    return is_found ? KILN_OK : KILN_MISS;
}
