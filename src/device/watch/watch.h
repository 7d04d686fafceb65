/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches one compilation, to record what it reads and which constants it folds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/compilation.h"
#include "device/watch/watched_library.h"

enum { KILNI_WATCH_LIBRARIES_MAX = 8 };

/* A library that is watched, and its mark at the beginning. */
typedef struct kilni_watch_library {
    const kilni_watched *library;
    uint64_t mark;
} kilni_watch_library;

typedef struct kilni_watch {
    kilni_compilation compilation;
    kilni_watch_library libraries[KILNI_WATCH_LIBRARIES_MAX];
    size_t count;
    int cancel_state; /* of the thread, before the watch */
} kilni_watch;

/* Begins to watch this thread. From now on, @reads records everything that this thread, or a thread
 * without a compilation, reads through a watched library. @folds, which may be NULL, records
 * everything that these threads fold. Both are borrowed, and @watch must stay at its address, until
 * the same thread calls kilni_watch_end. That call marks the reads as unusable if some of them
 * might have been missed. Until that call, the thread cannot be cancelled. But a callback of the
 * compiler can exit the thread or throw an exception, so kilni_watch_end must be the thread's
 * cleanup handler.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: the compilation is not watched. Blocks: on the loader. */
kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds);
void kilni_watch_end(void *begun);

/* Call this after kilni_watch_begin for each further library of a compiler that consists of
 * several, at most KILNI_WATCH_LIBRARIES_MAX - 1. Blocks: on the loader. */
void kilni_watch_add(kilni_watch *watch, kilni_watched *library);
