/* SPDX-License-Identifier: Apache-2.0
 *
 * How a directory names its entries. Each layout implements the calls of a store that depend on it.
 * All else (opening the directory, trust, leases, totals, temporaries, trimming) belongs to the
 * engine and is the same for all. Requests are Kiln's own, and every layout keeps them as layout
 * "kiln" does.
 */
#pragma once

#include "store/dir/dir.h"

typedef struct kilni_dir_layout {
    const struct kilni_pair_naming *naming; /* of layouts that have pairs (pair.h); else NULL */

    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);

    /* Visits every file of the store except those of requests; as kilni_dir_walk. Sets
     * @ret_has_ended, which is false before, if a visit ended the walk. */
    kiln_status (*walk)(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* The same from a position on, as kilni_dir_walk_part. NULL: shards are parts. */
    kiln_status (*walk_from)(kilni_dir *dir, kilni_dir_position *position,
                             kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* Whether an entry that was read where a walk found it belongs there. Returns KILN_OK;
     * KILN_E_CORRUPT; else as kilni_dir_open_file. */
    kiln_status (*check_place)(kilni_dir *dir, const kilni_dir_found *found,
                               const kiln_entry *entry);

    /* Returns the digest of the key of an entry that is too damaged to give it; zeros if it is
     * unknown. */
    kiln_digest (*digest_of)(kilni_dir *dir, const kilni_dir_found *found);

    /* Removes an entry if it is still the one that was seen, and folders that are then empty.
     * Statuses as kilni_dir_remove_seen. */
    kiln_status (*remove_place)(kilni_dir *dir, const kilni_dir_spot *spot,
                                const kilni_dir_identity *seen);

    /* Removes half a pair if it is still the file that was seen and the other half is missing.
     * Returns KILN_EXISTS if the other half is there; else as kilni_dir_remove_seen. NULL: there
     * are no pairs. */
    kiln_status (*remove_half)(kilni_dir *dir, const kilni_dir_found *found,
                               const kilni_dir_identity *seen);

    /* Removes empty folders that killed writers and janitors have left. NULL: not needed. */
    void (*tidy)(kilni_dir *dir);

    /* Writes the store's size to a file for others. NULL: nothing is written. */
    void (*note_size)(kilni_dir *dir, uint64_t bytes);
} kilni_dir_layout;

extern const kilni_dir_layout kilni_layout_kiln;
extern const kilni_dir_layout kilni_layout_sycl;
extern const kilni_dir_layout kilni_layout_onednn;
