/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the files of the constant tensor cache share: the limits that were set, and the
 * caches of this process.
 *
 * constants.c has the only lock and the list of caches. limits.c applies limits to caches. device.c
 * finds and makes caches, and binds handles. key.c makes keys, and buffer.c allocates memory.
 * cache.c looks up, adds, removes and counts constants.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/constant_backend.h>

#include "constant/limits.h"

/* The handle by which users name a device. */
typedef struct kilni_constant_binding {
    struct kilni_constant_binding *next;
    const void *device;
    kiln_constant_cache *cache; /* NULL: no backend has bound the handle yet */
    /* The limits that a user set for the handle before a backend bound it, and the value of @sets
     * at that time. */
    kilni_constant_limits wanted;
    uint64_t wanted_at;
} kilni_constant_binding;

/* Never freed once it is in the list. */
struct kiln_constant_cache {
    /* Set before the cache is in the list. */
    uint32_t kind, index;
    kiln_cache *memory;
    kiln_constant_cache *next;

    /* Guarded by the lock of constants. */
    bool has_own_limits;
    kilni_constant_limits own_limits;

    /* The number of requests for a constant of zero bytes, and the number of requests that found
     * the constant with a different size. Accessed with relaxed memory order, because these are
     * only counters. */
    _Atomic uint64_t empties, misfits;
};

struct kilni_constants {
    /* Guards the members below, unless their comments say otherwise. A thread that holds the lock
     * calls no function of the engine or of a backend. So it never waits for a second lock. */
    pthread_mutex_t lock;
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
    /* The value of @sets when the limits of each kind were last set. @sets counts how often the
     * limits of a kind, or of a handle that is not bound, were set. */
    uint64_t set_at[KILNI_CONSTANT_KINDS], sets;
    kilni_constant_binding *bindings;
    /* New caches are added at the head: under the lock, with a release store. Readers use an
     * acquire load, without the lock. */
    _Atomic(kiln_constant_cache *) caches;
};

/* Returns the state of this process; NULL: out of memory. Initially there is no limit and no
 * eviction. */
kilni_constants *kilni_constants_get(void);

/* Returns the first cache in the list, or NULL if there is none. The caller need not hold the
 * lock. */
kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants);

/* Waits until all constants that were removed from the cache before the call are freed, except
 * pinned ones. If the calling thread is inside a backend function that one of the caches called, it
 * does not wait. Otherwise two such threads could wait for each other forever. The caller holds no
 * lock. */
void kilni_constants_settle(kiln_constant_cache *cache);
