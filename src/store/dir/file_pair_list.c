/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "key/encoding.h"
#include "os/file.h"
#include "os/os.h"
#include "store/dir/file_pair.h"

static bool add(kilni_pair_list *list, const kilni_pair_slot *slot)
{
    kilni_pair_slot *slots =
        kilni_array_grown(list->slots, list->count, &list->capacity, sizeof *slots);
    if (!slots) {
        return false;
    }
    list->slots = slots;
    list->slots[list->count++] = *slot;
    return true;
}

static int compare_numbers(const void *first, const void *second)
{
    const kilni_pair_slot *a = first;
    const kilni_pair_slot *b = second;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Sorts the slots by number, and merges the slots of a number's two files into one. */
static void sort_and_merge(kilni_pair_list *list)
{
    if (list->count == 0) {
        return;
    }
    qsort(list->slots, list->count, sizeof *list->slots, compare_numbers);
    size_t last = 0;
    for (size_t i = 1; i < list->count; i++) {
        if (list->slots[i].number != list->slots[last].number) {
            list->slots[++last] = list->slots[i];
            continue;
        }
        list->slots[last].has_key |= list->slots[i].has_key;
        list->slots[last].has_payload |= list->slots[i].has_payload;
    }
    list->count = last + 1;
}

/* Returns true if a file exists, or if an error leaves this unknown. In the second case the caller
 * finds out when it opens the file. */
static bool may_be_there(int folder, const char *name)
{
    struct stat stat;
    return kilni_os()->fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 ||
           (errno != ENOENT && errno != ENOTDIR);
}

/* In layouts in which each number has a folder, this function checks which files that folder
 * contains: the key half, the payload file, or both. */
static void look_into_slots(const kilni_dir *dir, int folder, kilni_pair_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        kilni_pair_slot *slot = &list->slots[i];
        char name[KILNI_PAIR_NAME_SIZE];
        if (slot->is_foreign) {
            continue;
        }
        kilni_pair_key_name(dir, slot->number, name);
        slot->has_key = may_be_there(folder, name);
        kilni_pair_payload_name(dir, slot->number, name);
        slot->has_payload = may_be_there(folder, name);
    }
}

static kiln_status list_names(const kilni_dir *dir, int folder, DIR *listing,
                              kilni_pair_temporary_fn *visit_temporary, void *user,
                              kilni_pair_list *list)
{
    for (;;) {
        errno = 0;
        const struct dirent *found = kilni_os()->readdir(listing);
        if (!found) {
            return errno == 0 ? KILN_OK : kilni_dir_read_status(errno);
        }
        kilni_pair_slot slot;
        if (kilni_pair_parse_name(dir, found->d_name, &slot)) {
            if (!kilni_pair_is_slot_real(dir, folder, slot.number)) {
                slot = (kilni_pair_slot){.number = slot.number, .is_foreign = true};
            }
            if (!add(list, &slot)) {
                return KILN_E_NO_MEMORY;
            }
        } else if (visit_temporary && kilni_dir_is_temporary_name(found->d_name)) {
            visit_temporary(user, found->d_name);
        }
    }
}

kiln_status kilni_pair_list_read(const kilni_dir *dir, int folder,
                                 kilni_pair_temporary_fn *visit_temporary, void *user,
                                 kilni_pair_list *ret_list)
{
    DIR *listing = kilni_file_list(folder);
    if (!listing) {
        return kilni_dir_read_status(errno);
    }
    kilni_pair_list list = {0};
    const kiln_status status = list_names(dir, folder, listing, visit_temporary, user, &list);
    kilni_os()->closedir(listing);
    if (status != KILN_OK) {
        kilni_pair_list_done(&list);
        return status;
    }
    sort_and_merge(&list);
    if (kilni_pair_naming_of(dir)->has_slots) {
        look_into_slots(dir, folder, &list);
    }
    *ret_list = list;
    return KILN_OK;
}

void kilni_pair_list_done(kilni_pair_list *list)
{
    free(list->slots);
    *list = (kilni_pair_list){0};
}

/* Reads a whole file into new memory. Returns KILN_MISS if the file was truncated, or cannot be
 * read. */
static kiln_status read_bytes(int file, size_t size, void **ret_bytes)
{
    void *bytes = malloc(size);
    if (!bytes) {
        return KILN_E_NO_MEMORY;
    }
    size_t count = 0;
    if (kilni_file_read(file, bytes, size, &count) != KILN_OK || count != size) {
        free(bytes);
        return KILN_MISS;
    }
    *ret_bytes = bytes;
    return KILN_OK;
}

/* Compares two keys part by part. If one of two equal keys is stripped, their encodings differ, so
 * it is not enough to compare the encodings. */
static kiln_status compare_parts(const void *bytes, size_t size, const kiln_key *key)
{
    kiln_key *stored = NULL;
    kiln_status status = kiln_key_decode(bytes, size, &stored);
    if (status == KILN_OK) {
        status = kiln_key_equals(stored, key) ? KILN_OK : KILN_MISS;
    }
    kiln_key_release(&stored);
    return status == KILN_E_NO_MEMORY ? status : status == KILN_OK ? KILN_OK : KILN_MISS;
}

static bool is_stripped(const unsigned char *bytes, size_t size)
{
    return size > KILNI_KEY_MAGIC_SIZE && bytes[KILNI_KEY_MAGIC_SIZE] & KILNI_KEY_FLAG_STRIPPED;
}

static kiln_status compare_file(const kilni_dir *dir, int file, const struct stat *stat,
                                const kiln_key *key)
{
    size_t wanted_size;
    const unsigned char *wanted = kiln_key_encoding(key, &wanted_size);
    unsigned char head[KILNI_KEY_HEADER_SIZE];
    size_t count = 0;
    if (stat->st_size <= 0 || (uint64_t)stat->st_size > kilni_dir_largest_file(dir) ||
        kilni_file_read_at(file, head, sizeof head, 0, &count) != KILN_OK) {
        return KILN_MISS;
    }
    const bool by_parts = is_stripped(head, count) || is_stripped(wanted, wanted_size);
    const size_t size = (size_t)stat->st_size;
    if (!by_parts && size != wanted_size) {
        return KILN_MISS;
    }
    void *bytes = NULL;
    kiln_status status = read_bytes(file, size, &bytes);
    if (status != KILN_OK) {
        return status;
    }
    if (by_parts) {
        status = compare_parts(bytes, size, key);
    } else {
        status = memcmp(bytes, wanted, size) == 0 ? KILN_OK : KILN_MISS;
    }
    free(bytes);
    return status;
}

kiln_status kilni_pair_compare_key(const kilni_dir *dir, int folder, uint32_t number,
                                   const kiln_key *key)
{
    char name[KILNI_PAIR_NAME_SIZE];
    kilni_pair_key_name(dir, number, name);
    int file;
    struct stat stat;
    kiln_status status = kilni_dir_open_file(dir, folder, name, &file, &stat);
    if (status != KILN_OK) {
        return status == KILN_E_NO_MEMORY ? status : KILN_MISS;
    }
    status = compare_file(dir, file, &stat, key);
    kilni_os()->close(file);
    return status;
}
