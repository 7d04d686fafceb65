/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls by which users set and read limits. The first of these calls begins by reading the
 * environment.
 */
#include <kiln/constant.h>

#include <stdlib.h>

#include "base/sized_struct.h"
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

/* Every function that looks up a cache or a limit calls this function first. Its first call reads
 * the environment. */
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

/* ---- kinds ---- */

static void apply_to_kind(const kilni_constants *constants, uint32_t kind)
{
    kiln_constant_cache *cache = kilni_constant_cache_first(constants);
    for (; cache; cache = cache->next) {
        if (cache->kind == kind) {
            kilni_constant_limits_apply(cache);
        }
    }
}

_Static_assert(KILNI_CONSTANT_POLICY_UNCHANGED == KILN_POLICY_UNCHANGED, "one value");

static kilni_constant_limits wanted_by(const kiln_constant_budget *budget)
{
    return (kilni_constant_limits){.capacity_mib = budget->capacity_mib, .policy = budget->policy};
}

static void set_kind(kilni_constants *constants, const kiln_constant_budget *budget)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits_change_kind_locked(constants, budget->kind, wanted_by(budget));
    pthread_mutex_unlock(&constants->lock);
    apply_to_kind(constants, budget->kind);
}

/* ---- devices ---- */

static void set_cache(kilni_constants *constants, kiln_constant_cache *cache,
                      const kiln_constant_budget *budget)
{
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits_set_own_locked(constants, cache, wanted_by(budget));
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

/* Returns true if a budget names its devices correctly. */
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
    if (!budget || kilni_sized_struct_copy(budget, &known, sizeof known) != KILN_OK ||
        !names_devices(constants, &known) || !is_policy(known.policy)) {
        return KILN_E_INVALID;
    }
    if (known.scope == KILN_CONSTANT_KIND) {
        set_kind(constants, &known);
        return KILN_OK;
    }
    kiln_constant_cache *cache = NULL;
    const kiln_status status =
        known.scope == KILN_CONSTANT_DEVICE
            ? kilni_constant_remember(constants, known.device, wanted_by(&known), &cache)
            : kilni_constant_cache_of(constants, known.kind, known.index, &cache);
    if (status == KILN_OK && cache) {
        set_cache(constants, cache, &known);
    }
    return status;
}

/* Returns KILN_OK; KILN_MISS: the handle is not bound, and nothing was set for it. */
static kiln_status limits_of(kilni_constants *constants, const kiln_constant_budget *budget,
                             kilni_constant_limits *ret_limits)
{
    if (budget->scope == KILN_CONSTANT_DEVICE) {
        return kilni_constant_limits_of_device(constants, budget->device, ret_limits);
    }
    const kiln_constant_cache *cache =
        budget->scope == KILN_CONSTANT_INDEX
            ? kilni_constant_cache_find(constants, budget->kind, budget->index)
            : NULL;
    pthread_mutex_lock(&constants->lock);
    *ret_limits = cache ? kilni_constant_limits_of_locked(constants, cache)
                        : *kilni_constant_limits_of_kind(constants, budget->kind);
    pthread_mutex_unlock(&constants->lock);
    return KILN_OK;
}

kiln_status kiln_constant_get_budget(kiln_constant_budget *budget)
{
    kiln_constant_budget known;
    kilni_constants *constants = begin();
    if (!constants) {
        return KILN_E_NO_MEMORY;
    }
    if (!budget || kilni_sized_struct_copy(budget, &known, sizeof known) != KILN_OK ||
        !names_devices(constants, &known)) {
        return KILN_E_INVALID;
    }
    kilni_constant_limits limits = {0};
    const kiln_status status = limits_of(constants, &known, &limits);
    if (status != KILN_OK) {
        return status;
    }
    known.capacity_mib = limits.capacity_mib;
    known.policy = limits.policy;
    return kilni_sized_struct_copy_out(budget, &known, sizeof known) ? KILN_OK : KILN_E_INVALID;
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
    const kilni_constant_limits wanted = {.capacity_mib = flag ? KILN_UNLIMITED : 0,
                                          .policy = KILN_POLICY_UNCHANGED};
    pthread_mutex_lock(&constants->lock);
    kilni_constant_limits_change_kind_locked(constants, KILN_ENGINE_CPU, wanted);
    kilni_constant_limits_change_kind_locked(constants, KILN_ENGINE_GPU, wanted);
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
