/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants that one compilation folded with the C library's functions. A process uses a result
 * only if its own functions return the same values. The library and the processor that computed the
 * stored values need not be the same.
 */
#pragma once

#include <kiln/entry.h>
#include <kiln/status.h>

#include "base/text.h"
#include "device/watch/math.h"

/* Maximum number of folds. If a compilation folds more constants, its result is not kept. */
enum { KILNI_FOLDS_MAX = 4096 };

/* Collects the folds of one compilation. Only one thread may use it at a time. */
typedef struct kilni_folds kilni_folds;

/* Must be called by the thread that compiles. If a constant is folded in a floating-point mode that
 * differs from the present mode of this thread, the result of the compilation is not kept. */
kiln_status kilni_folds_new(kilni_folds **ret_folds);
void kilni_folds_free(kilni_folds **folds);

/* Records a fold that the calling thread has made. */
void kilni_folds_note(kilni_folds *folds, const kilni_fold *fold);

/* Records the folds of a different compilation, whose result this one uses. */
void kilni_folds_add_all(kilni_folds *folds, const kilni_folds *others);

/* Encodes the folds. Must be called once, after the compilation. The encoding does not depend on
 * the order in which the constants were folded.
 *
 * @ret_encoded  [out] for kilni_folds_hold; freed by the caller, with kilni_text_done
 * @ret_why      [out] static text
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @ret_why: the result cannot be kept;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_folds_finish(kilni_folds *folds, kilni_text *ret_encoded, const char **ret_why);

/* Checks whether the functions of this process return the values that are encoded, in the calling
 * thread's floating-point mode.
 *
 * @ret_changed  [out] on KILN_MISS: the name of a function that returns a different value or is
 *                     unknown; points into @encoded; may be NULL
 * Returns KILN_OK; KILN_MISS: a function returns a different value, or is unknown; KILN_E_CORRUPT.
 * Threads: any. Blocks: never. */
kiln_status kilni_folds_hold(kiln_bytes encoded, const char **ret_changed);
