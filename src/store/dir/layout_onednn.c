/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout "onednn". Each entry has the files key.bin and kernel.bin in the folder <hash>/<n>. If the
 * location names a backend, <hash> is in a folder with the backend's name. The file size.txt
 * contains the store's size.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "os/file.h"
#include "os/os.h"
#include "store/dir/file_pair.h"

#define SIZE_FILE "size.txt"
#define SIZE_TEXT_SIZE 32u

static kiln_status hash_levels(const kiln_key *key, kiln_digest *ret_levels)
{
    ret_levels[0] = kiln_key_digest(key);
    return KILN_OK;
}

/* Returns true if an open file is empty, or contains only a number. */
static bool holds_a_size(int file)
{
    char text[SIZE_TEXT_SIZE];
    size_t count = 0;
    if (kilni_file_read_at(file, text, sizeof text, 0, &count) != KILN_OK || count == sizeof text) {
        return false;
    }
    text[count] = '\0';
    const size_t digits = strspn(text, "0123456789");
    return digits == count || (digits + 1 == count && text[digits] == '\n');
}

/* Returns true if the size file can be replaced. It can be if it does not exist, is empty, or
 * contains only a number. */
static bool may_replace(const kilni_dir *dir)
{
    int file;
    struct stat stat;
    const kiln_status status =
        kilni_dir_open_file(dir, kilni_dir_root(dir), SIZE_FILE, &file, &stat);
    if (status != KILN_OK) {
        return status == KILN_MISS;
    }
    const bool may = holds_a_size(file);
    kilni_os()->close(file);
    return may;
}

/* Writes the store's size for users and other programs. Kiln itself uses the totals. */
static void note_size(kilni_dir *dir, uint64_t bytes)
{
    char text[SIZE_TEXT_SIZE], temporary[KILNI_PAIR_NAME_SIZE];
    const int root = kilni_dir_root(dir);
    uint64_t disk_bytes;
    const int length = snprintf(text, sizeof text, "%" PRIu64 "\n", bytes);
    const kiln_bytes content = {.data = text, .size = (size_t)length};
    if (may_replace(dir) && kilni_dir_write_temporary(dir, root, ".", content, temporary,
                                                      sizeof temporary, &disk_bytes) == KILN_OK) {
        kilni_dir_publish_temporary(root, temporary, SIZE_FILE);
    }
}

static const kilni_pair_naming naming = {
    .levels = 1,
    .has_backends = true,
    .has_slots = true,
    .key_suffix = "/key.bin",
    .payload_suffix = "/kernel.bin",
    .hash_levels = hash_levels,
};

const kilni_dir_layout kilni_layout_onednn = {
    .naming = &naming,
    .get = kilni_pair_get,
    .contains = kilni_pair_contains,
    .put = kilni_pair_put,
    .remove = kilni_pair_remove,
    .walk = kilni_pair_walk,
    .walk_from = kilni_pair_walk_from,
    .check_place = kilni_pair_check_place,
    .digest_of = kilni_pair_digest_of,
    .remove_place = kilni_pair_remove_place,
    .remove_half = kilni_pair_remove_half,
    .tidy = kilni_pair_tidy,
    .note_size = note_size,
};
