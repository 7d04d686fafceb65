/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a trim. Between two slices it is kept in a file, so that any process can continue
 * it, even if the process that began it was killed. docs/trimming.md describes its bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/dir/dir.h"

/* A trim counts the files, finds the rank up to which entries must go, and removes those entries.
 */
typedef enum kilni_dir_phase {
    KILNI_DIR_SURVEY = 0,
    KILNI_DIR_RANK = 1,
    KILNI_DIR_SWEEP = 2,
    KILNI_DIR_DONE = 3
} kilni_dir_phase;

/* X(name), in the order of the file. */
#define KILNI_DIR_JOB_LIST(X)                                                                      \
    /* The task: a store larger than @limit is reduced to @target. */                              \
    X(limit)                                                                                       \
    X(target)                                                                                      \
    X(policy)                                                                                      \
    X(now_s) /* when the trim began */                                                             \
    X(resolution_s)                                                                                \
    X(max_age_s)                                                                                   \
    /* The position. */                                                                            \
    X(phase)                                                                                       \
    X(shard)                                                                                       \
    X(shard_files)  /* how many files have been left in the shard */                               \
    X(read_at)      /* in the summary that is read */                                              \
    X(summary_size) /* of the one that is written; later, of the one that is read */               \
    X(has_failed)   /* not all files could be counted */                                           \
    /* The counts, reduced by what is removed. */                                                  \
    X(entries)                                                                                     \
    X(bytes)                                                                                       \
    X(candidate_bytes) /* of entries that may be removed and have not expired */                   \
    X(expired_bytes)                                                                               \
    /* The newest of the entries that may be removed. It stays if the store is within its limit    \
     * without the others. Recency 0: there is none. */                                            \
    X(newest_recency)                                                                              \
    X(newest_inode)                                                                                \
    X(newest_bytes)                                                                                \
    /* The victims: all entries of a rank lower than @rank, and @tied_bytes of those with this     \
     * rank. While the rank is searched for, its first @digits digits are known, and @tied_bytes   \
     * are those of victims that begin with them. */                                               \
    X(rank)                                                                                        \
    X(digits)                                                                                      \
    X(tied_bytes)                                                                                  \
    /* The result. */                                                                              \
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
    /* Bytes of the entries whose rank begins with the known digits, by the next digit. */
    uint64_t by_digit[KILNI_DIR_DIGIT_VALUES];
} kilni_dir_job;

/* Returns KILN_OK; KILN_MISS: there is no job, or it is damaged. */
kiln_status kilni_dir_job_load(int file, kilni_dir_job *ret_job);
/* Returns KILN_OK; KILN_E_FULL; KILN_E_IO. */
kiln_status kilni_dir_job_save(int file, const kilni_dir_job *job);
