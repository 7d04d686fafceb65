/* SPDX-License-Identifier: Apache-2.0
 *
 * The janitor: counts a store, and removes entries in the order of its policy until the store fits.
 * It works until a given time, and keeps its job so that any process can continue. It removes a
 * file only if that is still the one that it ranked.
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
    uint64_t until_ns;         /* when to stop, by kilni_clock_ns; UINT64_MAX: never */
    kilni_dir_summary hints;   /* the last trim's; no file: none */
    kilni_dir_summary summary; /* the present trim's */

    kiln_status status;                /* other than KILN_OK: it cannot continue */
    kiln_status first_failure;         /* of a shard that was skipped */
    uint64_t gone_entries, gone_bytes; /* not yet subtracted from the totals */

    unsigned steps;
    kilni_dir_records met;     /* not yet in the summary */
    kilni_dir_records segment; /* of a summary, read at @segment_at */
    uint64_t segment_at, segment_next;
    kilni_dir_records known; /* the summary's records of @known_shard, by inode */
    uint64_t known_shard;
} kilni_janitor;

/* The caller must then set @job and the files of the summaries. */
void kilni_janitor_init(kilni_janitor *janitor, kilni_dir *dir);

/* Works until the time is over, the job's phase changes, or an error occurs. */
void kilni_janitor_run(kilni_janitor *janitor);

/* Subtracts from the totals what was removed. */
void kilni_janitor_flush_removed(kilni_janitor *janitor);

void kilni_janitor_done(kilni_janitor *janitor);
