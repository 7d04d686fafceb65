/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which each policy removes entries, from a directory or from a server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What is known about an entry. */
typedef struct kilni_rank_facts {
    int64_t used_ns; /* the time of the last use, Unix nanoseconds */
    uint64_t bytes;  /* how much room the entry takes */
    int64_t created_s;
    uint64_t build_ns;
} kilni_rank_facts;

typedef struct kilni_ranking {
    uint32_t policy;       /* KILN_POLICY_… */
    int64_t now_s;         /* the time of the ranking */
    uint64_t resolution_s; /* policy "cost" adds this to each age, because the order of uses within
                              this time is unknown */
    uint64_t max_age_s;    /* entries that are unused for longer are removed in any case; 0: no
                              limit */
} kilni_ranking;

/* Returns the rank of an entry. Entries with the lowest rank are removed first. */
uint64_t kilni_rank(const kilni_ranking *ranking, const kilni_rank_facts *facts);

/* Returns a number that grows with the time of an entry's last use, or, if the policy ignores uses,
 * with the time at which the entry was stored. */
uint64_t kilni_rank_recency(const kilni_ranking *ranking, const kilni_rank_facts *facts);

/* Returns true if an entry has been unused for longer than the maximum age. */
bool kilni_rank_has_expired(const kilni_ranking *ranking, const kilni_rank_facts *facts);
