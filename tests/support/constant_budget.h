/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for the budgets of kiln/constant.h: one pair for each way to name the devices that a
 * budget applies to.
 */
#pragma once

#include <kiln/constant.h>

static inline kiln_status constant_get(kiln_constant_budget budget, uint64_t *ret_capacity_mib,
                                       uint32_t *ret_policy)
{
    const kiln_status status = kiln_constant_get_budget(&budget);
    if (status == KILN_OK && ret_capacity_mib) {
        *ret_capacity_mib = budget.capacity_mib;
    }
    if (status == KILN_OK && ret_policy) {
        *ret_policy = budget.policy;
    }
    return status;
}

static inline kiln_constant_budget constant_budget(uint32_t scope, uint32_t kind, uint32_t index,
                                                   const void *device)
{
    return (kiln_constant_budget){.struct_size = sizeof(kiln_constant_budget),
                                  .scope = scope,
                                  .kind = kind,
                                  .index = index,
                                  .device = device};
}

static inline kiln_status constant_set(kiln_constant_budget budget, uint64_t capacity_mib,
                                       uint32_t policy)
{
    budget.capacity_mib = capacity_mib;
    budget.policy = policy;
    return kiln_constant_set_budget(&budget);
}

static inline kiln_status constant_set_kind(uint32_t kind, uint64_t capacity_mib, uint32_t policy)
{
    return constant_set(constant_budget(KILN_CONSTANT_KIND, kind, 0, NULL), capacity_mib, policy);
}

static inline kiln_status constant_get_kind(uint32_t kind, uint64_t *ret_capacity_mib,
                                            uint32_t *ret_policy)
{
    return constant_get(constant_budget(KILN_CONSTANT_KIND, kind, 0, NULL), ret_capacity_mib,
                        ret_policy);
}

static inline kiln_status constant_set_index(uint32_t kind, uint32_t index, uint64_t capacity_mib,
                                             uint32_t policy)
{
    return constant_set(constant_budget(KILN_CONSTANT_INDEX, kind, index, NULL), capacity_mib,
                        policy);
}

static inline kiln_status constant_get_index(uint32_t kind, uint32_t index,
                                             uint64_t *ret_capacity_mib, uint32_t *ret_policy)
{
    return constant_get(constant_budget(KILN_CONSTANT_INDEX, kind, index, NULL), ret_capacity_mib,
                        ret_policy);
}

static inline kiln_status constant_set_device(const void *device, uint64_t capacity_mib,
                                              uint32_t policy)
{
    return constant_set(constant_budget(KILN_CONSTANT_DEVICE, 0, 0, device), capacity_mib, policy);
}

static inline kiln_status constant_get_device(const void *device, uint64_t *ret_capacity_mib,
                                              uint32_t *ret_policy)
{
    return constant_get(constant_budget(KILN_CONSTANT_DEVICE, 0, 0, device), ret_capacity_mib,
                        ret_policy);
}
