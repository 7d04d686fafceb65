/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/policy.h"

static const char *const names[] = {
    [KILN_POLICY_COST] = "cost",         [KILN_POLICY_LRU] = "lru",   [KILN_POLICY_FIFO] = "fifo",
    [KILN_POLICY_NO_EVICT] = "no_evict", [KILN_POLICY_AUTO] = "auto",
};

enum { POLICY_COUNT = sizeof names / sizeof names[0] };

const char *kiln_policy_name(uint32_t policy)
{
    return policy < POLICY_COUNT ? names[policy] : NULL;
}

/* strcasecmp is not used, because it converts the letter I to lower case in a way that depends on
 * the locale. */
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

/* ---- use ---- */

static const uint64_t CLOCK_TICK = 1 << KILNI_POLICY_FREQUENCY_BITS;

static void settle_on_locked(kiln_cache *cache, uint64_t use)
{
    atomic_store_explicit(&cache->settled_use, use, memory_order_relaxed);
}

void kilni_policy_report_hits_locked(kiln_cache *cache, bool reports_hits)
{
    const uint64_t most = KILNI_POLICY_MAX_FREQUENCY;
    settle_on_locked(cache, (kilni_policy_settled_use(cache) & ~most) | (reports_hits ? 0 : most));
}

/* Advances the clock. Returns a use at the new time, with frequency 0. */
static uint64_t advance_clock_locked(kiln_cache *cache)
{
    uint64_t use = kilni_policy_settled_use(cache) + CLOCK_TICK;
    settle_on_locked(cache, use);
    return use & ~(uint64_t)KILNI_POLICY_MAX_FREQUENCY;
}

void kilni_policy_insert_locked(kilni_object *object)
{
    uint64_t now = advance_clock_locked(object->cache);
    object->inserted = now >> KILNI_POLICY_FREQUENCY_BITS;
    object->seen_use = kilni_policy_seen_bits(now);
    object->inflation = object->cache->inflation;
    atomic_store_explicit(&object->use, now | 1, memory_order_relaxed);
}

void kilni_policy_evicted_locked(kilni_object *victim)
{
    kiln_cache *cache = victim->cache;
    double left =
        kilni_policy_merit(victim, atomic_load_explicit(&victim->use, memory_order_relaxed));
    if (left > cache->inflation) {
        cache->inflation = left;
        /* The clock advances, so that later uses differ from earlier ones. */
        advance_clock_locked(cache);
    }
}
