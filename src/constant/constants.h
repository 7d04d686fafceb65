/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the constant tensor cache share: the limits that were set, and the caches of
 * this process.
 *
 * constants.c has the one lock and the list of caches; limits.c applies limits to caches; device.c
 * finds and makes caches, and binds handles; key.c makes keys, buffer.c memory, and cache.c has the
 * calls of backends.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>

#include "constant/limits.h"

/* A device's handle as users know it. */
typedef struct kilni_constant_binding {
    struct kilni_constant_binding *next;
    const void *device;
    kiln_constant_cache *cache;
} kilni_constant_binding;

/* Never freed. */
struct kiln_constant_cache {
    /* Set before the cache is in the list. */
    uint32_t kind, index;
    kiln_cache *memory;
    kiln_constant_cache *next;

    /* Guarded by the lock of constants. */
    bool has_own_limits;
    kilni_constant_limits own_limits;

    /* How often a constant of zero bytes was requested. */
    _Atomic uint64_t empties;
};

struct kilni_constants {
    /* Guards the members below, unless they say otherwise. No function of the engine or of a
     * backend is called while it is held, so no thread that holds it waits for a different lock. */
    pthread_mutex_t lock;
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
    kilni_constant_binding *bindings;
    /* Grows at its head: stored with release under the lock, read with acquire without it. */
    _Atomic(kiln_constant_cache *) caches;
};

/* Returns the state of this process, initially unlimited and without eviction. NULL: out of memory.
 */
kilni_constants *kilni_constants_get(void);

/* Returns the first cache, from which next leads to the others; NULL: there is none. The lock is
 * not needed. */
kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants);

/* Returns whether this thread is inside a backend function that one of the caches called. Such a
 * thread must not wait for others, since two that waited for each other would never return. false
 * for NULL. The caller holds no lock. */
bool kilni_constants_are_departing(const kilni_constants *constants);
