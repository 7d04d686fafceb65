/* SPDX-License-Identifier: Apache-2.0
 *
 * What an entry of NVRTC's holds: a few results of the same program, each with the files that it
 * was made from and the constants that were folded. All but one of them were made from files as
 * they are not now, or elsewhere.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"

/* So many are kept, the newest first. */
enum { KILNI_RESULTS_MAX = 4 };

/* One result; points into what owns it. */
typedef struct kilni_stored_result {
    kiln_bytes reads;   /* for kilni_reads_hold */
    kiln_bytes folds;   /* for kilni_folds_hold */
    kiln_bytes outputs; /* for kilni_nvrtc_outputs_decode, with the code */
    kiln_bytes code;
} kilni_stored_result;

typedef struct kilni_results {
    kilni_stored_result items[KILNI_RESULTS_MAX];
    size_t count;
} kilni_results;

/* Makes the two parts of an entry: of the result that was made now, and of those of an earlier
 * entry but the ones of the same files and constants, and the oldest. The payload is the codes, one
 * after another, so that a tool that shows it shows the newest first.
 *
 * @earlier  NULL: none; one that can't be read counts as none
 * Returns KILN_OK; KILN_E_NO_MEMORY. kilni_text_done by the caller. */
kiln_status kilni_results_encode(const kilni_stored_result *made, const kiln_entry *earlier,
                                 kilni_text *ret_answers, kilni_text *ret_payload);

/* Takes an entry apart, which has to live as long as the results. KILN_OK; KILN_E_UNSUPPORTED: it
 * is of a version that does not tell what was folded; KILN_E_CORRUPT. */
kiln_status kilni_results_decode(const kiln_entry *entry, kilni_results *ret_results);

/* Looks for a result whose files are as they were, and whose constants would be folded the same.
 *
 * @name         of the program; may be NULL
 * @ret_result   [out] lives as long as the entry, as what it points to
 * @ret_changed  [out] with KILN_MISS, of the newest result: as kilni_reads_hold or
 *               kilni_folds_hold; as it was where nothing is told; may be NULL
 * Returns KILN_OK; KILN_MISS: none is; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Blocks: on reading. */
kiln_status kilni_results_find(const kiln_entry *entry, const char *name,
                               kilni_stored_result *ret_result, const char **ret_changed);
