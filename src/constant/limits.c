/* SPDX-License-Identifier: Apache-2.0 */
#include "constant/limits.h"

#include "base/size.h"
#include "constant/constants.h"

static const uint64_t MIB = (uint64_t)1 << 20;

static void change(kilni_constant_limits *limits, kilni_constant_limits wanted)
{
    limits->capacity_mib = wanted.capacity_mib;
    if (wanted.policy != KILNI_CONSTANT_POLICY_UNCHANGED) {
        limits->policy = wanted.policy;
    }
}

bool kilni_constant_limits_equal(kilni_constant_limits a, kilni_constant_limits b)
{
    return a.capacity_mib == b.capacity_mib && a.policy == b.policy;
}

kilni_constant_limits *kilni_constant_limits_of_kind(kilni_constants *constants, uint32_t kind)
{
    switch (kind) {
    case KILN_ENGINE_CPU:
        return &constants->kinds[0];
    case KILN_ENGINE_GPU:
        return &constants->kinds[1];
    default:
        return NULL;
    }
}

void kilni_constant_limits_change_kind_locked(kilni_constants *constants, uint32_t kind,
                                              kilni_constant_limits wanted)
{
    kilni_constant_limits *limits = kilni_constant_limits_of_kind(constants, kind);
    change(limits, wanted);
    constants->set_at[limits - constants->kinds] = ++constants->sets;
    kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    for (; cache; cache = cache->next) {
        cache->has_own_limits = cache->has_own_limits && cache->kind != kind;
    }
}

void kilni_constant_limits_set_own_locked(kilni_constants *constants, kiln_constant_cache *cache,
                                          kilni_constant_limits wanted)
{
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, cache);
    change(&limits, wanted);
    cache->own_limits = limits;
    cache->has_own_limits = true;
}

kilni_constant_limits kilni_constant_limits_of_locked(kilni_constants *constants,
                                                      const kiln_constant_cache *cache)
{
    return cache->has_own_limits ? cache->own_limits
                                 : *kilni_constant_limits_of_kind(constants, cache->kind);
}

static kilni_constant_limits limits_of(const kiln_constant_cache *cache)
{
    kilni_constants *constants = kilni_constants_get();
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, cache);
    pthread_mutex_unlock(&constants->lock);
    return limits;
}

/* Converts a capacity to bytes. If the number of bytes overflows, there is no limit. */
static uint64_t bytes_of(uint64_t mib)
{
    uint64_t bytes;
    return kilni_u64_multiply(mib, MIB, &bytes) ? bytes : KILN_UNLIMITED;
}

kilni_constant_limits kilni_constant_limits_apply(kiln_constant_cache *cache)
{
    /* The lock is not held, because flushing calls backends. Another thread might set limits at the
     * same time. A thread that finds different limits afterwards applies them again. No change is
     * missed, because a thread checks the limits after the last change. */
    kilni_constant_limits limits = limits_of(cache);
    kilni_constant_limits applied;
    do {
        applied = limits;
        kiln_cache_set_policy(cache->memory, applied.policy);
        kiln_cache_set_capacity_flush(cache->memory, bytes_of(applied.capacity_mib),
                                      KILN_UNLIMITED);
        limits = limits_of(cache);
    } while (!kilni_constant_limits_equal(limits, applied));
    kilni_constants_settle(cache);
    return applied;
}
