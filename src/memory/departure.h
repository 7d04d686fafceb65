/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects on their way out: those that a thread has taken from the cache, to tell of them or to
 * destroy them once it holds no lock; and waiting until they are gone.
 */
#pragma once

#include "memory/memory.h"

/* One call's objects. On the stack of its thread; in the cache's list from the lock under which it
 * took the first of them until its last function of the user's has returned. Its thread can't be
 * cancelled as long as that; where such a function ends the thread or throws, a cleanup handler
 * ends the departure, and leaves to whoever comes next what was not destroyed. */
struct kilni_departure {
    kilni_departure *next;
    kiln_cache *cache;
    uint64_t number; /* in the order in which they began; 0: it is not under way */
    uint64_t thread;
    int cancelable; /* what the thread's state was */
};

/* Begins, where it has not begun yet. A thread's departures end in the opposite order. */
void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure);

/* Ends, where it has begun. */
void kilni_departure_end_locked(kilni_departure *departure);

/* Whether this thread is in a listener or a destroy function of this cache. No lock held. */
bool kilni_cache_is_departing(kiln_cache *cache);

/* Returns once all was destroyed that left the cache before this call and that no pin holds, by
 * whatever thread. In no section of this cache, with no lock held, and in no listener or destroy
 * function of a cache that whoever is waited for may settle: two that waited for each other would
 * never return. */
void kilni_cache_settle(kiln_cache *cache);

/* In a forked child: the departures of the threads that are gone are over. */
void kilni_departures_forget_threads_locked(kiln_cache *cache);
