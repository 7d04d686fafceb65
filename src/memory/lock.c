/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of a cache, and how a long call gives it up.
 */
#include <sched.h>

#include "memory/memory.h"

void kilni_cache_lock(kiln_cache *cache)
{
    if (pthread_mutex_trylock(&cache->lock) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&cache->lock_waiters, 1, memory_order_relaxed);
    pthread_mutex_lock(&cache->lock);
    atomic_fetch_sub_explicit(&cache->lock_waiters, 1, memory_order_relaxed);
}

void kilni_cache_step_locked(kiln_cache *cache, size_t *step)
{
    /* A mutex favours a running thread over one that must wake up first. So this thread stays away
     * until a waiter has the lock, but not for longer than a wake-up takes. */
    enum { PATIENCE = 256 };
    if (++*step % KILNI_STEPS != 0) {
        return;
    }
    pthread_mutex_unlock(&cache->lock);
    for (int i = 0;
         i < PATIENCE && atomic_load_explicit(&cache->lock_waiters, memory_order_relaxed) > 0;
         i++) {
        sched_yield();
    }
    kilni_cache_lock(cache);
}
