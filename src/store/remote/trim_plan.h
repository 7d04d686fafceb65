/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entries of a server a trim removes, and in which order. The plan is in memory: it takes 56
 * bytes for each entry, and while it is sorted up to twice as much. It does no I/O.
 */
#pragma once

#include <kiln/key.h>

#include "store/rank.h"
#include "store/remote/connector.h"

/* An entry of the server, as it was judged. */
typedef struct kilni_trim_value {
    kiln_digest digest;
    uint64_t rank;
    uint64_t size, put_s; /* these two and @end: as in kilni_remote_judged */
    unsigned char end[KILNI_REMOTE_END_SIZE];
    uint32_t turn; /* the order of removal; within a turn, the lowest rank is first */
} kilni_trim_value;

typedef struct kilni_trim_plan {
    kilni_ranking ranking; /* set by the caller */
    uint64_t limit;        /* set by the caller: how many bytes may remain */
    kilni_trim_value *values;
    size_t count, capacity;
    size_t next; /* the first value that has not been chosen */
    kiln_digest newest;
    uint64_t newest_recency; /* 0: no value is known */
    uint64_t entries, bytes; /* what remains if all values that were chosen are removed */
} kilni_trim_plan;

/* Adds an entry. An entry can be added several times, since a listing can repeat a name.
 *
 * @value  its rank and its turn are set by this function
 * @facts  NULL: the entry stays in any case
 * Returns false if memory runs out. */
bool kilni_trim_plan_add(kilni_trim_plan *plan, kilni_trim_value value,
                         const kilni_rank_facts *facts);

/* Sorts the values. Called once, after all values have been added. */
void kilni_trim_plan_begin(kilni_trim_plan *plan);

/* Chooses the next values to remove. Returns their number, at most @max; 0: the trim is complete.
 *
 * @ret_values  [out] valid until the plan is freed */
size_t kilni_trim_plan_choose(kilni_trim_plan *plan, size_t max,
                              const kilni_trim_value **ret_values);

/* Records that a value that was chosen remains on the server. */
void kilni_trim_plan_note_left(kilni_trim_plan *plan, const kilni_trim_value *value);

void kilni_trim_plan_done(kilni_trim_plan *plan);
