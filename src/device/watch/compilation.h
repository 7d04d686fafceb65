/* SPDX-License-Identifier: Apache-2.0
 *
 * The compilations that are under way, for the functions that stand in the places of a compiler's
 * own calls: they tell a compilation what it reads and folds.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <kiln/status.h>

#include "device/watch/folds.h"
#include "device/watch/reads.h"

typedef struct kilni_compilation {
    struct kilni_compilation *next;
    struct kilni_compilation *around; /* of the same thread, in which this one began */

    pthread_mutex_t lock; /* guards the reads and the folds */
    kilni_reads *reads;
    kilni_folds *folds;
} kilni_compilation;

/* What this thread reads and folds from now on is told to @compilation, which has to live and stay
 * where it is until it leaves. What a thread does that compiles nothing is told to all compilations
 * under way. Reads and folds are borrowed.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: it has not joined. */
kiln_status kilni_compilation_join(kilni_compilation *compilation, kilni_reads *reads,
                                   kilni_folds *folds);

/* By the thread that joined. Returns false if the process was forked since: then not all was told.
 */
bool kilni_compilation_leave(kilni_compilation *compilation);

/* This thread is about to read or do something: for calls.h. */
typedef void kilni_note_fn(kilni_reads *reads, const char *text);
void kilni_compilation_tell(kilni_note_fn *note, const char *text);

/* This thread has folded a constant: for math_calls.h. */
void kilni_compilation_tell_fold(const kilni_fold *fold);
