/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of an entry of a watched compilation: a few results of the same program, each with
 * the files that it was made from and the constants that were folded. At most one of them matches
 * the present files and place.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"

/* How many are kept, the newest first. */
enum { KILNI_RESULTS_MAX = 4 };

/* One result; points into memory that its owner keeps. */
typedef struct kilni_stored_result {
    kiln_bytes reads;   /* for kilni_reads_hold */
    kiln_bytes folds;   /* for kilni_folds_hold */
    kiln_bytes outputs; /* of the runtime's own encoding */
    kiln_bytes code;
} kilni_stored_result;

typedef struct kilni_results {
    kilni_stored_result items[KILNI_RESULTS_MAX];
    size_t count;
} kilni_results;

/* Encodes the answers and the payload of an entry: the result that was just made, and the results
 * of an earlier entry, except those with the same files and constants, and the oldest if there are
 * too many. The payload is the codes, one after another, so that a tool that shows it shows the
 * newest first.
 *
 * @earlier  NULL: none; an entry that cannot be decoded counts as none
 * Returns KILN_OK or KILN_E_NO_MEMORY. The caller frees both texts, with kilni_text_done. */
kiln_status kilni_results_encode(const kilni_stored_result *made, const kiln_entry *earlier,
                                 kilni_text *ret_answers, kilni_text *ret_payload);

/* Takes an entry apart, which must live as long as the results. Returns KILN_OK;
 * KILN_E_UNSUPPORTED: it is of a version that does not list folds; KILN_E_CORRUPT. */
kiln_status kilni_results_decode(const kiln_entry *entry, kilni_results *ret_results);

/* Looks for a result whose files are unchanged, and whose constants would be folded the same.
 *
 * @name         of the program; may be NULL
 * @ret_result   [out] valid as long as the entry
 * @ret_changed  [out] with KILN_MISS, what has changed for the newest result, as from
 *                     kilni_reads_hold or kilni_folds_hold; unchanged if neither reports it; may be
 *                     NULL
 * Returns KILN_OK; KILN_MISS: there is none; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Blocks: on reading
 * files. */
kiln_status kilni_results_find(const kiln_entry *entry, const char *name,
                               kilni_stored_result *ret_result, const char **ret_changed);
