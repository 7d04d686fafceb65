/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache, as its users control it: how much of each device's memory the
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
 * cache is on, unlimited, and evicts nothing. The environment sets other limits:
 *   ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY=cpu:10240;gpu:2048:lru
 * The variable holds pieces kind:MiB or kind:MiB:policy; the last piece of a kind counts. It is
 * read once, by the first call of this header or of kiln/constant_backend.h. Nowhere else does the
 * library read the environment without being asked. A program that runs with more rights than its
 * user does not read it. Calls take precedence over the variable. A piece that can't be understood
 * is ignored, the other pieces count, and kiln_constant_warning reports it.
 *
 * Each call that sets something empties the caches that it governs, even if no value changes.
 * Constants in use stay valid, and look-ups under way continue, but their results are not kept.
 * Everything else has been freed when the call returns.
 *
 * All calls: KILN_E_INVALID means an argument that is none of the named values, or NULL; like
 * KILN_E_NO_MEMORY, it changes nothing. Any thread may make any call. Calls that get something
 * never block. Calls that set something block on the backends' functions that free what was
 * removed, including calls of these functions in other threads; a backend may wait there for a
 * device that still writes to the memory. The caller must therefore hold no lock that such a
 * function takes. A call from inside a backend's function waits for no other thread.
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

/* In place of a policy: leaves the policy as it is. */
#define KILN_POLICY_UNCHANGED UINT32_MAX

/* Enables or disables all caches: sets the capacity of each kind to KILN_UNLIMITED or to 0. The
 * policies stay.
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
    /* Each device of a kind; setting it discards the budgets of single devices. */
    KILN_CONSTANT_KIND = 0,
    KILN_CONSTANT_INDEX = 1, /* the device at an index, until its kind is set. An index may be set
                                before any backend uses the device */
    KILN_CONSTANT_DEVICE = 2 /* the same device by its runtime's handle, such as a cl_device_id,
                                which kiln_constant_bind_device has bound to kind and index */
} kiln_constant_scope;

/* How much of a device's memory constants may occupy. */
typedef struct kiln_constant_budget {
    size_t struct_size;
    uint32_t scope; /* a kiln_constant_scope */
    uint32_t kind;  /* a kiln_engine_kind; ignored with KILN_CONSTANT_DEVICE */
    uint32_t index; /* with KILN_CONSTANT_INDEX: the number of the device among those of its kind,
                       as backends count them, from 0 */
    const void *device;    /* with KILN_CONSTANT_DEVICE: the handle; only compared */
    uint64_t capacity_mib; /* in MiB, for each device; 0: nothing is kept; or KILN_UNLIMITED */
    uint32_t policy;       /* what happens when the capacity is reached: a kiln_policy, or
                              KILN_POLICY_UNCHANGED */
} kiln_constant_budget;

/* Sets a budget, and empties the caches that it governs.
 *
 * @budget  read during the call
 * Returns KILN_OK; KILN_MISS: the handle is not bound; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_budget(const kiln_constant_budget *budget);

/* Reads a budget: capacity_mib and policy, exactly as they were set. A device without a budget of
 * its own has that of its kind.
 *
 * @budget  [in, out] with struct_size and the fields that name the device set
 * Returns as kiln_constant_set_budget. */
KILN_API kiln_status kiln_constant_get_budget(kiln_constant_budget *budget);

/* Returns a line for each ignored piece of the variable, such as "…, piece 2, "gpux:5": …". After
 * 16 lines, one more stands for all others.
 *
 * @index  from 0
 * Returns a static text; NULL if @index is not less than the number of lines. */
KILN_API const char *kiln_constant_warning(size_t index);

#ifdef __cplusplus
}
#endif

#endif
