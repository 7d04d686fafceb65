/* SPDX-License-Identifier: Apache-2.0
 *
 * The janitor counts a store, removes leftovers (leftover.h), and removes entries in the order of
 * the store's policy until the store is small enough. It works until a given time. After that its
 * job can be saved, so that any process can continue the job. The janitor does not remove a file
 * that was replaced or used after it was ranked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/dir/dir.h"
#include "store/dir/job.h"
#include "store/dir/summary.h"

typedef struct kilni_janitor {
    kilni_dir *dir;
    kilni_dir_job job;
    bool is_dry;               /* removes nothing, but counts the entries that it would remove */
    bool takes_newer;          /* entries of a newer format are removed, too */
    uint64_t until_ns;         /* when to stop, by kilni_clock_ns; UINT64_MAX: never */
    kilni_dir_summary hints;   /* the summary of the last trim; empty if it has no file */
    kilni_dir_summary summary; /* the summary of the present trim */

    kiln_status status;                /* if not KILN_OK, the janitor cannot continue */
    kiln_status first_failure;         /* the status of the first shard that was skipped */
    uint64_t gone_entries, gone_bytes; /* removed, but not yet subtracted from the totals */

    unsigned steps;
    kilni_dir_records met;     /* records that are not yet in the summary */
    kilni_dir_records segment; /* the segment of a summary that was read at @segment_at */
    uint64_t segment_at, segment_next;
    kilni_dir_records known; /* the summary's records of @known_shard, sorted by inode */
    uint64_t known_shard;
} kilni_janitor;

/* Initializes a janitor. The caller must then set @job and the files of the summaries. */
void kilni_janitor_init(kilni_janitor *janitor, kilni_dir *dir);

/* Continues the job until the time is over, the job's phase changes, or an error occurs. */
void kilni_janitor_run(kilni_janitor *janitor);

/* Subtracts the removed entries and bytes from the totals. */
void kilni_janitor_flush_removed(kilni_janitor *janitor);

void kilni_janitor_done(kilni_janitor *janitor);
