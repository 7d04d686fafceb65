/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of two files, for the layouts "sycl" and "onednn". Hashes of a key name a folder, and in
 * it each entry has a number and two files:
 *
 *     the key file      the key's whole encoding, which is what is compared
 *     the payload file  an entry that is enough by itself, key included
 *
 * The key file claims a number for its key: it is linked there, never renamed, so that one writer
 * gets the number. From then on the payload is renamed into its place, again and again. A reader
 * believes a pair where the key file equals the wanted key and the payload is a sound entry of that
 * same key, so that no half of a pair is a hit, whatever comes first. Who removes a pair takes the
 * key file away first: what is left of it is found by nobody.
 *
 * Numbers have holes, since pairs go; all that look for a key list the folder.
 */
#pragma once

#include "store/dir/layout.h"

#define KILNI_PAIR_MAX_LEVELS 4u
/* Of a folder's path: a backend, and 32 digits and a slash for each level. */
#define KILNI_PAIR_FOLDER_SIZE                                                                     \
    (KILNI_STORE_BACKEND_SIZE + KILNI_PAIR_MAX_LEVELS * KILN_DIGEST_TEXT_SIZE + 1)
#define KILNI_PAIR_NAME_SIZE 40u /* of any name in a folder, with its closing zero */
#define KILNI_PAIR_MAX_NUMBER 999999999u

typedef struct kilni_pair_naming {
    unsigned levels;        /* of folders that hashes name */
    bool has_backends;      /* there may be a folder above them */
    bool has_slots;         /* a number is a folder of its own */
    const char *key_suffix; /* what follows the number */
    const char *payload_suffix;
    /* What names each level. KILN_OK; KILN_E_UNSUPPORTED: not of such a key. */
    kiln_status (*hash_levels)(const kiln_key *key, kiln_digest *ret_levels);
} kilni_pair_naming;

/* ---- pair_names.c ---- */

const kilni_pair_naming *kilni_pair_naming_of(const kilni_dir *dir);

/* The path of a key's folder, as far as hashes name it, and all of it. Of KILNI_PAIR_FOLDER_SIZE
 * bytes. KILN_OK; KILN_E_UNSUPPORTED. */
kiln_status kilni_pair_hash_path_of(const kilni_dir *dir, const kiln_key *key, char *path);
kiln_status kilni_pair_folder_of(const kilni_dir *dir, const kiln_key *key, char *path);

void kilni_pair_key_name(const kilni_dir *dir, uint32_t number, char *name);
void kilni_pair_payload_name(const kilni_dir *dir, uint32_t number, char *name);
/* Of a number's own folder, where the layout has these. */
void kilni_pair_slot_name(uint32_t number, char *name);

/* Whether the names of a number's files lead to a folder of its own that is ours and that nobody
 * else may write, not through a link elsewhere. To be asked before files there are listed, put or
 * removed. Only processes of this very user could put a link there between the question and what
 * follows it. */
bool kilni_pair_is_slot_real(const kilni_dir *dir, int folder, uint32_t number);

/* Whether a name is a hash's. */
bool kilni_pair_is_level_name(const char *name, kiln_digest *ret_digest);

/* Whether a name in a folder is of a pair, whose number it begins with, and which of its files. A
 * number's own folder stands for both. */
typedef struct kilni_pair_slot {
    uint32_t number;
    bool has_key, has_payload;
    bool is_foreign; /* no folder is where the number's own would be: the number is not used */
} kilni_pair_slot;

bool kilni_pair_parse_name(const kilni_dir *dir, const char *name, kilni_pair_slot *ret_slot);

/* ---- pair_folder.c ---- */

/* Opens a folder. KILN_OK; KILN_MISS; KILN_E_DENIED; KILN_E_IO. */
kiln_status kilni_pair_open_folder(const kilni_dir *dir, const char *path, int *ret_folder);

/* Opens it, and makes what is missing, with the store's own directory where that is gone. KILN_OK;
 * KILN_MISS: one went meanwhile, or is no folder; else as kilni_dir_write_status. */
kiln_status kilni_pair_make_folder(kilni_dir *dir, const char *path, int *ret_folder);

/* Removes a folder and those above it, as far as they are empty. */
void kilni_pair_remove_empty(const kilni_dir *dir, const char *path);

/* ---- pair_list.c ---- */

/* The pairs and halves of pairs in a folder, by number. */
typedef struct kilni_pair_list {
    kilni_pair_slot *slots;
    size_t count, capacity;
} kilni_pair_list;

/* Called for each temporary in a folder. */
typedef void kilni_pair_temporary_fn(void *user, const char *name);

/* @visit_temporary  may be NULL
 * @ret_list         [out] to be given back with kilni_pair_list_done
 * Returns KILN_OK; KILN_MISS: the folder is gone; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_pair_list_read(const kilni_dir *dir, int folder,
                                 kilni_pair_temporary_fn *visit_temporary, void *user,
                                 kilni_pair_list *ret_list);
void kilni_pair_list_done(kilni_pair_list *list);

/* Whether a number's key file is a key's. KILN_OK; KILN_MISS: another's, or none; KILN_E_NO_MEMORY.
 */
kiln_status kilni_pair_compare_key(const kilni_dir *dir, int folder, uint32_t number,
                                   const kiln_key *key);

/* ---- pair_get.c, pair_put.c, pair_remove.c, pair_walk.c: what layout.h asks for ---- */

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

/* What a put finds of a number's payload, or what is there instead. */
typedef enum kilni_pair_payload {
    KILNI_PAIR_NONE,
    KILNI_PAIR_REPLACEABLE,
    KILNI_PAIR_STAYS /* of a newer format, or can't be told, or a folder */
} kilni_pair_payload;

/* @ret_stat  may be NULL; zeros where it can't be told */
kilni_pair_payload kilni_pair_look_at_payload(const kilni_dir *dir, int folder, uint32_t number,
                                              struct stat *ret_stat);

/* Stats both files of a number; the payload's stat gets the blocks of both. False where not both
 * are there. */
bool kilni_pair_stat(const kilni_dir *dir, int folder, uint32_t number, struct stat *ret_payload,
                     uint64_t *ret_key_size);

/* Removes a pair while its payload is what was seen, and judged after that. Statuses as
 * kilni_dir_remove_seen. */
kiln_status kilni_pair_remove_slot(kilni_dir *dir, int folder, uint32_t number,
                                   const kilni_dir_identity *seen);

/* Removes one file of a number while it is what was seen and the other one is not there. Statuses
 * as layout.h has them of remove_half. */
kiln_status kilni_pair_remove_half_of(const kilni_dir *dir, int folder, uint32_t number,
                                      kilni_dir_half half, const kilni_dir_identity *seen);

/* Removes a number's own folder, where the layout has these, if it is empty. */
void kilni_pair_remove_slot_folder(const kilni_dir *dir, int folder, uint32_t number);
