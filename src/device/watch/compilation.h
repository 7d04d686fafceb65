/* SPDX-License-Identifier: Apache-2.0
 *
 * The running compilations. The functions that replace a compiler's calls report to them what the
 * compiler reads and folds.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <kiln/status.h>

#include "device/watch/folds.h"
#include "device/watch/reads.h"

typedef struct kilni_compilation {
    struct kilni_compilation *next;
    struct kilni_compilation *outer; /* the compilation of the same thread during which this one
                                      * began */

    pthread_mutex_t lock; /* guards the reads and the folds */
    kilni_reads *reads;
    kilni_folds *folds;
} kilni_compilation;

/* From now on, what this thread reads and folds is reported to @compilation, which must stay at its
 * address until it leaves. What a thread does that is not compiling is reported to all running
 * compilations. @reads and @folds are borrowed.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: it has not joined. */
kiln_status kilni_compilation_join(kilni_compilation *compilation, kilni_reads *reads,
                                   kilni_folds *folds);

/* Called by the thread that joined. Returns false if the process was forked meanwhile: then some
 * reports may be missing.
 */
bool kilni_compilation_leave(kilni_compilation *compilation);

/* Reports that this thread is about to read or do something: for calls.h. */
typedef void kilni_note_fn(kilni_reads *reads, const char *text);
void kilni_compilation_report(kilni_note_fn *note, const char *text);

/* Reports that this thread has folded a constant: for math_calls.h. */
void kilni_compilation_report_fold(const kilni_fold *fold);
