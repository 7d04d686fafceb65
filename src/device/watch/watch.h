/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching one compilation: what it reads, and the constants that it folds.
 */
#pragma once

#include <stdint.h>

#include <kiln/status.h>

#include "device/watch/compilation.h"
#include "device/watch/watched_library.h"

typedef struct kilni_watch {
    kilni_compilation compilation;
    const kilni_watched *library;
    uint64_t mark;    /* of the library, as it began */
    int cancel_state; /* of the thread, before */
} kilni_watch;

/* What this thread reads by the library from now on is noted in @reads, and what it folds in
 * @folds. They are borrowed, and @watch has to live and stay where it is, until kilni_watch_end by
 * the same thread, after which the reads are spoiled if not all of it was seen. In between the
 * thread can't be cancelled.
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY: it is not watched. Blocks: on the loader. */
kiln_status kilni_watch_begin(kilni_watch *watch, kilni_watched *library, kilni_reads *reads,
                              kilni_folds *folds);
void kilni_watch_end(kilni_watch *watch);
