/* SPDX-License-Identifier: Apache-2.0
 *
 * The janitor: counts a store, and removes what goes first by its policy until it fits. It works
 * for as long as it is told to, and leaves its job so that it, or another, can go on. It removes a
 * file only while that is still the one that it ranked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/dir/dir.h"
#include "store/dir/job.h"
#include "store/dir/rank.h"
#include "store/dir/summary.h"

typedef struct kilni_janitor {
    kilni_dir *dir;
    kilni_dir_job job;
    bool is_dry;               /* removes nothing, and counts as if it had */
    bool takes_newer;          /* entries of a newer format do not stay */
    uint64_t until_ns;         /* when to rest, by kilni_clock_ns; UINT64_MAX: never */
    kilni_dir_summary hints;   /* the last trim's; no file: none */
    kilni_dir_summary summary; /* this one's */

    kiln_status status;                /* other than KILN_OK: it can't go on */
    kiln_status first_failure;         /* of a shard that was passed by */
    uint64_t gone_entries, gone_bytes; /* of which the totals don't know */

    unsigned steps;
    kilni_dir_records met;     /* not yet in the summary */
    kilni_dir_records segment; /* of a summary, read at @segment_at */
    uint64_t segment_at, segment_next;
    kilni_dir_records known; /* what a summary says of @known_shard, by inode */
    uint64_t known_shard;
} kilni_janitor;

/* @job is to be set, and the summaries' files. */
void kilni_janitor_init(kilni_janitor *janitor, kilni_dir *dir);

/* Works until the time has come, or the job's phase has changed, or it can't go on. */
void kilni_janitor_run(kilni_janitor *janitor);

/* Tells the totals what is gone. */
void kilni_janitor_tell(kilni_janitor *janitor);

void kilni_janitor_done(kilni_janitor *janitor);
