/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/victim.h"

#include "memory/object.h"
#include "memory/policy.h"

/* From so many objects on a sample will do, of so many. */
enum { MANY = 8192, SAMPLE = 64 };

/* ---- ranks ---- */

/* GreedyDual's L as it stood at the last use: as it stands now, where that was after the last look
 * at the object. L changes only after a look at all objects, but in a cache so large that samples
 * are enough: there an object may get an L that is newer than its use. */
static void see_use_locked(kilni_object *object, uint64_t use)
{
    if (use >> KILNI_POLICY_FREQUENCY_BITS != object->seen_use) {
        object->seen_use = use >> KILNI_POLICY_FREQUENCY_BITS;
        object->inflation = object->cache->inflation;
    }
}

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
        return -(double)object->inserted;
    default:
        return kilni_policy_merit(object, use);
    }
}

/* Takes into account how an object was used, and says when it is to go. */
static kilni_rank rank_locked(kilni_object *object, kilni_order order)
{
    uint64_t use = atomic_load_explicit(&object->use, memory_order_relaxed);
    see_use_locked(object, use);
    return (kilni_rank){.pinned = kilni_object_is_pinned(object),
                        .worth = worth_of(object, use, order),
                        .use = use,
                        .inserted = object->inserted};
}

/* True where @a is to go before @b. */
static bool is_below(const kilni_rank *a, const kilni_rank *b)
{
    if (a->pinned != b->pinned) {
        return b->pinned;
    }
    if (a->worth != b->worth) {
        return a->worth < b->worth;
    }
    return a->use != b->use ? a->use < b->use : a->inserted < b->inserted;
}

/* ---- looking ---- */

/* Keeps an object if it is among the first so far. */
static void consider_locked(kilni_victims *victims, kilni_object *object)
{
    size_t limit = victims->limit;
    kilni_rank rank = rank_locked(object, victims->order);
    struct kilni_victim *found = victims->found;
    if (victims->count == limit) {
        if (!is_below(&rank, &found[limit - 1].rank)) {
            return;
        }
        victims->count--;
    }
    size_t i = victims->count++;
    for (; i > 0 && is_below(&rank, &found[i - 1].rank); i--) {
        found[i] = found[i - 1];
    }
    found[i].rank = rank;
    found[i].object = object;
}

static void look_at_all_locked(kiln_cache *cache, kilni_victims *victims)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->ready, &position))) {
        consider_locked(victims, (kilni_object *)slot);
    }
}

/* xorshift64* */
static uint64_t random_locked(kiln_cache *cache)
{
    uint64_t *state = &cache->random_state;
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static void look_at_some_locked(kiln_cache *cache, kilni_victims *victims)
{
    for (int i = 0; i < SAMPLE; i++) {
        size_t position = kilni_table_position(&cache->ready, random_locked(cache) >> 20);
        kilni_slot *slot = kilni_table_walk(&cache->ready, &position);
        if (slot) {
            consider_locked(victims, (kilni_object *)slot);
        }
    }
}

static void find_locked(kiln_cache *cache, kilni_victims *victims)
{
    victims->next = victims->count = 0;
    if (victims->order == KILNI_ORDER_POLICY && cache->entries >= MANY) {
        victims->limit = 1;
        look_at_some_locked(cache, victims);
        /* Pinned ones are to go last, of all. */
        if (victims->count > 0 && !victims->found[0].rank.pinned) {
            return;
        }
        victims->count = 0;
    }
    victims->limit = victims->limit == 0              ? 1
                     : victims->limit < KILNI_VICTIMS ? victims->limit * 2
                                                      : KILNI_VICTIMS;
    look_at_all_locked(cache, victims);
}

static const struct kilni_victim *next_locked(kiln_cache *cache, kilni_victims *victims)
{
    if (victims->next == victims->count) {
        find_locked(cache, victims);
    }
    return victims->next < victims->count ? &victims->found[victims->next++] : NULL;
}

kilni_object *kilni_victims_next_locked(kiln_cache *cache, kilni_victims *victims)
{
    const struct kilni_victim *victim = next_locked(cache, victims);
    return victim ? victim->object : NULL;
}

kilni_object *kilni_victims_next_unpinned_locked(kiln_cache *cache, kilni_victims *victims)
{
    /* One that was found unpinned may be pinned since. */
    const struct kilni_victim *victim;
    do {
        victim = next_locked(cache, victims);
    } while (victim && !victim->rank.pinned && kilni_object_is_pinned(victim->object));
    return victim && !victim->rank.pinned ? victim->object : NULL;
}
