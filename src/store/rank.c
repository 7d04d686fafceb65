/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rank.h"

#include <string.h>

#include <kiln/store.h>

#define NS_PER_S 1000000000
#define LATEST_S ((int64_t)1 << 33)
#define DAY_S 86400
#define MIN_COST_NS 1000000u
#define MAX_COST_NS ((uint64_t)600 * NS_PER_S)

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Returns true if a time is more than a day in the future. Such a time comes from a clock that was
 * wrong, perhaps that of another machine. It is treated as the oldest time, since otherwise the
 * entry would be removed last. */
static bool is_ahead(const kilni_ranking *ranking, int64_t time_s)
{
    return time_s - DAY_S > ranking->now_s;
}

static int64_t used_ns(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    return facts->used_ns <= 0 || is_ahead(ranking, facts->used_ns / NS_PER_S) ? 0 : facts->used_ns;
}

/* Ranks an entry by its creation time. The creation time is known only in seconds. If the entry has
 * not been used since its creation, the mtime of its file is more exact. */
static uint64_t creation_rank(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    const int64_t latest_s = facts->created_s > LATEST_S ? LATEST_S : facts->created_s;
    const int64_t created_s = latest_s < 0 || is_ahead(ranking, latest_s) ? 0 : latest_s;
    const int64_t used_s = used_ns(ranking, facts) / NS_PER_S;
    const int64_t within = used_s == created_s ? used_ns(ranking, facts) % NS_PER_S : NS_PER_S - 1;
    return (uint64_t)created_s * NS_PER_S + (uint64_t)within;
}

static int64_t age_s(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    const int64_t age = ranking->now_s - used_ns(ranking, facts) / NS_PER_S;
    return age > 0 ? age : 0;
}

/* Ranks an entry by its cost. The algorithm GreedyDual-Size keeps an entry until a global value L
 * has grown by the entry's cost per byte. Kiln does not store L. If L grew evenly, an entry
 * would stay for a time proportional to cost / size after its last use. So the entry with the
 * lowest cost / (size * age) is removed first. */
static uint64_t cost_rank(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    const double cost = (double)clamp(facts->build_ns, MIN_COST_NS, MAX_COST_NS);
    const double size = (double)clamp(facts->bytes, 1, UINT64_MAX);
    const double age = (double)age_s(ranking, facts) + (double)ranking->resolution_s + 1;
    const double merit = cost / size / age;
    /* Positive doubles are ordered like the integers with the same bits. */
    uint64_t bits;
    _Static_assert(sizeof bits == sizeof merit, "a double has 64 bits");
    memcpy(&bits, &merit, sizeof bits);
    return bits;
}

uint64_t kilni_rank_recency(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    if (ranking->policy == KILN_POLICY_FIFO) {
        return creation_rank(ranking, facts);
    }
    return (uint64_t)used_ns(ranking, facts);
}

uint64_t kilni_rank(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    return ranking->policy == KILN_POLICY_COST ? cost_rank(ranking, facts)
                                               : kilni_rank_recency(ranking, facts);
}

bool kilni_rank_has_expired(const kilni_ranking *ranking, const kilni_rank_facts *facts)
{
    return ranking->max_age_s > 0 && (uint64_t)age_s(ranking, facts) > ranking->max_age_s;
}
