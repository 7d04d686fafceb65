/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/process.h"

#include "memory/departure.h"
#include "memory/flight.h"
#include "memory/listener.h"
#include "memory/reader.h"
#include "memory/section.h"
#include "memory/wait.h"

/* Guards the list of caches. Taken before every cache's lock, each of which is taken before the
 * lock of the readers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t cache_count; /* caches created so far */
static kiln_cache *caches;   /* linked by kiln_cache.next and previous */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool handles_forks;

void kilni_process_add(kiln_cache *cache)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&cache->epoch, ++cache_count << KILNI_EPOCH_BITS, memory_order_relaxed);
    cache->next = caches;
    if (caches) {
        caches->previous = cache;
    }
    caches = cache;
    pthread_mutex_unlock(&lock);
}

void kilni_process_remove(kiln_cache *cache)
{
    pthread_mutex_lock(&lock);
    if (cache->next) {
        cache->next->previous = cache->previous;
    }
    *(cache->previous ? &cache->previous->next : &caches) = cache->next;
    pthread_mutex_unlock(&lock);
}

void kilni_process_end_thread(void)
{
    if (!kilni_thread_may_own_tickets()) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (kiln_cache *cache = caches; cache; cache = cache->next) {
        kilni_cache_lock(cache);
        kilni_flights_orphan_locked(cache, kilni_thread_number());
        pthread_mutex_unlock(&cache->lock);
    }
    pthread_mutex_unlock(&lock);
}

/* The depth of nested calls of the handlers below: if a process forks while they are being
 * registered, its child registers them again. */
static _Thread_local unsigned fork_depth;

static void before_fork(void)
{
    if (fork_depth++ > 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (kiln_cache *cache = caches; cache; cache = cache->next) {
        kilni_cache_lock(cache);
    }
    kilni_reader_before_fork();
}

static void unlock_all(void)
{
    for (kiln_cache *cache = caches; cache; cache = cache->next) {
        pthread_mutex_unlock(&cache->lock);
    }
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_parent(void)
{
    if (--fork_depth > 0) {
        return;
    }
    kilni_reader_after_fork_in_parent();
    unlock_all();
}

/* Flights of other threads go on in the parent. In the child they are taken out of the table, so
 * that the next thread that asks builds anew. Their memory stays, since pointers to it may remain.
 */
static void forget_flights_locked(kiln_cache *cache)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        kilni_flight *flight = (kilni_flight *)slot;
        if (slot->state == KILNI_SLOT_BUILDING && flight->owner != kilni_thread_number()) {
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
    for (kiln_cache *cache = caches; cache; cache = cache->next) {
        cache->waiters = NULL;
        atomic_store_explicit(&cache->lock_waiters, 0, memory_order_relaxed);
        forget_flights_locked(cache);
        kilni_listeners_forget_threads_locked(cache);
        kilni_departures_forget_threads_locked(cache);
        kilni_section_forget_threads_locked(cache);
    }
    unlock_all();
}

static void begin(void)
{
    handles_forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    if (handles_forks) {
        kilni_reader_begin();
    }
}

kiln_status kilni_process_begin(void)
{
    pthread_once(&once, begin);
    return handles_forks ? KILN_OK : KILN_E_NO_MEMORY;
}
