/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which each policy removes entries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/dir/summary.h"

typedef struct kilni_dir_ranking {
    uint32_t policy;       /* KILN_POLICY_… */
    int64_t now_s;         /* the time of the ranking */
    uint64_t resolution_s; /* policy "cost" adds this to each age, because the order of uses within
                              this time is unknown */
    uint64_t max_age_s;    /* entries that are unused for longer are removed in any case; 0: no
                              limit */
} kilni_dir_ranking;

/* Returns the rank of an entry. Entries with the lowest rank are removed first. */
uint64_t kilni_dir_rank(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* Returns a number that grows with the time of an entry's last use, or, if the policy ignores uses,
 * with the time at which the entry was stored. */
uint64_t kilni_dir_recency(const kilni_dir_ranking *ranking, const kilni_dir_record *record);

/* Returns true if an entry has been unused for longer than the store's maximum age. */
bool kilni_dir_has_expired(const kilni_dir_ranking *ranking, const kilni_dir_record *record);
