/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps track of the running compilations. The functions that replace a compiler's calls report
 * what the compiler reads and folds to these compilations.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/constant_folds.h"
#include "device/watch/read_files.h"

typedef struct kilni_compilation {
    struct kilni_compilation *next;
    struct kilni_compilation
        *outer; /* the same thread's outer compilation, during which this one began */

    pthread_mutex_t lock; /* guards the reads and the folds */
    kilni_reads *reads;
    kilni_folds *folds;
    uint64_t interruptions; /* the number of interruptions when the compilation began: see
                               kilni_compilation_interrupt */
} kilni_compilation;

/* From now on, everything that this thread reads and folds is reported to @compilation, which must
 * stay at its address until kilni_compilation_leave. Everything that a thread without a compilation
 * reads and folds is reported to all running compilations. @reads and @folds are borrowed.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: nothing is reported to @compilation. */
kiln_status kilni_compilation_join(kilni_compilation *compilation, kilni_reads *reads,
                                   kilni_folds *folds);

/* Must be called by the thread that joined. Returns NULL, or a static text that says why some
 * reports might be missing. */
const char *kilni_compilation_leave(kilni_compilation *compilation);

/* Call this when a signal handler starts to use a library. The signal might have interrupted this
 * thread while it held a lock of the allocator or of a compilation. So nothing is reported until
 * the next compilation begins. Async-signal-safe. */
void kilni_compilation_interrupt(void);

/* Reports that this thread is about to read or do something. Called by the functions of
 * intercepted_calls.h. */
typedef void kilni_note_fn(kilni_reads *reads, const char *text);
void kilni_compilation_report(kilni_note_fn *note, const char *text);

/* Reports what a call of this thread returned. */
void kilni_compilation_report_seen(const kilni_seen *seen);

/* Returns true if this thread has a compilation of its own, to which its reports belong. */
bool kilni_compilation_is_own(void);

/* Reports that this thread has folded a constant. Called by the functions of math_calls.h. */
void kilni_compilation_report_fold(const kilni_fold *fold);
