/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries that consist of two files, for the layouts "sycl" and "onednn". The path of an entry's
 * folder consists of hashes of the key. In that folder each entry has a number and two files:
 *
 *     the key half      the key's whole encoding, which readers compare
 *     the payload file  a complete entry, including its key
 *
 * The key half claims a number for its key. It gets its name by a link. Unlike a rename, a link
 * fails if a file already has that name. (On file systems without links,
 * kilni_dir_rename_to_claimed has the same effect.) So only one writer gets the number. From then
 * on, each new payload is renamed over the previous one. A reader accepts a pair only if the key
 * half equals the wanted key and the payload is a sound entry of the same key. So half of a pair is
 * never a hit, whichever of the two files appears first. A remover renames the key half first, so
 * that readers no longer find the payload.
 *
 * Removed pairs leave gaps between the numbers. So a reader or writer must list the folder to find
 * the number of a key.
 */
#pragma once

#include "store/dir/layout.h"

#define KILNI_PAIR_MAX_LEVELS 4u
/* The size of a folder's path. The path consists of a backend, and of 32 digits and a slash for
 * each level. */
#define KILNI_PAIR_FOLDER_SIZE                                                                     \
    (KILNI_STORE_BACKEND_SIZE + KILNI_PAIR_MAX_LEVELS * KILN_DIGEST_TEXT_SIZE + 1)
#define KILNI_PAIR_NAME_SIZE 40u /* the size of any name in a folder, with its NUL */
#define KILNI_PAIR_MAX_NUMBER 999999999u

typedef struct kilni_pair_naming {
    unsigned levels;        /* the number of folders that are named by hashes */
    bool has_backends;      /* a folder named after a backend can contain them */
    bool has_slots;         /* each number has a folder of its own */
    const char *key_suffix; /* what follows the number */
    const char *payload_suffix;
    /* Computes the hash of each level. Returns KILN_OK; KILN_E_UNSUPPORTED: the key cannot be
     * hashed, because its long parts are missing. */
    kiln_status (*hash_levels)(const kiln_key *key, kiln_digest *ret_levels);
} kilni_pair_naming;

/* ---- file_pair_names.c ---- */

const kilni_pair_naming *kilni_pair_naming_of(const kilni_dir *dir);

/* The first function writes the part of a folder's path that consists of hashes of the key. The
 * second one writes the whole path. @path has KILNI_PAIR_FOLDER_SIZE bytes. Returns KILN_OK;
 * KILN_E_UNSUPPORTED. */
kiln_status kilni_pair_hash_path_of(const kilni_dir *dir, const kiln_key *key, char *path);
kiln_status kilni_pair_folder_of(const kilni_dir *dir, const kiln_key *key, char *path);

void kilni_pair_key_name(const kilni_dir *dir, uint32_t number, char *name);
void kilni_pair_payload_name(const kilni_dir *dir, uint32_t number, char *name);
/* Writes the name of the folder of a number, in layouts in which each number has a folder. */
void kilni_pair_slot_name(uint32_t number, char *name);

/* Returns true if the folder of a number is trusted (kilni_dir_trusts_folder) and is not a symbolic
 * link. Also returns true in layouts without such folders. The caller must check this before it
 * lists, puts or removes files in that folder. After the check, only processes of this user could
 * replace the folder with a link. */
bool kilni_pair_is_slot_real(const kilni_dir *dir, int folder, uint32_t number);

/* Returns true if a name is a hash. */
bool kilni_pair_is_level_name(const char *name, kiln_digest *ret_digest);

/* The number of a pair, and which of its files exist, according to the names in a folder. If
 * numbers have folders of their own, both files are assumed to exist if the folder does. */
typedef struct kilni_pair_slot {
    uint32_t number;
    bool has_key, has_payload;
    bool is_foreign; /* the number's folder is not trusted, or its name belongs to something else.
                        The number is not used */
} kilni_pair_slot;

bool kilni_pair_parse_name(const kilni_dir *dir, const char *name, kilni_pair_slot *ret_slot);

/* ---- file_pair_folder.c ---- */

/* Opens a folder. Creates missing folders, including the store's own directory. Returns KILN_OK;
 * KILN_MISS: a folder was removed in the meantime, or something that is not a folder has its name;
 * else as kilni_dir_write_status. */
kiln_status kilni_pair_make_folder(kilni_dir *dir, const char *path, int *ret_folder);

