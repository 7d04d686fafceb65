/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compilation reads, and the constants that it folds.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/folds.h"
#include "device/watch/reads.h"
#include "device/watch/watched_library.h"

/* One compilation that is watched. */
typedef struct kilni_watch {
    const kilni_watched *library;
    uint64_t mark;    /* of the library, as it began */
    int cancel_state; /* of the thread, before */
    struct kilni_watch *next;
    struct kilni_watch *around; /* of the same thread, in which this one began */

    pthread_mutex_t lock; /* guards the reads and the folds */
    kilni_reads *reads;
    kilni_folds *folds;
} kilni_watch;

/* What this thread reads by the library from now on is noted in @reads, and what it folds in
 * @folds; what a thread does that compiles nothing is noted in all that are under way. They are
 * borrowed, and @watch has to live and stay where it is, until kilni_watch_end by the same
 * thread, after which the reads are spoiled where not all of it was seen. In between the thread
 * can't be cancelled.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: it is not watched. Blocks: on the loader. */
kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds);
void kilni_watch_end(kilni_watch *watch);

/* Something is about to be read, or done, by this thread: for calls.h. */
typedef void kilni_note_fn(kilni_reads *reads, const char *text);
void kilni_watch_tell(kilni_note_fn *note, const char *text);

/* This thread has folded a constant: for math_calls.h. */
void kilni_watch_tell_fold(const kilni_fold *fold);
