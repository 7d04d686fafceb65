/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a trim. Between two slices it is kept in a file, so that any process can continue
 * the trim, even if the process that began it was killed. docs/trimming.md describes the file's
 * bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/dir/dir.h"

/* The steps of a trim. A trim counts the files, finds the rank up to which entries must be removed,
 * and then removes these entries. */
typedef enum kilni_dir_phase {
    KILNI_DIR_SURVEY = 0,
    KILNI_DIR_RANK = 1,
    KILNI_DIR_SWEEP = 2,
    KILNI_DIR_DONE = 3
} kilni_dir_phase;

/* X(name) for each field, in the order in which the file contains them. */
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
    X(shard_files)  /* how many files were found in the shard and not removed */                   \
    X(read_at)      /* in the summary that is read */                                              \
    X(summary_size) /* of the summary that is written; later, of the summary that is read */       \
    X(has_failed)   /* not all files could be counted */                                           \
    /* The counts, from which removed files are subtracted. */                                     \
    X(entries)                                                                                     \
    X(bytes)                                                                                       \
    X(candidate_bytes) /* of entries that may be removed and have not expired */                   \
    X(expired_bytes)                                                                               \
    /* The newest of the entries that may be removed. It stays if the store is within its limit    \
     * after all others were removed. Recency 0: there is no such entry. */                        \
    X(newest_recency)                                                                              \
    X(newest_inode)                                                                                \
    X(newest_bytes)                                                                                \
    /* The victims: all entries with a rank lower than @rank, and @tied_bytes of the entries with  \
     * this rank. During the search for the rank, its first @digits digits are known, and the      \
     * victims whose rank begins with these digits have @tied_bytes. */                            \
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
