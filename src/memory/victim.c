/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/victim.h"

#include <string.h>

#include "memory/lifetime.h"
#include "memory/policy.h"

/* If there are more than KILNI_CANDIDATES objects, each choice examines SAMPLE random objects, and
 * all candidates are ranked again after REFRESH choices. */
enum { SAMPLE = 16, REFRESH = 16 };

/* ---- ranks ---- */

/* Records, in the object, the value of GreedyDual's L at the object's last use. If the object was
 * used after it was last examined, the present value of L is recorded. This value is exact if all
 * objects are examined before each change of L, as they are in a cache of few objects. In a larger
 * cache, the recorded value can be newer than the object's use. */
static void see_use_locked(kilni_object *object, uint64_t use)
{
    if (kilni_policy_seen_bits(use) != object->seen_use) {
        object->seen_use = kilni_policy_seen_bits(use);
        object->inflation = object->cache->inflation;
    }
}

/* Returns the worth of an object, which is not negative. */
static double worth_of(const kilni_object *object, uint64_t use, kilni_order order)
{
    if (order == KILNI_ORDER_COST) {
        return (double)object->cost_ns;
    }
    switch (object->cache->policy) {
    case KILN_POLICY_LRU:
        return (double)(use >> KILNI_POLICY_FREQUENCY_BITS);
    case KILN_POLICY_FIFO:
        return (double)object->inserted;
    case KILN_POLICY_NO_EVICT:
        return (double)(kilni_policy_clock(object->cache) - object->inserted);
    default:
        return kilni_policy_merit(object, use);
    }
}

static const uint64_t PINNED = (uint64_t)1 << 63;

/* Ranks an object by its use. Does not check whether the object is pinned. */
static kilni_rank rank_by_use_locked(kilni_object *object, kilni_order order)
{
    uint64_t use = atomic_load_explicit(&object->use, memory_order_relaxed);
    see_use_locked(object, use);
    /* The bit patterns of doubles that are not negative have the same order as the doubles. */
    double worth = worth_of(object, use, order);
    kilni_rank rank = {.use = use, .inserted = object->inserted};
    memcpy(&rank.worth, &worth, sizeof rank.worth);
    return rank;
}

/* Ranks an object. A shared object is assumed not to be pinned, because a check would have to read
 * all threads' tallies. Only the object that ranks lowest is worth that check. */
static kilni_rank rank_locked(kilni_object *object, kilni_order order)
{
    kilni_rank rank = rank_by_use_locked(object, order);
    const bool is_used = kilni_object_is_shared(object) ? kilni_object_is_busy_locked(object)
                                                        : kilni_object_is_used_locked(object);
    rank.worth |= is_used ? PINNED : 0;
    return rank;
}

/* Does the same as rank_locked, and also checks whether a shared object is pinned. */
static kilni_rank rank_fully_locked(kilni_object *object, kilni_order order)
{
    kilni_rank rank = rank_by_use_locked(object, order);
    rank.worth |= kilni_object_is_used_locked(object) ? PINNED : 0;
    return rank;
}

/* Returns true if the object of rank @a is removed before the object of rank @b. */
static inline bool is_below(const kilni_rank *a, const kilni_rank *b)
{
    if (__builtin_expect(a->worth != b->worth, 1)) {
        return a->worth < b->worth;
    }
    return a->use != b->use ? a->use < b->use : a->inserted < b->inserted;
}

/* ---- candidates ---- */

/* Inserts a candidate at its place among the first @count candidates, which are in order. There
 * must be room for it. */
static void put(kilni_candidates *candidates, size_t count, kilni_object *object, kilni_rank rank)
{
    size_t i = count;
    for (; i > 0 && is_below(&rank, &candidates->list[i - 1].rank); i--) {
        candidates->list[i] = candidates->list[i - 1];
    }
    candidates->list[i] = (kilni_candidate){.object = object, .rank = rank};
}

/* Removes candidate @i and closes the gap. */
static void take(kilni_candidates *candidates, size_t i)
{
    candidates->count--;
    memmove(&candidates->list[i], &candidates->list[i + 1],
            (candidates->count - i) * sizeof candidates->list[0]);
}

/* Makes an object a candidate if there is room. Otherwise, the object replaces the highest
 * candidate if it ranks below that candidate. */
static void consider(kilni_candidates *candidates, kilni_object *object, kilni_rank rank)
{
    if (candidates->count == KILNI_CANDIDATES) {
        const kilni_candidate *highest = &candidates->list[KILNI_CANDIDATES - 1];
        if (!is_below(&rank, &highest->rank)) {
            return;
        }
        highest->object->slot.is_candidate = false;
        candidates->count--;
    }
    object->slot.is_candidate = true;
    put(candidates, candidates->count++, object, rank);
}

