/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a device's constants may occupy: the limits that were set, and how they are
 * applied to a cache.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>

enum { KILNI_CONSTANT_KINDS = 2 };

typedef struct kilni_constants kilni_constants;

typedef struct kilni_constant_limits {
    uint64_t capacity_mib; /* of each device */
    uint32_t policy; /* a kiln_policy; in limits to be set, KILNI_CONSTANT_POLICY_UNCHANGED is also
                        valid */
} kilni_constant_limits;

/* Means that the present policy stays. Equals KILN_POLICY_UNCHANGED, which users pass. */
#define KILNI_CONSTANT_POLICY_UNCHANGED UINT32_MAX

/* Changes the limits of a kind, and discards the limits of its single devices. This includes
 * devices whose handles no backend has bound yet. */
void kilni_constant_limits_change_kind_locked(kilni_constants *constants, uint32_t kind,
                                              kilni_constant_limits wanted);

bool kilni_constant_limits_equal(kilni_constant_limits a, kilni_constant_limits b);

/* Returns the limits of a kind, or NULL for an unknown kind. The lock of @constants guards the
 * limits. */
kilni_constant_limits *kilni_constant_limits_of_kind(kilni_constants *constants, uint32_t kind);

/* Returns the limits of a cache: its own, or those of its kind. */
kilni_constant_limits kilni_constant_limits_of_locked(kilni_constants *constants,
                                                      const kiln_constant_cache *cache);

/* Gives a cache limits of its own. */
void kilni_constant_limits_set_own_locked(kilni_constants *constants, kiln_constant_cache *cache,
                                          kilni_constant_limits wanted);

/* Empties a cache and applies its present limits, which it returns. The caller holds no lock. */
kilni_constant_limits kilni_constant_limits_apply(kiln_constant_cache *cache);
