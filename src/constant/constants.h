/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the constant tensor cache share: the limits that were set, and the caches of
 * this process.
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
    /* The limits that a user set for the handle before a backend bound it, and when, as a value of
     * @sets. */
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

    /* How many requests were for a constant of zero bytes, and how many found the constant with a
     * different size. Accessed with relaxed memory order, because these are only counters. */
    _Atomic uint64_t empties, misfits;
};

struct kilni_constants {
    /* Guards the members below, unless their comments say otherwise. A thread that holds the lock
     * calls no function of the engine or of a backend, and so never waits for another lock. */
    pthread_mutex_t lock;
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS];
    /* When the limits of each kind were last set. The clock is @sets, which counts how often the
     * limits of a kind, or of a handle that is not bound, were set. */
    uint64_t set_at[KILNI_CONSTANT_KINDS], sets;
    kilni_constant_binding *bindings;
    /* Grows at its head: stored with release under the lock, read with acquire without it. */
    _Atomic(kiln_constant_cache *) caches;
};

/* Returns the state of this process; NULL: out of memory. Initially there is no limit and no
 * eviction. */
kilni_constants *kilni_constants_get(void);

/* Returns the first cache in the list, or NULL if there is none. The caller need not hold the
 * lock. */
kiln_constant_cache *kilni_constant_cache_first(const kilni_constants *constants);

/* Waits until all constants that left a cache before the call are freed, except pinned ones. Does
 * not wait if the calling thread is inside a backend function that one of the caches called,
 * because two such threads could wait for each other forever. The caller holds no lock. */
void kilni_constants_settle(kiln_constant_cache *cache);
