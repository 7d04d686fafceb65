/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which entries are removed, by policy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/dir/summary.h"

typedef struct kilni_dir_ranking {
    uint32_t policy;       /* KILN_POLICY_… */
    int64_t now_s;         /* the time of the ranking */
    uint64_t resolution_s; /* uses closer together than this count as simultaneous */
    uint64_t max_age_s;    /* entries unused for longer are removed in any case; 0: none */
} kilni_dir_ranking;

/* Entries with the lowest rank are removed first. */
uint64_t kilni_dir_rank(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* The entry that was stored last, or used last if uses count for the policy, has the highest value.
 */
uint64_t kilni_dir_recency(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* Whether an entry is older than the store's maximum age. */
bool kilni_dir_has_expired(const kilni_dir_ranking *ranking, const kilni_dir_record *record);
