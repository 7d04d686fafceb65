/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout is the way in which a directory names its entries. Each layout implements the operations
 * of a store that depend on names. The engine does everything else (opening the directory, trust,
 * leases, totals, temporaries, trimming) in the same way for all layouts. Capture requests are
 * stored like in layout "kiln" in every layout, because only Kiln uses them.
 */
#pragma once

#include "store/dir/dir.h"

typedef struct kilni_dir_layout {
    const struct kilni_pair_naming *naming; /* in layouts with pairs (file_pair.h); else NULL */

    /* @ret_first_use has the meaning that it has in kilni_dir_read_entry. */
    kiln_status (*get)(kiln_store *store, const kiln_key *key, kiln_entry **ret_entry,
                       bool *ret_first_use);
    /* Does the same as in kilni_store_ops. NULL: an entry cannot be found by its digest. */
    kiln_status (*read_digest)(kiln_store *store, const kiln_digest *digest,
                               kiln_entry **ret_entry);
    kiln_status (*contains)(kiln_store *store, const kiln_key *key);
    kiln_status (*put)(kiln_store *store, const kiln_entry *entry);
    kiln_status (*remove)(kiln_store *store, const kiln_key *key, const kiln_entry *judged);

    /* Does the same as kilni_dir_walk, but does not visit requests. The caller sets @ret_has_ended
     * to false. If a visit ends the walk, this operation sets it to true. */
    kiln_status (*walk)(kilni_dir *dir, kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* Does the same as walk, but begins at a position, like kilni_dir_walk_part. NULL: each shard
     * is a part of a walk. */
    kiln_status (*walk_from)(kilni_dir *dir, kilni_dir_position *position,
                             kilni_dir_visit_fn *visit, void *user, bool *ret_has_ended);

    /* Checks that an entry belongs to the location where a walk found it. Returns KILN_OK;
     * KILN_E_CORRUPT; else as kilni_dir_open_file. */
    kiln_status (*check_place)(kilni_dir *dir, const kilni_dir_found *found,
                               const kiln_entry *entry);

    /* Returns the digest of an entry's key; zeros if the digest is unknown. Does not read the key
     * from the entry, because the entry might be damaged. */
    kiln_digest (*digest_of)(kilni_dir *dir, const kilni_dir_found *found);

    /* Removes an entry if it was not replaced since it was seen. Also removes the folders that
     * become empty. The statuses are those of kilni_dir_remove_seen. */
    kiln_status (*remove_place)(kilni_dir *dir, const kilni_dir_spot *spot,
                                const kilni_dir_identity *seen);

    /* Removes one half of a pair if it is still the file that was seen and the other half is
     * missing. Returns KILN_EXISTS if the other half exists; else as kilni_dir_remove_seen. NULL:
     * the layout has no pairs. */
    kiln_status (*remove_half)(kilni_dir *dir, const kilni_dir_found *found,
                               const kilni_dir_identity *seen);

    /* Removes empty folders that killed processes have left. NULL: the layout does not need this.
     */
    void (*tidy)(kilni_dir *dir);

    /* Writes the store's size to a file for other programs. NULL: nothing is written. */
    void (*note_size)(kilni_dir *dir, uint64_t bytes);
} kilni_dir_layout;

extern const kilni_dir_layout kilni_layout_kiln;
extern const kilni_dir_layout kilni_layout_sycl;
extern const kilni_dir_layout kilni_layout_onednn;
