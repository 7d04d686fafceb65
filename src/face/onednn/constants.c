/* SPDX-License-Identifier: Apache-2.0
 *
 * What users set and ask for, on top of what the environment says.
 */
#include <kiln/constant.h>

#include <stdlib.h>

#include "constant/constants.h"
#include "constant/device.h"
#include "face/onednn/constant_environment.h"

static kilni_constant_complaints complaints;

static void read_environment(void)
{
    kilni_constants *constants = kilni_constants_get();
    if (constants) {
        pthread_mutex_lock(&constants->lock);
        complaints.count = 0;
        kilni_constant_environment_read(secure_getenv(KILNI_CONSTANT_VARIABLE), constants->kinds,
                                        &complaints);
        pthread_mutex_unlock(&constants->lock);
    }
}

/* Whatever finds a cache or a limit begins here, so that the environment has been read by then. */
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

static void give(kilni_constant_limits limits, uint64_t *ret_capacity_mib, uint32_t *ret_policy)
{
    if (ret_capacity_mib) {
        *ret_capacity_mib = limits.capacity_mib;
    }
    if (ret_policy) {
        *ret_policy = limits.policy;
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

kiln_status kiln_constant_set_capacity(uint32_t kind, uint64_t capacity_mib, uint32_t policy)
{
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    if (!kilni_constant_limits_of_kind(constants, kind) || !is_policy(policy)) {
        return KILN_E_INVALID;
    }
    pthread_mutex_lock(&constants->lock);
    change_kind_locked(constants, kind, capacity_mib, policy);
    pthread_mutex_unlock(&constants->lock);
    apply_to_kind(constants, kind);
    return KILN_OK;
}

kiln_status kiln_constant_get_capacity(uint32_t kind, uint64_t *ret_capacity_mib,
                                       uint32_t *ret_policy)
{
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    const kilni_constant_limits *of_kind = kilni_constant_limits_of_kind(constants, kind);
    if (!of_kind) {
        return KILN_E_INVALID;
    }
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = *of_kind;
    pthread_mutex_unlock(&constants->lock);
    give(limits, ret_capacity_mib, ret_policy);
    return KILN_OK;
}

/* ---- devices ---- */

static void set_cache(kilni_constants *constants, kiln_constant_cache *cache, uint64_t capacity_mib,
                      uint32_t policy)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, cache);
    change(&limits, capacity_mib, policy);
    cache->own_limits = limits;
    cache->has_own_limits = true;
    pthread_mutex_unlock(&constants->lock);
    kilni_constant_limits_apply(cache);
}

static void get_cache(kilni_constants *constants, const kiln_constant_cache *cache,
                      uint64_t *ret_capacity_mib, uint32_t *ret_policy)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits limits = kilni_constant_limits_of_locked(constants, cache);
    pthread_mutex_unlock(&constants->lock);
    give(limits, ret_capacity_mib, ret_policy);
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

kiln_status kiln_constant_set_capacity_at(uint32_t kind, uint32_t index, uint64_t capacity_mib,
                                          uint32_t policy)
{
    if (!is_policy(policy)) {
        return KILN_E_INVALID;
    }
    kiln_constant_cache *cache;
    kiln_status status = kiln_constant_cache_of(kind, index, &cache);
    if (status == KILN_OK) {
        set_cache(begin(), cache, capacity_mib, policy);
    }
    return status;
}

kiln_status kiln_constant_get_capacity_at(uint32_t kind, uint32_t index, uint64_t *ret_capacity_mib,
                                          uint32_t *ret_policy)
{
    kilni_constants *constants = begin();
    const kiln_constant_cache *cache =
        constants ? kilni_constant_cache_find(constants, kind, index) : NULL;
    if (!cache) {
        return kiln_constant_get_capacity(kind, ret_capacity_mib, ret_policy);
    }
    get_cache(constants, cache, ret_capacity_mib, ret_policy);
    return KILN_OK;
}

static kiln_status cache_of_device(const void *device, kiln_constant_cache **ret_cache)
{
    if (!device) {
        return KILN_E_INVALID;
    }
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    *ret_cache = kilni_constant_cache_of_device(constants, device);
    return *ret_cache ? KILN_OK : KILN_MISS;
}

kiln_status kiln_constant_set_device_capacity(const void *device, uint64_t capacity_mib,
                                              uint32_t policy)
{
    kiln_constant_cache *cache;
    kiln_status status = is_policy(policy) ? cache_of_device(device, &cache) : KILN_E_INVALID;
    if (status == KILN_OK) {
        set_cache(begin(), cache, capacity_mib, policy);
    }
    return status;
}

kiln_status kiln_constant_get_device_capacity(const void *device, uint64_t *ret_capacity_mib,
                                              uint32_t *ret_policy)
{
    kiln_constant_cache *cache;
    kiln_status status = cache_of_device(device, &cache);
    if (status == KILN_OK) {
        get_cache(begin(), cache, ret_capacity_mib, ret_policy);
    }
    return status;
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

const char *kiln_constant_complaint(size_t index)
{
    begin();
    const bool is_there = index < complaints.count && index <= KILNI_CONSTANT_COMPLAINTS;
    return is_there ? complaints.lines[index] : NULL;
}
