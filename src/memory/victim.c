/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/victim.h"

#include <string.h>

#include "memory/object.h"
#include "memory/policy.h"

/* Up to FEW objects, all are compared. Among more, the candidates are ranked anew and compared with
 * SAMPLE random objects. A call that removes more than MANY objects ranks the candidates once per
 * REFRESH objects from then on, and compares them with NEXT_SAMPLE. */
enum { FEW = 128, SAMPLE = 32, MANY = 32, NEXT_SAMPLE = 8, REFRESH = 16 };

/* ---- ranks ---- */

/* Gives the object the value of GreedyDual's L at its last use. If that use came after the previous
 * look at the object, this is the present value of L. It is exact if all objects are looked at
 * before each change of L, as they are in a cache of few objects. Among more, an object may get a
 * value of L that is newer than its use. */
static void see_use_locked(kilni_object *object, uint64_t use)
{
    if (use >> KILNI_POLICY_FREQUENCY_BITS != object->seen_use) {
        object->seen_use = use >> KILNI_POLICY_FREQUENCY_BITS;
        object->inflation = object->cache->inflation;
    }
}

/* Not negative. */
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

/* Takes into account how an object was used, and ranks it. */
static kilni_rank rank_locked(kilni_object *object, kilni_order order)
{
    uint64_t use = atomic_load_explicit(&object->use, memory_order_relaxed);
    see_use_locked(object, use);
    /* The bit patterns of numbers that are not negative are in the order of the numbers. */
    double worth = worth_of(object, use, order);
    kilni_rank rank = {.use = use, .inserted = object->inserted};
    memcpy(&rank.worth, &worth, sizeof rank.worth);
    rank.worth |= kilni_object_is_pinned(object) ? PINNED : 0;
    return rank;
}

/* Whether the object of rank @a is removed before that of rank @b. */
static inline bool is_below(const kilni_rank *a, const kilni_rank *b)
{
    if (__builtin_expect(a->worth != b->worth, 1)) {
        return a->worth < b->worth;
    }
    return a->use != b->use ? a->use < b->use : a->inserted < b->inserted;
}

/* ---- candidates ---- */

static size_t find_lowest(const kilni_candidates *candidates)
{
    size_t lowest = 0;
    for (size_t i = 1; i < candidates->count; i++) {
        lowest = is_below(&candidates->ranks[i], &candidates->ranks[lowest]) ? i : lowest;
    }
    return lowest;
}

static void find_highest(kilni_candidates *candidates)
{
    size_t highest = 0;
    for (size_t i = 1; i < candidates->count; i++) {
        highest = is_below(&candidates->ranks[highest], &candidates->ranks[i]) ? i : highest;
    }
    candidates->highest = highest;
}

/* Makes an object a candidate if there is room, or if it ranks below the highest candidate, which
 * it then replaces. */
static void consider(kilni_candidates *candidates, kilni_object *object, const kilni_rank *rank)
{
    size_t i = candidates->count;
    if (i < KILNI_CANDIDATES) {
        candidates->count++;
    } else if (is_below(rank, &candidates->ranks[candidates->highest])) {
        i = candidates->highest;
        candidates->objects[i]->slot.is_candidate = false;
    } else {
        return;
    }
    object->slot.is_candidate = true;
    candidates->objects[i] = object;
    candidates->ranks[i] = *rank;
    if (candidates->count == KILNI_CANDIDATES) {
        find_highest(candidates);
    }
}

void kilni_victim_consider_locked(kilni_object *object)
{
    kilni_rank rank = rank_locked(object, KILNI_ORDER_POLICY);
    consider(&object->cache->candidates, object, &rank);
}

void kilni_victim_forget_locked(kilni_object *object)
{
    if (!object->slot.is_candidate) {
        return;
    }
    kilni_candidates *candidates = &object->cache->candidates;
    size_t i = 0;
    while (candidates->objects[i] != object) {
        i++;
    }
    object->slot.is_candidate = false;
    size_t last = --candidates->count;
    candidates->objects[i] = candidates->objects[last];
    candidates->ranks[i] = candidates->ranks[last];
}

static void rank_candidates_locked(kilni_candidates *candidates, kilni_order order)
{
    for (size_t i = 0; i < candidates->count; i++) {
        candidates->ranks[i] = rank_locked(candidates->objects[i], order);
    }
    if (candidates->count == KILNI_CANDIDATES) {
        find_highest(candidates);
    }
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

static kilni_object *choose_of_all_locked(kiln_cache *cache, kilni_order order)
{
    kilni_object *lowest = NULL;
    kilni_rank lowest_rank;
    for (size_t i = 0; i < cache->residents.count; i++) {
        kilni_object *object = kilni_resident_at(&cache->residents, i);
        kilni_rank rank = rank_locked(object, order);
        if (!lowest || is_below(&rank, &lowest_rank)) {
            lowest = object;
            lowest_rank = rank;
        }
    }
    return lowest;
}

static void consider_sample_locked(kiln_cache *cache, kilni_order order, size_t count)
{
    kilni_object *sample[SAMPLE];
    for (size_t i = 0; i < count; i++) {
        sample[i] = random_object_locked(cache);
        /* They are rarely in the processor's caches. All are fetched at once. */
        __builtin_prefetch(&sample[i]->slot.is_candidate);
        __builtin_prefetch(&sample[i]->position);
    }
    for (size_t i = 0; i < count; i++) {
        if (!sample[i]->slot.is_candidate) {
            kilni_rank rank = rank_locked(sample[i], order);
            consider(&cache->candidates, sample[i], &rank);
        }
    }
}

static kilni_object *choose_of_sample_locked(kiln_cache *cache, kilni_order order, size_t step)
{
    kilni_candidates *candidates = &cache->candidates;
    if (step < MANY || step % REFRESH == 0) {
        rank_candidates_locked(candidates, order);
    }
    consider_sample_locked(cache, order, step < MANY ? SAMPLE : NEXT_SAMPLE);
    size_t lowest = find_lowest(candidates);
    /* It may have been used or pinned after it was ranked. */
    for (int i = 0; i < KILNI_CANDIDATES; i++) {
        size_t seen = lowest;
        candidates->ranks[seen] = rank_locked(candidates->objects[seen], order);
        lowest = find_lowest(candidates);
        if (lowest == seen) {
            break;
        }
    }
    return candidates->objects[lowest];
}

kilni_object *kilni_victim_choose_locked(kiln_cache *cache, kilni_order order, size_t step)
{
    return cache->residents.count <= FEW ? choose_of_all_locked(cache, order)
                                         : choose_of_sample_locked(cache, order, step);
}
