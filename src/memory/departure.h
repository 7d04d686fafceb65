/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects on their way out: those that a thread has taken from the cache, to tell of them or to
 * destroy them once it holds no lock; and waiting until they are gone.
 */
#pragma once

#include "memory/memory.h"

/* One call's objects. On the stack of its thread; in the cache's list from the lock under which it
 * took the first of them until its last function of the user's has returned. */
struct kilni_departure {
    kilni_departure *next;
    kiln_cache *cache;
    uint64_t number; /* in the order in which they began; 0: it has not begun */
    uint64_t thread;
};

/* Begins, where it has not begun yet. */
void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure);

/* Ends, where it has begun. */
void kilni_departure_end_locked(kilni_departure *departure);

/* The same with no lock held, of a kilni_departure: for pthread_cleanup_push, where a function of
 * the user's may end its thread or throw. The cache has another reference. */
void kilni_departure_end(void *departure);

/* Returns once all was destroyed that left the cache before this call and that no pin holds, by
 * whatever thread. Where this thread itself is in a listener or a destroy function, of whatever
 * cache, it doesn't wait: two that waited for each other would never return. In no section of this
 * cache, and with no lock held. */
void kilni_cache_settle(kiln_cache *cache);

/* In a forked child: the departures of the threads that are gone are over. */
void kilni_departures_forget_threads_locked(kiln_cache *cache);
