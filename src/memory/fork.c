/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/fork.h"

#include <pthread.h>

#include "memory/flight.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/notify.h"
#include "memory/read_section.h"
#include "memory/reader.h"
#include "memory/waiter.h"

/* The depth of nested calls of the handlers below. Calls nest if the handlers are registered twice.
 * This happens in a child if its parent forked while the parent was registering the handlers. */
static _Thread_local unsigned fork_depth;

static kiln_cache *forking; /* all caches, from before_fork to unlock_all */

static void before_fork(void)
{
    if (fork_depth++ > 0) {
        return;
    }
    forking = kilni_caches_lock();
    for (kiln_cache *cache = forking; cache; cache = cache->next) {
        kilni_cache_lock(cache);
    }
    kilni_notices_lock();
    kilni_reader_before_fork();
}

static void unlock_all(void)
{
    kilni_notices_unlock();
    for (kiln_cache *cache = forking; cache; cache = cache->next) {
        pthread_mutex_unlock(&cache->lock);
    }
    kilni_caches_unlock();
}

static void after_fork_in_parent(void)
{
    if (--fork_depth > 0) {
        return;
    }
    kilni_reader_after_fork_in_parent();
    unlock_all();
}

/* Flights of other threads continue in the parent. The child removes them from the table, so that
 * the next thread that asks for one of their keys builds it again. Their memory is not freed,
 * because there might still be pointers to it. */
static void forget_flights_locked(kiln_cache *cache)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        kilni_flight *flight = (kilni_flight *)slot;
        if (slot->state == KILNI_SLOT_BUILDING &&
            kilni_flight_owner(flight) != kilni_thread_number()) {
            kilni_flight_detach_locked(flight);
        }
    }
}

static void after_fork_in_child(void)
{
    if (--fork_depth > 0) {
        return;
    }
    kilni_reader_after_fork_in_child();
    for (kiln_cache *cache = forking; cache; cache = cache->next) {
        kilni_waiters_forget_threads_locked(cache);
        atomic_store_explicit(&cache->lock_waiters, 0, memory_order_relaxed);
        forget_flights_locked(cache);
        kilni_listeners_forget_threads_locked(cache);
        kilni_section_forget_threads_locked(cache);
    }
    unlock_all();
}

bool kilni_forks_handle(void)
{
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}
