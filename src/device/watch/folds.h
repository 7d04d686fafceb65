/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants that one compilation folded with the C library's functions. A process uses a result
 * only if its own functions return the same values; it does not matter which library and which
 * processor computed them.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/math.h"

/* If a compilation folds more constants, its result is not kept. */
enum { KILNI_FOLDS_MAX = 4096 };

/* Collects the folds of one compilation. One thread at a time. */
typedef struct kilni_folds kilni_folds;

/* Called by the thread that compiles. All folds must happen in its present floating-point mode. */
kiln_status kilni_folds_new(kilni_folds **ret_folds);
void kilni_folds_free(kilni_folds **folds);

/* Notes a fold of the calling thread. */
void kilni_folds_note(kilni_folds *folds, const kilni_fold *fold);

/* Called once, after the compilation. The same set of folds always has the same encoding, in
 * whatever order they happened.
 *
 * @ret_encoded  [out] for kilni_folds_hold; freed by the caller, with kilni_text_done
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason: the result cannot be kept;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_folds_finish(kilni_folds *folds, kilni_text *ret_encoded, const char **ret_why);

/* Whether the functions of this process return the same values, in the calling thread's
 * floating-point mode.
 *
 * @ret_changed  [out] may be NULL; with KILN_MISS: the name of a function that does not, within
 *                     @encoded
 * Returns KILN_OK; KILN_MISS: they do not, or a function is not known; KILN_E_CORRUPT. Threads:
 * any. Blocks: never. */
kiln_status kilni_folds_hold(kiln_bytes encoded, const char **ret_changed);
