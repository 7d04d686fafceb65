/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache, as its users govern it: how much of each device's memory the processed
 * constants (reordered weights, folded scales, …) of all backends may occupy. Backends fill it:
 * kiln/constant_backend.h.
 *
 *     kiln_constant_budget budget = {.struct_size = sizeof budget,
 *                                    .kind = KILN_ENGINE_GPU,
 *                                    .capacity_mib = 2048,
 *                                    .policy = KILN_POLICY_LRU};
 *     kiln_constant_set_budget(&budget);
 *     budget.scope = KILN_CONSTANT_INDEX;
 *     kiln_constant_get_budget(&budget); // of the first GPU
 *
 * One cache and one budget for each engine kind and device index, in this process. On, unlimited
 * and without eviction, unless the environment or a call below says otherwise:
 *   ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY=cpu:10240;gpu:2048:lru
 * The pieces are kind:MiB or kind:MiB:policy, of which the last for a kind counts. The variable is
 * read once, by the first of all calls of this header and of kiln/constant_backend.h (this is the
 * one place where the library reads the environment unasked; a program that runs with more rights
 * than its user doesn't read it); a call wins over it. A piece that can't be understood is ignored
 * alone, and kiln_constant_complaint names it.
 *
 * Each call that sets something removes all that is in the caches that it governs, also where
 * nothing changes. What is in use, and lookups that are under way, go on; what comes of these is
 * not kept. All else is freed when the call returns.
 *
 * All calls: KILN_E_INVALID for an argument that is none of those named, or NULL where it is not
 * allowed, changes nothing; KILN_E_NO_MEMORY changes nothing. Threads: any. Blocks: those that get
 * something, never; those that set something, on the backends' functions that free what was removed
 * (which wait for a device that still writes to it), also where another thread is in such a
 * function already: no lock may be held that one of them takes. From inside a backend's function no
 * other thread is waited for.
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

/* In place of a policy: it stays as it is. */
#define KILN_POLICY_UNCHANGED UINT32_MAX

/* Switches all caches: sets the capacity of every kind to KILN_UNLIMITED, or to 0. Policies stay.
 *
 * @flag  0: off; greater: on
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_enabled(int flag);

/* 1 where some kind, or some device, has a capacity; else 0.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_get_enabled(int *ret_flag);

/* Whose budget is meant. */
typedef enum kiln_constant_scope {
    KILN_CONSTANT_KIND =
        0, /* each device of kind; to set it forgets what was set for single ones */
    KILN_CONSTANT_INDEX = 1, /* the device at index, until its kind is set. A device has an index
                                before any backend uses it */
    KILN_CONSTANT_DEVICE = 2 /* the same by the device runtime's own handle, such as a cl_device_id,
                                which was bound to kind and index by kiln_constant_bind_device */
} kiln_constant_scope;

/* How much of a device's memory constants may occupy. */
typedef struct kiln_constant_budget {
    size_t struct_size;
    uint32_t scope;        /* kiln_constant_scope */
    uint32_t kind;         /* kiln_engine_kind; not with KILN_CONSTANT_DEVICE */
    uint32_t index;        /* among the devices of the kind, as backends count them, from 0 */
    const void *device;    /* with KILN_CONSTANT_DEVICE */
    uint64_t capacity_mib; /* in MiB, for each device; 0: nothing is kept; KILN_UNLIMITED */
    uint32_t policy; /* what happens when it is reached: kiln_policy, or KILN_POLICY_UNCHANGED */
} kiln_constant_budget;

/* Sets a budget. Returns KILN_OK; KILN_MISS: no such handle was bound; KILN_E_INVALID;
 * KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_budget(const kiln_constant_budget *budget);

/* Fills capacity_mib and policy: exactly what was set. Of a single device what holds for its kind
 * if nothing else was set for it.
 *
 * @budget  [in, out] whose; with its struct_size
 * Returns as kiln_constant_set_budget. */
KILN_API kiln_status kiln_constant_get_budget(kiln_constant_budget *budget);

/* A line for each piece of the variable that was ignored, such as "…, piece 2, "gpux:5": …"; after
 * the 16th one line for all others. @index from 0; NULL: no more. Static text. */
KILN_API const char *kiln_constant_complaint(size_t index);

#ifdef __cplusplus
}
#endif

#endif
