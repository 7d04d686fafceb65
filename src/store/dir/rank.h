/* SPDX-License-Identifier: Apache-2.0
 *
 * In which order entries go, by policy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/dir/summary.h"

typedef struct kilni_dir_ranking {
    uint32_t policy;    /* KILN_POLICY_… */
    int64_t now_s;      /* ranks are as of then */
    uint64_t blur_s;    /* uses closer together than this can't be told apart */
    uint64_t max_age_s; /* what was not used for longer goes in any case; 0: nothing does */
} kilni_dir_ranking;

/* The lowest goes first. */
uint64_t kilni_dir_rank(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* The highest is of the entry that came last, or was used last where uses count. */
uint64_t kilni_dir_recency(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* Whether an entry is older than the age that a store keeps. */
bool kilni_dir_has_expired(const kilni_dir_ranking *ranking, const kilni_dir_record *record);