/* Removes a folder if it is empty, and then the folders above it, up to the first one that is not
 * empty. */
void kilni_pair_remove_empty(const kilni_dir *dir, const char *path);

/* ---- file_pair_list.c ---- */

/* The pairs and halves of pairs in a folder, in the order of their numbers. */
typedef struct kilni_pair_list {
    kilni_pair_slot *slots;
    size_t count, capacity;
} kilni_pair_list;

/* Called for each temporary in a folder. */
typedef void kilni_pair_temporary_fn(void *user, const char *name);

/* Lists a folder.
 *
 * @visit_temporary  may be NULL
 * @ret_list         [out] the caller must release it with kilni_pair_list_done
 * Returns KILN_OK; KILN_MISS: the folder no longer exists; KILN_E_DENIED; KILN_E_IO;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_pair_list_read(const kilni_dir *dir, int folder,
                                 kilni_pair_temporary_fn *visit_temporary, void *user,
                                 kilni_pair_list *ret_list);
void kilni_pair_list_done(kilni_pair_list *list);

/* Checks whether a number's key half contains a key. Returns KILN_OK; KILN_MISS: it contains a
 * different key, does not exist, or cannot be used; KILN_E_NO_MEMORY. */
kiln_status kilni_pair_compare_key(const kilni_dir *dir, int folder, uint32_t number,
                                   const kiln_key *key);

/* ---- file_pair_get.c, file_pair_put.c, file_pair_remove.c, file_pair_walk.c: the functions of
 * layout.h ---- */

kiln_status kilni_pair_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                           bool *ret_first_use);
kiln_status kilni_pair_contains(kiln_store *store, const kiln_key *key);
kiln_status kilni_pair_put(kiln_store *store, const kiln_entry *entry);
kiln_status kilni_pair_remove(kiln_store *store, const kiln_key *key, const kiln_entry *judged);
kiln_status kilni_pair_walk(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user,
                            bool *ret_has_ended);
kiln_status kilni_pair_walk_from(kilni_dir *dir, kilni_dir_position *position,
                                 kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);
kiln_status kilni_pair_check_place(kilni_dir *dir, const kilni_dir_found *found,
                                   const kiln_entry *entry);
kiln_digest kilni_pair_digest_of(kilni_dir *dir, const kilni_dir_found *found);
kiln_status kilni_pair_remove_place(kilni_dir *dir, const kilni_dir_spot *spot,
                                    const kilni_dir_identity *seen);
kiln_status kilni_pair_remove_half(kilni_dir *dir, const kilni_dir_found *found,
                                   const kilni_dir_identity *seen);
void kilni_pair_tidy(kilni_dir *dir);

/* What exists under the name of a number's payload. */
typedef enum kilni_pair_payload {
    KILNI_PAIR_NONE,
    KILNI_PAIR_REPLACEABLE,
    KILNI_PAIR_STAYS /* it is of a newer format, is a folder, or cannot be read */
} kilni_pair_payload;

/* @ret_stat  [out] the stat of the payload; zeros if the payload cannot be examined; can be NULL */
kilni_pair_payload kilni_pair_look_at_payload(const kilni_dir *dir, int folder, uint32_t number,
                                              struct stat *ret_stat);

/* Examines both files of a number. Sets @ret_payload to the payload's stat, but with the blocks of
 * both files. Returns false if one of the files is missing. */
bool kilni_pair_stat(const kilni_dir *dir, int folder, uint32_t number, struct stat *ret_payload,
                     uint64_t *ret_key_size);

/* Removes a pair if its payload is still the file that was seen. The caller must have examined the
 * pair before. The statuses are those of kilni_dir_remove_seen. */
kiln_status kilni_pair_remove_slot(kilni_dir *dir, int folder, uint32_t number,
                                   const kilni_dir_identity *seen);

/* Removes one file of a number if it is still the file that was seen and the number's other file is
 * missing. The statuses are those of remove_half in layout.h. */
kiln_status kilni_pair_remove_half_of(const kilni_dir *dir, int folder, uint32_t number,
                                      kilni_dir_half half, const kilni_dir_identity *seen);

/* In layouts in which each number has a folder, this function removes a number's folder if it is
 * empty. */
void kilni_pair_remove_slot_folder(const kilni_dir *dir, int folder, uint32_t number);
