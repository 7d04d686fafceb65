/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects on their way out: a thread has taken them from the cache, to report their eviction or to
 * destroy them once it holds no lock. Other threads can wait until these objects are gone.
 */
#pragma once

#include "memory/memory.h"

/* One call's objects. The structure is on the stack of its thread. It is in the cache's list from
 * the lock under which the thread took the first object until the last of the user's functions has
 * returned. During that time the thread can't be cancelled. If one of these functions ends the
 * thread or throws, a cleanup handler ends the departure, and leaves the objects that were not
 * destroyed to the next thread that collects. */
struct kilni_departure {
    kilni_departure *next;
    kiln_cache *cache;
    uint64_t number; /* in the order in which departures began; 0: not under way */
    uint64_t thread;
    int cancelable; /* the thread's cancelability before */
};

/* Begins a departure, unless it has begun. A thread's departures end in the opposite order. */
void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure);

/* Ends a departure, if it has begun. */
void kilni_departure_end_locked(kilni_departure *departure);

/* Whether this thread is in a listener or a destroy function of this cache. No lock held. */
bool kilni_cache_is_departing(kiln_cache *cache);

/* Returns once every object has been destroyed that left the cache before this call, on any thread,
 * and that no pin holds. Must be called in no section of this cache and with no lock held, and not
 * in a listener or destroy function of a cache that a thread waited for may itself settle: two
 * threads that waited for each other would never return. */
void kilni_cache_settle(kiln_cache *cache);

/* In a forked child: ends the departures of the parent's other threads. */
void kilni_departures_forget_threads_locked(kiln_cache *cache);