static void rank_candidates_locked(kiln_cache *cache, kilni_order order)
{
    kilni_candidates *candidates = &cache->candidates;
    for (size_t i = 0; i < candidates->count; i++) {
        kilni_object *object = candidates->list[i].object;
        put(candidates, i, object, rank_locked(object, order));
    }
    candidates->choices = 0;
    candidates->order = order;
    candidates->policy = cache->policy;
}

/* Returns true if the candidates are ranked by this order and by the cache's present policy. */
static bool are_ranked_by(const kiln_cache *cache, kilni_order order)
{
    return cache->candidates.order == order && cache->candidates.policy == cache->policy;
}

/* The object's pins are ignored here, because the thread that inserts the object still holds it. */
void kilni_victim_consider_locked(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    if (!are_ranked_by(cache, KILNI_ORDER_POLICY)) {
        rank_candidates_locked(cache, KILNI_ORDER_POLICY);
    }
    consider(&cache->candidates, object, rank_by_use_locked(object, KILNI_ORDER_POLICY));
}

void kilni_victim_forget_locked(kilni_object *object)
{
    if (!object->slot.is_candidate) {
        return;
    }
    kilni_candidates *candidates = &object->cache->candidates;
    size_t i = 0;
    while (candidates->list[i].object != object) {
        i++;
    }
    object->slot.is_candidate = false;
    take(candidates, i);
}

/* ---- choosing ---- */

/* xorshift64* */
static uint64_t random_locked(kiln_cache *cache)
{
    uint64_t *state = &cache->random_state;
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static kilni_object *random_object_locked(kiln_cache *cache)
{
    uint64_t position = (random_locked(cache) >> 32) * cache->residents.count >> 32;
    return kilni_resident_at(&cache->residents, (size_t)position);
}

static void consider_locked(kilni_object *object, kilni_order order)
{
    if (!object->slot.is_candidate) {
        consider(&object->cache->candidates, object, rank_locked(object, order));
    }
}

/* Called for a cache that has at most KILNI_CANDIDATES objects. */
static void consider_all_locked(kiln_cache *cache, kilni_order order)
{
    for (size_t i = 0; i < cache->residents.count; i++) {
        consider_locked(kilni_resident_at(&cache->residents, i), order);
    }
}

static void consider_sample_locked(kiln_cache *cache, kilni_order order)
{
    kilni_object *sample[SAMPLE];
    for (size_t i = 0; i < SAMPLE; i++) {
        sample[i] = random_object_locked(cache);
        /* The objects are rarely in the processor's caches, so all are prefetched together. */
        __builtin_prefetch(&sample[i]->slot);
        __builtin_prefetch(&sample[i]->inflation);
    }
    for (size_t i = 0; i < SAMPLE; i++) {
        consider_locked(sample[i], order);
    }
}

/* Returns the lowest candidate, with its present rank. A candidate might have been used or pinned
 * after it was ranked, and other threads might pin and release objects during the call. */
static kilni_candidate lowest_locked(kilni_candidates *candidates, kilni_order order)
{
    kilni_candidate lowest;
    size_t looks = 0;
    do {
        lowest = candidates->list[0];
        lowest.rank = rank_fully_locked(lowest.object, order);
        take(candidates, 0);
        put(candidates, candidates->count++, lowest.object, lowest.rank);
    } while (candidates->list[0].object != lowest.object && ++looks < KILNI_CANDIDATES);
    return lowest;
}

/* Returns true if it is possible that some candidate is no longer in use. All candidates were in
 * use when they were ranked. */
static bool may_be_unused_locked(const kilni_candidates *candidates)
{
    size_t i = 0;
    while (i < candidates->count && !kilni_object_is_shared(candidates->list[i].object) &&
           kilni_object_is_used_locked(candidates->list[i].object)) {
        i++;
    }
    return i < candidates->count;
}

kilni_object *kilni_victim_choose_locked(kiln_cache *cache, kilni_order order)
{
    kilni_candidates *candidates = &cache->candidates;
    const bool compares_all = cache->residents.count <= KILNI_CANDIDATES;
    if (cache->residents.count == 0) {
        return NULL;
    }
    if (compares_all || candidates->choices >= REFRESH || !are_ranked_by(cache, order)) {
        rank_candidates_locked(cache, order);
    }
    if (compares_all) {
        consider_all_locked(cache, order);
    } else {
        consider_sample_locked(cache, order);
    }
    kilni_candidate lowest = lowest_locked(candidates, order);
    if ((lowest.rank.worth & PINNED) && candidates->choices > 0 &&
        may_be_unused_locked(candidates)) {
        rank_candidates_locked(cache, order);
        lowest = lowest_locked(candidates, order);
    }
    candidates->choices++;
    if (candidates->count > 1) {
        /* This object will probably be removed next, and its key will then be read. */
        __builtin_prefetch(candidates->list[1].object->slot.key);
    }
    return lowest.object;
}
