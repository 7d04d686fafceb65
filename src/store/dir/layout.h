/* SPDX-License-Identifier: Apache-2.0
 *
 * How a directory names its entries. Each layout answers the calls of the store that depend on it;
 * all else (the way to the directory, what is trusted, leases, totals, temporaries, trimming) is
 * the engine's and the same for all. Requests are Kiln's own and are kept as layout "kiln" has it
 * everywhere.
 */
#pragma once

#include "store/dir/dir.h"

typedef struct kilni_dir_layout {
    const struct kilni_pair_naming *naming; /* of layouts that have pairs (pair.h); else NULL */

    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);

    /* Meets every file of ours but those of requests; as kilni_dir_walk. Sets @ret_has_ended, which
     * is false before, where a visit ended the walk. */
    kiln_status (*walk)(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* The same from a position on, as kilni_dir_walk_part. NULL: shards are parts. */
    kiln_status (*walk_from)(kilni_dir *dir, kilni_dir_position *position,
                             kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* Whether an entry that was read where the walk found it belongs there: KILN_OK;
     * KILN_E_CORRUPT; else as kilni_dir_open_file. */
    kiln_status (*check_place)(kilni_dir *dir, const kilni_dir_found *found,
                               const kiln_entry *entry);

    /* The digest of a key whose entry is too damaged to tell it; zeros where nothing tells. */
    kiln_digest (*digest_of)(kilni_dir *dir, const kilni_dir_found *found);

    /* Removes an entry while it is still what was seen there, and folders that are empty without
     * it. Statuses as kilni_dir_remove_seen. */
    kiln_status (*remove_place)(kilni_dir *dir, const kilni_dir_spot *spot,
                                const kilni_dir_identity *seen);

    /* Removes half a pair while it is still what was seen and nothing but a half. KILN_EXISTS: it
     * is more by now; else as kilni_dir_remove_seen. NULL: there are no pairs. */
    kiln_status (*remove_half)(kilni_dir *dir, const kilni_dir_found *found,
                               const kilni_dir_identity *seen);

    /* Removes empty folders that writers and janitors which died have left. NULL: none needed. */
    void (*tidy)(kilni_dir *dir);

    /* Writes down for others what the store holds now. NULL: nothing is written. */
    void (*note_size)(kilni_dir *dir, uint64_t bytes);
} kilni_dir_layout;

extern const kilni_dir_layout kilni_layout_kiln;
extern const kilni_dir_layout kilni_layout_sycl;
extern const kilni_dir_layout kilni_layout_onednn;
