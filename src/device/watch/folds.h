/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants that one compilation folded with the C library's functions. A result is believed by
 * a process only if its own functions give the same answers: which library and which processor made
 * them doesn't count.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/math.h"

/* Of a compilation that asks for more the result is not kept. */
enum { KILNI_FOLDS_MAX = 4096 };

/* Collects the folds of one compilation. One thread at a time. */
typedef struct kilni_folds kilni_folds;

/* Made by the thread that compiles, in whose floating-point mode all folds have to be. */
kiln_status kilni_folds_new(kilni_folds **ret_folds);
void kilni_folds_free(kilni_folds **folds);

/* The calling thread has folded that. */
void kilni_folds_note(kilni_folds *folds, const kilni_fold *fold);

/* After the compilation, once. The same folds have one encoding, in whatever order they were made.
 *
 * @ret_encoded  [out] for kilni_folds_hold; kilni_text_done by the caller
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason: the result can't be kept;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_folds_finish(kilni_folds *folds, kilni_text *ret_encoded, const char **ret_why);

/* Whether the functions of this process answer the same, in the calling thread's floating-point
 * mode.
 *
 * @ret_changed  [out] may be NULL; with KILN_MISS: a function that doesn't; in place
 * Returns KILN_OK; KILN_MISS: they don't, or a function is not known; KILN_E_CORRUPT. Threads: any.
 * Blocks: never. */
kiln_status kilni_folds_hold(kiln_bytes encoded, const char **ret_changed);
