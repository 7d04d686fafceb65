/* SPDX-License-Identifier: Apache-2.0
 *
 * Controls the constant tensor cache. Its budgets limit how much of each device's memory the
 * processed constants (reordered weights, folded scales, …) of all backends may occupy. Backends
 * fill the cache with kiln/constant_backend.h. docs/constants.md describes both.
 *
 *     kiln_constant_budget budget = {.struct_size = sizeof budget,
 *                                    .kind = KILN_ENGINE_GPU,
 *                                    .capacity_mib = 2048,
 *                                    .policy = KILN_POLICY_LRU};
 *     kiln_constant_set_budget(&budget);
 *     budget.scope = KILN_CONSTANT_INDEX;
 *     kiln_constant_get_budget(&budget); // of the first GPU
 *
 * Each process has one cache and one budget for each engine kind and device index. By default the
 * cache is on, unlimited, and evicts nothing. The environment can set other limits, for example
 * with ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY=cpu:10240;gpu:2048:lru. The variable consists of
 * pieces of the form kind:MiB or kind:MiB:policy. If several pieces name the same kind, the last
 * capacity and the last policy apply. The variable is read once, by the first call that needs a
 * cache, a budget or a warning. It is the only setting that the library reads from the environment
 * without being asked. It is ignored in a program that runs with more rights than its user. Calls
 * take precedence over the variable. A malformed piece is ignored, and kiln_constant_warning
 * reports it; the other pieces apply.
 *
 * Each call that sets something empties the caches to which the setting applies, even if no value
 * changes. Constants that are in use stay valid. Look-ups that are under way continue, but the
 * cache does not keep their results. All other constants have been freed when the call returns.
 *
 * All calls: KILN_E_INVALID means that an argument is NULL or is not one of the named values. A
 * call that returns KILN_E_INVALID or KILN_E_NO_MEMORY has changed nothing. Any thread may make any
 * call. Calls that get something never block. Calls that set something block until the backends'
 * functions have freed the removed constants, including functions that other threads are running.
 * Such a function may wait for a device that still writes to the memory. The caller must therefore
 * hold no lock that such a function takes. A call from inside a backend's function does not wait
 * for other threads.
 *
 * Source: oneDNN's constant tensor cache (docs/seeds.md, C1 to C87).
 */
#ifndef KILN_CONSTANT_H
#define KILN_CONSTANT_H

#include <stddef.h>
#include <stdint.h>

#include <kiln/cache.h>
#include <kiln/engine.h>
#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Can be passed instead of a policy; leaves the policy as it is. */
#define KILN_POLICY_UNCHANGED UINT32_MAX

/* Enables or disables all caches: sets the capacity of each kind to KILN_UNLIMITED or to 0, and
 * discards the budgets of single devices. The policies of the kinds stay.
 *
 * @flag  0: disable; greater: enable
 * Returns KILN_OK; KILN_E_INVALID: negative; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_enabled(int flag);

/* Reads whether constants are cached.
 *
 * @ret_flag  [out] 1 if any kind or device has a capacity above 0; otherwise 0
 * Returns KILN_OK; KILN_E_INVALID: NULL; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_get_enabled(int *ret_flag);

/* The devices that a budget applies to. */
typedef enum kiln_constant_scope {
    /* All devices of a kind. Setting this budget discards the budgets of single devices of the
     * kind. */
    KILN_CONSTANT_KIND = 0,
    KILN_CONSTANT_INDEX = 1, /* the device at an index, until a budget is set for its kind. Its
                                budget may be set before any backend uses the device */
    KILN_CONSTANT_DEVICE = 2 /* one device, named by its runtime's handle, such as a cl_device_id.
                                kiln_constant_bind_device binds the handle to a kind and an index.
                                If a budget is set before the handle is bound, it takes effect when
                                the handle is bound, unless a budget is set for the kind in
                                between */
} kiln_constant_scope;

/* The limit on the memory of a device that constants may occupy. */
typedef struct kiln_constant_budget {
    size_t struct_size;
    uint32_t scope; /* a kiln_constant_scope */
    uint32_t kind;  /* a kiln_engine_kind; ignored with KILN_CONSTANT_DEVICE */
    uint32_t index; /* with KILN_CONSTANT_INDEX: the number of the device among the devices of its
                       kind, as backends count them, from 0 */
    const void *device;    /* with KILN_CONSTANT_DEVICE: the handle; only compared */
    uint64_t capacity_mib; /* in MiB, for each device; 0: nothing is kept; or KILN_UNLIMITED */
    uint32_t policy;       /* what happens when the capacity is reached: a kiln_policy, or
                              KILN_POLICY_UNCHANGED */
} kiln_constant_budget;

/* Sets a budget, and empties the caches to which it applies.
 *
 * @budget  read during the call
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_budget(const kiln_constant_budget *budget);

/* Reads a budget: capacity_mib and policy, exactly as they were set. A device without a budget of
 * its own has the budget of its kind. If a handle is not bound yet, the policy can be
 * KILN_POLICY_UNCHANGED.
 *
 * @budget  [in, out] the caller sets struct_size and the fields that name the device
 * Returns what kiln_constant_set_budget returns; also KILN_MISS: the handle is not bound, and no
 * budget was set for it. */
KILN_API kiln_status kiln_constant_get_budget(kiln_constant_budget *budget);

/* Returns one of the lines that report ignored pieces of the variable, such as "…, piece 2,
 * "gpux:5": …". If more than 16 pieces are ignored, one more line stands for all others.
 *
 * @index  from 0
 * Returns a static text; NULL if @index is not less than the number of lines. */
KILN_API const char *kiln_constant_warning(size_t index);

#ifdef __cplusplus
}
#endif

#endif
