/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a trim is. Between two slices it rests in a file, so that any process goes on with it,
 * also after the one that began was killed. docs/trimming.md gives its bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/dir/dir.h"

/* A trim counts what is there, finds the rank up to which entries go, and removes those. */
typedef enum kilni_dir_phase {
    KILNI_DIR_SURVEY = 0,
    KILNI_DIR_RANK = 1,
    KILNI_DIR_SWEEP = 2,
    KILNI_DIR_DONE = 3
} kilni_dir_phase;

/* X(name): the order in which the file holds them. */
#define KILNI_DIR_JOB_LIST(X)                                                                      \
    /* What is to be done: more than @limit is brought down to @target. */                         \
    X(limit)                                                                                       \
    X(target)                                                                                      \
    X(policy)                                                                                      \
    X(now_s) /* when it began */                                                                   \
    X(blur_s)                                                                                      \
    X(max_age_s)                                                                                   \
    /* Where it is. */                                                                             \
    X(phase)                                                                                       \
    X(shard)                                                                                       \
    X(shard_files)  /* that were left in the shard so far */                                       \
    X(read_at)      /* in the summary that is read */                                              \
    X(summary_size) /* of the one that is written; then, of the one that is read */                \
    X(has_failed)   /* not all could be counted */                                                 \
    /* What it counted, and corrects as it removes. */                                             \
    X(entries)                                                                                     \
    X(bytes)                                                                                       \
    X(candidate_bytes) /* of what may be removed and has not expired */                            \
    X(expired_bytes)                                                                               \
    /* Of those that may be removed, the one that is the newest: it stays where the store is       \
     * within its limit without the others. Recency 0: there is none. */                           \
    X(newest_recency)                                                                              \
    X(newest_inode)                                                                                \
    X(newest_bytes)                                                                                \
    /* What is to go: all of a lower rank than @rank, and @tied_bytes of this one. While it is     \
     * searched for, its first @digits bytes, and how much of those that begin so is to go. */     \
    X(rank)                                                                                        \
    X(digits)                                                                                      \
    X(tied_bytes)                                                                                  \
    /* What it did. */                                                                             \
    X(removed)                                                                                     \
    X(removed_bytes)                                                                               \
    X(leftover_bytes)

#define KILNI_DIR_DIGIT_VALUES 256u
#define KILNI_DIR_RANK_DIGITS 8u

typedef struct kilni_dir_job {
#define KILNI_DIR_JOB_FIELD(name) uint64_t name;
    KILNI_DIR_JOB_LIST(KILNI_DIR_JOB_FIELD)
#undef KILNI_DIR_JOB_FIELD
    kilni_dir_position position; /* in the shard */
    /* Bytes of the entries whose rank begins as is known, by its next digit. */
    uint64_t by_digit[KILNI_DIR_DIGIT_VALUES];
} kilni_dir_job;

/* KILN_OK; KILN_MISS: there is none, or it is damaged. */
kiln_status kilni_dir_job_load(int file, kilni_dir_job *ret_job);
/* KILN_OK; KILN_E_FULL; KILN_E_IO. */
kiln_status kilni_dir_job_save(int file, const kilni_dir_job *job);
