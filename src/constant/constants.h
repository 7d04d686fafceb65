/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the constant tensor cache share: what was set, and the caches there are, of
 * this process.
 *
 * constants.c has the one lock and the list of caches; limits.c brings what was set to the caches;
 * device.c finds and makes caches, and knows
 * handles; key.c makes keys, buffer.c memory, and cache.c answers the backends.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>

#include "constant/limits.h"

/* A device's handle, as users know it. */
typedef struct kilni_constant_binding {
    struct kilni_constant_binding *next;
    const void *device;
    kiln_constant_cache *cache;
} kilni_constant_binding;

/* Never freed. */
struct kiln_constant_cache {
    /* Set before it is in the list. */
    uint32_t kind, index;
    kiln_cache *memory;
    kiln_constant_cache *next;

    /* Guarded by the lock of constants. */
    bool has_own_limits;
    kilni_constant_limits own_limits;

    /* How often a constant of no bytes was asked for. */
    _Atomic uint64_t empties;
};

struct kilni_constants {
    /* Guards what comes below, but for what says otherwise. No function of the engine's or of a
     * backend's is called with it held, so that it is behind no other lock. */
    pthread_mutex_t lock;
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
    kilni_constant_binding *bindings;
    /* Grows at its head, under the lock, by stores with release; read without it, with acquire. */
    _Atomic(kiln_constant_cache *) caches;
};

/* What this process has: at first unlimited, without eviction. NULL: out of memory. */
kilni_constants *kilni_constants_get(void);

/* The first cache, from which next leads to the others; NULL: there is none. Without the lock. */
kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants);

/* Whether this thread is in a function of a backend that one of them called, which is to wait for
 * no other: two such that waited for each other would never return. NULL: false. No lock held. */
bool kilni_constants_are_departing(const kilni_constants *constants);
