/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/victim.h"

/* From so many objects on a sample will do, of so many. */
enum { MANY = 8192, SAMPLE = 64 };

/* Keeps an object if it is among the first @limit so far. */
static void consider_locked(kilni_victims *victims, kilni_object *object, size_t limit)
{
    kilni_rank rank = kilni_policy_rank_locked(object, victims->order);
    struct kilni_victim *found = victims->found;
    if (victims->count == limit) {
        if (!kilni_rank_is_below(&rank, &found[limit - 1].rank)) {
            return;
        }
        victims->count--;
    }
    size_t i = victims->count++;
    for (; i > 0 && kilni_rank_is_below(&rank, &found[i - 1].rank); i--) {
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
        consider_locked(victims, (kilni_object *)slot, KILNI_VICTIMS);
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
            consider_locked(victims, (kilni_object *)slot, 1);
        }
    }
}

static void find_locked(kiln_cache *cache, kilni_victims *victims)
{
    victims->next = victims->count = 0;
    if (victims->sampled && cache->entries >= MANY) {
        look_at_some_locked(cache, victims);
        /* Pinned ones are to go last, of all. */
        if (victims->count > 0 && !victims->found[0].rank.pinned) {
            return;
        }
        victims->count = 0;
    }
    look_at_all_locked(cache, victims);
}

kilni_object *kilni_victims_next_locked(kiln_cache *cache, kilni_victims *victims)
{
    if (victims->next == victims->count) {
        find_locked(cache, victims);
    }
    return victims->next < victims->count ? victims->found[victims->next++].object : NULL;
}
