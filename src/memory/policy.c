/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/policy.h"

/* Where frequency saturates: it bounds how long an object that was once hot can stay. */
enum { MAX_FREQUENCY = 15 };

static const char *const names[] = {
    [KILN_POLICY_COST] = "cost",         [KILN_POLICY_LRU] = "lru",   [KILN_POLICY_FIFO] = "fifo",
    [KILN_POLICY_NO_EVICT] = "no_evict", [KILN_POLICY_AUTO] = "auto",
};

enum { POLICY_COUNT = sizeof names / sizeof names[0] };

const char *kiln_policy_name(uint32_t policy)
{
    return policy < POLICY_COUNT ? names[policy] : NULL;
}

/* Not strcasecmp: that one asks the locale what a lower-case I is. */
static bool equals_in_any_case(const char *text, const char *name)
{
    for (; *text && *name; text++, name++) {
        char lower = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
        if (lower != *name) {
            return false;
        }
    }
    return *text == *name;
}

kiln_status kiln_policy_parse(const char *text, uint32_t *ret_policy)
{
    if (!text || !ret_policy) {
        return KILN_E_PARSE;
    }
    for (uint32_t policy = 0; policy < POLICY_COUNT; policy++) {
        if (equals_in_any_case(text, names[policy])) {
            *ret_policy = policy;
            return KILN_OK;
        }
    }
    return KILN_E_PARSE;
}

kiln_policy kilni_policy_choose(uint32_t policy)
{
    return policy == KILN_POLICY_AUTO ? KILN_POLICY_COST : (kiln_policy)policy;
}

static void touch(kilni_object *object)
{
    object->last_used = ++object->cache->tick;
    object->inflation = object->cache->inflation;
}

void kilni_policy_insert_locked(kilni_object *object)
{
    touch(object);
    object->inserted = object->last_used;
    object->frequency = 1;
}

void kilni_policy_use_locked(kilni_object *object)
{
    touch(object);
    if (object->frequency < MAX_FREQUENCY) {
        object->frequency++;
    }
}

/* GreedyDual-Size-Frequency's H. */
static double rank(const kilni_object *object)
{
    double size = object->bytes > 0 ? (double)object->bytes : 1.0;
    return object->inflation + object->frequency * ((double)object->cost_ns / size);
}

/* True where @a is to go before @b. Ticks are unique, so that there is always one order. */
typedef bool (*goes_before_fn)(const kilni_object *a, const kilni_object *b);

static bool used_before(const kilni_object *a, const kilni_object *b)
{
    return a->last_used < b->last_used;
}

static bool inserted_before(const kilni_object *a, const kilni_object *b)
{
    return a->inserted < b->inserted;
}

static bool inserted_after(const kilni_object *a, const kilni_object *b)
{
    return a->inserted > b->inserted;
}

static bool ranks_below(const kilni_object *a, const kilni_object *b)
{
    double rank_a = rank(a);
    double rank_b = rank(b);
    return rank_a < rank_b || (rank_a == rank_b && used_before(a, b));
}

static bool costs_less(const kilni_object *a, const kilni_object *b)
{
    return a->cost_ns < b->cost_ns || (a->cost_ns == b->cost_ns && used_before(a, b));
}

static goes_before_fn order_of(kiln_policy policy)
{
    switch (policy) {
    case KILN_POLICY_LRU:
        return used_before;
    case KILN_POLICY_FIFO:
        return inserted_before;
    case KILN_POLICY_NO_EVICT:
        return inserted_after;
    default:
        return ranks_below;
    }
}

/* Looks at all objects in the cache. */
static kilni_object *first_of(const kiln_cache *cache, goes_before_fn goes_before, bool pinned)
{
    kilni_object *first = NULL;
    kilni_slot *slot = NULL;
    while ((slot = kilni_table_next(&cache->table, slot))) {
        if (slot->state != KILNI_SLOT_READY) {
            continue;
        }
        kilni_object *object = (kilni_object *)slot;
        if ((object->pins > 0) == pinned && (!first || goes_before(object, first))) {
            first = object;
        }
    }
    return first;
}

kilni_object *kilni_policy_victim_locked(const kiln_cache *cache)
{
    goes_before_fn goes_before = order_of(cache->policy);
    kilni_object *unpinned = first_of(cache, goes_before, false);
    return unpinned ? unpinned : first_of(cache, goes_before, true);
}

void kilni_policy_evicted_locked(const kilni_object *victim)
{
    double victim_rank = rank(victim);
    if (victim_rank > victim->cache->inflation) {
        victim->cache->inflation = victim_rank;
    }
}

kilni_object *kilni_policy_cheapest_locked(const kiln_cache *cache)
{
    return first_of(cache, costs_less, false);
}
