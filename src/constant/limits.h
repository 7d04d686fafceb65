/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device's constants may occupy: what was set, and how it gets to the cache.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>

enum { KILNI_CONSTANT_KINDS = 2 };

typedef struct kilni_constants kilni_constants;

typedef struct kilni_constant_limits {
    uint64_t capacity_mib; /* for each device */
    uint32_t policy;       /* kiln_policy */
} kilni_constant_limits;

bool kilni_constant_limits_equal(kilni_constant_limits a, kilni_constant_limits b);

/* What is set for a kind, which the lock of constants guards; NULL for a value that is no kind. */
kilni_constant_limits *kilni_constant_limits_of_kind(kilni_constants *constants, uint32_t kind);

/* What is set for a cache: its own, or its kind's. */
kilni_constant_limits kilni_constant_limits_of_locked(kilni_constants *constants,
                                                      const kiln_constant_cache *cache);

/* Empties a cache and lets what is set for it hold, which it returns. No lock held. */
kilni_constant_limits kilni_constant_limits_apply(kiln_constant_cache *cache);
