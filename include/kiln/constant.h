/* SPDX-License-Identifier: Apache-2.0
 *
 * The constant tensor cache, as its users govern it: how much of each device's memory the processed
 * constants (reordered weights, folded scales, …) of all backends may occupy. Backends fill it:
 * kiln/constant_backend.h.
 *
 *     kiln_constant_set_capacity(KILN_ENGINE_GPU, 2048, KILN_POLICY_LRU);
 *     kiln_constant_set_capacity_at(KILN_ENGINE_GPU, 1, 512, KILN_POLICY_UNCHANGED);
 *     kiln_constant_get_capacity(KILN_ENGINE_GPU, &capacity_mib, &policy);
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

/* Sets the budget of each device of a kind; what was set for single devices of it is forgotten.
 *
 * @kind          kiln_engine_kind
 * @capacity_mib  in MiB, for each device; 0: nothing is kept; KILN_UNLIMITED
 * @policy        what happens when it is reached: kiln_policy, or KILN_POLICY_UNCHANGED
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_capacity(uint32_t kind, uint64_t capacity_mib,
                                                uint32_t policy);

/* What holds for devices of a kind for which nothing else was set: exactly what was set.
 *
 * @ret_capacity_mib, @ret_policy  [out] may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_get_capacity(uint32_t kind, uint64_t *ret_capacity_mib,
                                                uint32_t *ret_policy);

/* The same for one device, until its kind is set. A device has an index before any backend uses it.
 *
 * @index  of the device among those of its kind, as backends count them, from 0
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_capacity_at(uint32_t kind, uint32_t index,
                                                   uint64_t capacity_mib, uint32_t policy);

/* What holds for one device: as kiln_constant_get_capacity. */
KILN_API kiln_status kiln_constant_get_capacity_at(uint32_t kind, uint32_t index,
                                                   uint64_t *ret_capacity_mib,
                                                   uint32_t *ret_policy);

/* The same by the device runtime's own handle, such as a cl_device_id, which was bound to kind and
 * index by kiln_constant_bind_device.
 *
 * Returns KILN_OK; KILN_MISS: no such handle was bound; KILN_E_INVALID; KILN_E_NO_MEMORY. */
KILN_API kiln_status kiln_constant_set_device_capacity(const void *device, uint64_t capacity_mib,
                                                       uint32_t policy);

/* The same by its handle. KILN_MISS: no such handle was bound. */
KILN_API kiln_status kiln_constant_get_device_capacity(const void *device,
                                                       uint64_t *ret_capacity_mib,
                                                       uint32_t *ret_policy);

/* A line for each piece of the variable that was ignored, such as "…, piece 2, "gpux:5": …"; after
 * the 16th one line for all others. @index from 0; NULL: no more. Static text. */
KILN_API const char *kiln_constant_complaint(size_t index);

#ifdef __cplusplus
}
#endif

#endif
