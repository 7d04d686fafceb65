/* SPDX-License-Identifier: Apache-2.0 */
#include "store/remote/trim_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* The turns. The newest value is removed only if removing all others is not enough. */
enum { TURN_EXPIRED, TURN_RANKED, TURN_NEWEST, TURN_NEVER };

bool kilni_trim_plan_add(kilni_trim_plan *plan, kilni_trim_value value,
                         const kilni_rank_facts *facts)
{
    kilni_trim_value *values =
        kilni_array_grown(plan->values, plan->count, &plan->capacity, sizeof *values);
    if (!values) {
        return false;
    }
    value.rank = facts ? kilni_rank(&plan->ranking, facts) : 0;
    value.turn = !facts                                          ? TURN_NEVER
                 : kilni_rank_has_expired(&plan->ranking, facts) ? TURN_EXPIRED
                                                                 : TURN_RANKED;
    if (value.turn == TURN_RANKED) {
        const uint64_t recency = kilni_rank_recency(&plan->ranking, facts);
        if (recency > plan->newest_recency) {
            plan->newest = value.digest;
            plan->newest_recency = recency;
        }
    }
    plan->values = values;
    plan->values[plan->count++] = value;
    return true;
}

static int compare_digests(const void *first, const void *second)
{
    const kilni_trim_value *a = first;
    const kilni_trim_value *b = second;
    return memcmp(&a->digest, &b->digest, sizeof a->digest);
}

static int compare_turns(const void *first, const void *second)
{
    const kilni_trim_value *a = first;
    const kilni_trim_value *b = second;
    if (a->turn != b->turn) {
        return a->turn < b->turn ? -1 : 1;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return compare_digests(first, second);
}

static void drop_repetitions(kilni_trim_plan *plan)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++) {
        if (kept == 0 || compare_digests(&plan->values[kept - 1], &plan->values[i]) != 0) {
            plan->values[kept++] = plan->values[i];
        }
    }
    plan->count = kept;
}

static void count(kilni_trim_plan *plan)
{
    plan->entries = plan->count;
    for (size_t i = 0; i < plan->count; i++) {
        kilni_trim_value *value = &plan->values[i];
        plan->bytes += value->size;
        if (value->turn == TURN_RANKED && plan->newest_recency > 0 &&
            memcmp(&value->digest, &plan->newest, sizeof plan->newest) == 0) {
            value->turn = TURN_NEWEST;
        }
    }
}

void kilni_trim_plan_begin(kilni_trim_plan *plan)
{
    if (plan->count > 0) {
        qsort(plan->values, plan->count, sizeof *plan->values, compare_digests);
        drop_repetitions(plan);
        count(plan);
        qsort(plan->values, plan->count, sizeof *plan->values, compare_turns);
    }
}

size_t kilni_trim_plan_choose(kilni_trim_plan *plan, size_t max,
                              const kilni_trim_value **ret_values)
{
    const size_t first = plan->next;
    while (plan->next < plan->count && plan->next - first < max) {
        const kilni_trim_value *value = &plan->values[plan->next];
        if (value->turn == TURN_NEVER ||
            (value->turn != TURN_EXPIRED && plan->bytes <= plan->limit)) {
            break;
        }
        plan->entries--;
        plan->bytes -= value->size;
        plan->next++;
    }
    *ret_values = plan->values ? plan->values + first : NULL;
    return plan->next - first;
}

void kilni_trim_plan_note_left(kilni_trim_plan *plan, const kilni_trim_value *value)
{
    plan->entries++;
    plan->bytes += value->size;
}

void kilni_trim_plan_done(kilni_trim_plan *plan)
{
    free(plan->values);
}
