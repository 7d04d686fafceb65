/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of two files, for the layouts "sycl" and "onednn". Hashes of a key name a folder. In that
 * folder each entry has a number and two files:
 *
 *     the key file      the key's whole encoding, which readers compare
 *     the payload file  a complete entry, including its key
 *
 * The key file claims a number for its key. It is linked to its name, not renamed over it (on file
 * systems without links, kilni_dir_rename_to_claimed does the same), so only one writer gets the
 * number. From then on, payloads are renamed over each other. A reader accepts a pair only if the
 * key file equals the wanted key and the payload is a sound entry of the same key. So half a pair
 * is never a hit, in whatever order the files appear. A remover takes the key file away first; then
 * readers no longer find the rest.
 *
 * Numbers have gaps, because pairs are removed. A reader or writer of a key lists the folder.
 */
#pragma once

#include "store/dir/layout.h"

#define KILNI_PAIR_MAX_LEVELS 4u
/* The size of a folder's path: a backend, and 32 digits and a slash for each level. */
#define KILNI_PAIR_FOLDER_SIZE                                                                     \
    (KILNI_STORE_BACKEND_SIZE + KILNI_PAIR_MAX_LEVELS * KILN_DIGEST_TEXT_SIZE + 1)
#define KILNI_PAIR_NAME_SIZE 40u /* of any name in a folder, with its closing zero */
#define KILNI_PAIR_MAX_NUMBER 999999999u

typedef struct kilni_pair_naming {
    unsigned levels;        /* of folders that are named by hashes */
    bool has_backends;      /* there may be a folder above them */
    bool has_slots;         /* each number is a folder of its own */
    const char *key_suffix; /* what follows the number */
    const char *payload_suffix;
    /* Computes the hash of each level. Returns KILN_OK; KILN_E_UNSUPPORTED: not for such a key. */
    kiln_status (*hash_levels)(const kiln_key *key, kiln_digest *ret_levels);
} kilni_pair_naming;

/* ---- pair_names.c ---- */

const kilni_pair_naming *kilni_pair_naming_of(const kilni_dir *dir);

/* The path of a key's folder: the part that hashes name, and the whole path. Each of
 * KILNI_PAIR_FOLDER_SIZE bytes. Returns KILN_OK; KILN_E_UNSUPPORTED. */
kiln_status kilni_pair_hash_path_of(const kilni_dir *dir, const kiln_key *key, char *path);
kiln_status kilni_pair_folder_of(const kilni_dir *dir, const kiln_key *key, char *path);

void kilni_pair_key_name(const kilni_dir *dir, uint32_t number, char *name);
void kilni_pair_payload_name(const kilni_dir *dir, uint32_t number, char *name);
/* The name of a number's own folder, in layouts that have such folders. */
void kilni_pair_slot_name(uint32_t number, char *name);

/* Whether the names of a number's files lead to a folder of its own that is this user's and that
 * nobody else may write, and not through a link elsewhere. Must be checked before files there are
 * listed, put or removed. Only processes of this user could put a link there after the check. */
bool kilni_pair_is_slot_real(const kilni_dir *dir, int folder, uint32_t number);

/* Whether a name is a hash. */
bool kilni_pair_is_level_name(const char *name, kiln_digest *ret_digest);

/* Whether a name in a folder belongs to a pair, to which number, and to which of its files. A
 * number's own folder stands for both. */
typedef struct kilni_pair_slot {
    uint32_t number;
    bool has_key, has_payload;
    bool is_foreign; /* something else is in the place of the number's folder: the number is not
                        used */
} kilni_pair_slot;

bool kilni_pair_parse_name(const kilni_dir *dir, const char *name, kilni_pair_slot *ret_slot);

/* ---- pair_folder.c ---- */

/* Opens a folder. Returns KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO. */
kiln_status kilni_pair_open_folder(const kilni_dir *dir, const char *path, int *ret_folder);

/* Opens a folder, and creates what is missing, including the store's own directory. Returns
 * KILN_OK; KILN_MISS: a folder was removed in the meantime, or something else is in its place; else
 * as kilni_dir_write_status. */
kiln_status kilni_pair_make_folder(kilni_dir *dir, const char *path, int *ret_folder);

/* Removes a folder, and those above it as long as they are empty. */
void kilni_pair_remove_empty(const kilni_dir *dir, const char *path);

/* ---- pair_list.c ---- */

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
 * Returns KILN_OK; KILN_MISS: the folder is gone; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_pair_list_read(const kilni_dir *dir, int folder,
                                 kilni_pair_temporary_fn *visit_temporary, void *user,
                                 kilni_pair_list *ret_list);
void kilni_pair_list_done(kilni_pair_list *list);

/* Whether a number's key file holds a key. Returns KILN_OK; KILN_MISS: a different key, or no file;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_pair_compare_key(const kilni_dir *dir, int folder, uint32_t number,
                                   const kiln_key *key);

/* ---- pair_get.c, pair_put.c, pair_remove.c, pair_walk.c: the functions of layout.h ---- */

kiln_status kilni_pair_get(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry);
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

/* What is in the place of a number's payload. */
typedef enum kilni_pair_payload {
    KILNI_PAIR_NONE,
    KILNI_PAIR_REPLACEABLE,
    KILNI_PAIR_STAYS /* of a newer format, a folder, or unreadable */
} kilni_pair_payload;

/* @ret_stat  may be NULL; zeros if the file cannot be examined */
kilni_pair_payload kilni_pair_look_at_payload(const kilni_dir *dir, int folder, uint32_t number,
                                              struct stat *ret_stat);

/* Examines both files of a number. The payload's stat gets the blocks of both. Returns false unless
 * both files exist. */
bool kilni_pair_stat(const kilni_dir *dir, int folder, uint32_t number, struct stat *ret_payload,
                     uint64_t *ret_key_size);

/* Removes a pair if its payload is still the one that was seen; the caller has judged it before.
 * Statuses as kilni_dir_remove_seen. */
kiln_status kilni_pair_remove_slot(kilni_dir *dir, int folder, uint32_t number,
                                   const kilni_dir_identity *seen);

/* Removes one file of a number if it is still the one that was seen and the other file is missing.
 * Statuses as those of remove_half in layout.h. */
kiln_status kilni_pair_remove_half_of(const kilni_dir *dir, int folder, uint32_t number,
                                      kilni_dir_half half, const kilni_dir_identity *seen);

/* Removes a number's own folder, in layouts that have such folders, if it is empty. */
void kilni_pair_remove_slot_folder(const kilni_dir *dir, int folder, uint32_t number);
