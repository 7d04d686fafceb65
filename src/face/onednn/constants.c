/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of users, on top of what the environment sets.
 */
#include <kiln/constant.h>

#include <stdlib.h>

#include "base/params.h"
#include "constant/constants.h"
#include "constant/device.h"
#include "face/onednn/constant_environment.h"

static kilni_constant_warnings warnings;

static void read_environment(void)
{
    kilni_constants *constants = kilni_constants_get();
    if (constants) {
        pthread_mutex_lock(&constants->lock);
        warnings.count = 0;
        kilni_constant_environment_read(secure_getenv(KILNI_CONSTANT_VARIABLE), constants->kinds,
                                        &warnings);
        pthread_mutex_unlock(&constants->lock);
    }
}

/* Called first by everything that looks up a cache or a limit, so that the environment has been
 * read. */
static kilni_constants *begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    return kilni_constants_get();
}

static bool is_policy(uint32_t policy)
{
    return policy == KILN_POLICY_UNCHANGED || kiln_policy_name(policy);
}

static void change(kilni_constant_limits *limits, uint64_t capacity_mib, uint32_t policy)
{
    limits->capacity_mib = capacity_mib;
    if (policy != KILN_POLICY_UNCHANGED) {
        limits->policy = policy;
    }
}

/* ---- kinds ---- */

static void change_kind_locked(kilni_constants *constants, uint32_t kind, uint64_t capacity_mib,
                               uint32_t policy)
{
    change(kilni_constant_limits_of_kind(constants, kind), capacity_mib, policy);
    kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    for (; cache; cache = cache->next) {
        cache->has_own_limits = cache->has_own_limits && cache->kind != kind;
    }
}

static void apply_to_kind(const kilni_constants *constants, uint32_t kind)
{
    kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    for (; cache; cache = cache->next) {
        if (cache->kind == kind) {
            kilni_constant_limits_apply(cache);
        }
    }
}

static void set_kind(kilni_constants *constants, const kiln_constant_budget *budget)
{
    pthread_mutex_lock(&constants->lock);
    change_kind_locked(constants, budget->kind, budget->capacity_mib, budget->policy);
    pthread_mutex_unlock(&constants->lock);
    apply_to_kind(constants, budget->kind);
}

/* ---- devices ---- */

static void set_cache(kilni_constants *constants, kiln_constant_cache *cache,
                      const kiln_constant_budget *budget)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, cache);
    change(&limits, budget->capacity_mib, budget->policy);
    cache->own_limits = limits;
    cache->has_own_limits = true;
    pthread_mutex_unlock(&constants->lock);
    kilni_constant_limits_apply(cache);
}

kiln_status kiln_constant_cache_of(uint32_t kind, uint32_t index, kiln_constant_cache **ret_cache)
{
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    if (!ret_cache || !kilni_constant_limits_of_kind(constants, kind)) {
        return KILN_E_INVALID;
    }
    return kilni_constant_cache_of(constants, kind, index, ret_cache);
}

kiln_status kiln_constant_bind_device(const void *device, uint32_t kind, uint32_t index)
{
    kiln_constant_cache *cache;
    const kiln_status status =
        device ? kiln_constant_cache_of(kind, index, &cache) : KILN_E_INVALID;
    return status == KILN_OK ? kilni_constant_bind(begin(), device, cache) : status;
}

/* ---- budgets ---- */

/* Returns whether a budget names its devices correctly. */
static bool names_devices(kilni_constants *constants, const kiln_constant_budget *budget)
{
    return budget->scope == KILN_CONSTANT_DEVICE
               ? budget->device != NULL
               : budget->scope <= KILN_CONSTANT_INDEX &&
                     kilni_constant_limits_of_kind(constants, budget->kind);
}

kiln_status kiln_constant_set_budget(const kiln_constant_budget *budget)
{
    kiln_constant_budget known;
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    if (!budget || kilni_params_copy(budget, &known, sizeof known) != KILN_OK ||
        !names_devices(constants, &known) || !is_policy(known.policy)) {
        return KILN_E_INVALID;
    }
    if (known.scope == KILN_CONSTANT_KIND) {
        set_kind(constants, &known);
        return KILN_OK;
    }
    kiln_constant_cache *cache = NULL;
    if (known.scope == KILN_CONSTANT_DEVICE) {
        cache = kilni_constant_cache_of_device(constants, known.device);
    } else if (kilni_constant_cache_of(constants, known.kind, known.index, &cache) != KILN_OK) {
        return KILN_E_NO_MEMORY;
    }
    if (!cache) {
        return KILN_MISS;
    }
    set_cache(constants, cache, &known);
    return KILN_OK;
}

kiln_status kiln_constant_get_budget(kiln_constant_budget *budget)
{
    kiln_constant_budget known;
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    if (!budget || kilni_params_copy(budget, &known, sizeof known) != KILN_OK ||
        !names_devices(constants, &known)) {
        return KILN_E_INVALID;
    }
    const kiln_constant_cache *cache = NULL;
    if (known.scope == KILN_CONSTANT_DEVICE) {
        cache = kilni_constant_cache_of_device(constants, known.device);
        if (!cache) {
            return KILN_MISS;
        }
    } else if (known.scope == KILN_CONSTANT_INDEX) {
        cache = kilni_constant_cache_find(constants, known.kind, known.index);
    }
    pthread_mutex_lock(&constants->lock);
    const kilni_constant_limits limits =
        cache ? kilni_constant_limits_of_locked(constants, cache)
              : *kilni_constant_limits_of_kind(constants, known.kind);
    pthread_mutex_unlock(&constants->lock);
    known.capacity_mib = limits.capacity_mib;
    known.policy = limits.policy;
    return kilni_params_copy_out(budget, &known, sizeof known) ? KILN_OK : KILN_E_INVALID;
}

/* ---- all ---- */

kiln_status kiln_constant_set_enabled(int flag)
{
    if (flag < 0) {
        return KILN_E_INVALID;
    }
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    uint64_t capacity_mib = flag ? KILN_UNLIMITED : 0;
    pthread_mutex_lock(&constants->lock);
    change_kind_locked(constants, KILN_ENGINE_CPU, capacity_mib, KILN_POLICY_UNCHANGED);
    change_kind_locked(constants, KILN_ENGINE_GPU, capacity_mib, KILN_POLICY_UNCHANGED);
    pthread_mutex_unlock(&constants->lock);
    apply_to_kind(constants, KILN_ENGINE_CPU);
    apply_to_kind(constants, KILN_ENGINE_GPU);
    return KILN_OK;
}

kiln_status kiln_constant_get_enabled(int *ret_flag)
{
    if (!ret_flag) {
        return KILN_E_INVALID;
    }
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    bool enabled = false;
    pthread_mutex_lock(&constants->lock);
    for (size_t i = 0; i < KILNI_CONSTANT_KINDS; i++) {
        enabled = enabled || constants->kinds[i].capacity_mib > 0;
    }
    const kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    for (; cache; cache = cache->next) {
        enabled = enabled || kilni_constant_limits_of_locked(constants, cache).capacity_mib > 0;
    }
    pthread_mutex_unlock(&constants->lock);
    *ret_flag = enabled;
    return KILN_OK;
}

const char *kiln_constant_warning(size_t index)
{
    begin();
    const bool is_there = index < warnings.count && index <= KILNI_CONSTANT_WARNINGS;
    return is_there ? warnings.lines[index] : NULL;
}
