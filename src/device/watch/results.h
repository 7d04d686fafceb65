/* SPDX-License-Identifier: Apache-2.0
 *
 * The content of an entry of a watched compilation: a few results of the same program. Each result
 * has a list of the files from which it was made, and a list of the constants that were folded. The
 * list of files can also contain files that other threads read during the compilation. So several
 * results might match, and each of them is then right.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"

/* The maximum number of results that an entry keeps. The newest comes first. */
enum { KILNI_RESULTS_MAX = 4 };

/* One result. The members are borrowed. */
typedef struct kilni_stored_result {
    kiln_bytes reads;   /* for kilni_reads_hold */
    kiln_bytes folds;   /* for kilni_folds_hold */
    kiln_bytes outputs; /* encoded by Kiln's code for the runtime */
    kiln_bytes code;
} kilni_stored_result;

typedef struct kilni_results {
    kilni_stored_result items[KILNI_RESULTS_MAX];
    size_t count;
} kilni_results;

/* Encodes the answers and the payload of an entry, from the result that was just made and the
 * results of an earlier entry. Leaves out earlier results that have the same files and constants as
 * the new one, and the oldest results if there are too many. The payload consists of the code of
 * each result, the newest first, so that a tool that shows the payload begins with the newest code.
 *
 * @earlier  NULL: none; an entry that cannot be decoded counts as none
 * Returns KILN_OK or KILN_E_NO_MEMORY. The caller frees both texts, with kilni_text_done. */
kiln_status kilni_results_encode(const kilni_stored_result *made, const kiln_entry *earlier,
                                 kilni_text *ret_answers, kilni_text *ret_payload);

/* Decodes an entry, which must live as long as the results. Returns KILN_OK; KILN_E_UNSUPPORTED:
 * the entry is of an earlier version; KILN_E_CORRUPT. */
kiln_status kilni_results_decode(const kiln_entry *entry, kilni_results *ret_results);

/* Looks for a result whose files are unchanged, and whose constants this process would fold to the
 * same values.
 *
 * @name         the program's name; may be NULL
 * @ret_result   [out] valid as long as the entry is
 * @ret_changed  [out] on KILN_MISS: what has changed for the newest result, as kilni_reads_hold or
 *                     kilni_folds_hold reports it; not written if neither reports it; may be NULL
 * Returns KILN_OK; KILN_MISS: there is no such result; KILN_E_CORRUPT; KILN_E_NO_MEMORY. Blocks: on
 * reading files. */
kiln_status kilni_results_find(const kiln_entry *entry, const char *name,
                               kilni_stored_result *ret_result, const char **ret_changed);

/* Visits the reads of one result of an entry.
 *
 * @result  the number of the result, from 0
 * @name    the program's name; NULL: unknown
 * Returns KILN_OK; KILN_MISS: the entry contains fewer results; KILN_E_UNSUPPORTED: the entry is of
 * an earlier version; KILN_E_CORRUPT, perhaps after some calls of @visit; KILN_E_NO_MEMORY. Blocks:
 * on reading files. */
kiln_status kilni_results_each_read(const kiln_entry *entry, size_t result, const char *name,
                                    kiln_read_fn visit, void *user);
