/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/departure.h"

#include "memory/section.h"
#include "memory/wait.h"

/* Departures that this thread is in, of all caches. */
static _Thread_local size_t own_departures;

void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure)
{
    if (departure->number > 0) {
        return;
    }
    own_departures++;
    departure->cache = cache;
    departure->number = ++cache->last_departure;
    departure->thread = kilni_thread_number();
    departure->next = cache->departures;
    cache->departures = departure;
}

void kilni_departure_end_locked(kilni_departure *departure)
{
    if (departure->number == 0) {
        return;
    }
    own_departures--;
    kiln_cache *cache = departure->cache;
    kilni_departure **link = &cache->departures;
    while (*link != departure) {
        link = &(*link)->next;
    }
    *link = departure->next;
    pthread_cond_broadcast(&cache->departed);
}

void kilni_departure_end(void *departure)
{
    kilni_departure *ending = departure;
    if (ending->number > 0) {
        pthread_mutex_lock(&ending->cache->lock);
        kilni_departure_end_locked(ending);
        pthread_mutex_unlock(&ending->cache->lock);
    }
}

/* ---- waiting ---- */

/* The list has the newest first. */
static bool is_under_way_locked(const kiln_cache *cache, uint64_t last)
{
    const kilni_departure *departure = cache->departures;
    while (departure && departure->number > last) {
        departure = departure->next;
    }
    return departure != NULL;
}

/* Until those are over that have begun. */
static void wait_for_departures_locked(kiln_cache *cache)
{
    uint64_t last = cache->last_departure;
    while (is_under_way_locked(cache, last)) {
        pthread_cond_wait(&cache->departed, &cache->lock);
    }
}

/* Until nothing of what was retired waits for a section. Who leaves the last of these collects, and
 * so there is a departure to wait for. Where nothing is reclaimed any more nothing is waited for.
 */
static void wait_for_sections_locked(kiln_cache *cache)
{
    uint64_t last = cache->last_retirement;
    while (!cache->reclaims_nothing && cache->retired.first &&
           cache->retired.first->retired_at <= last) {
        pthread_cond_wait(&cache->departed, &cache->lock);
    }
}

void kilni_cache_settle(kiln_cache *cache)
{
    if (own_departures > 0) {
        return;
    }
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    pthread_mutex_lock(&cache->lock);
    /* What is told of is retired after that, or destroyed. */
    wait_for_departures_locked(cache);
    /* What a fork has left has nobody else who would collect it. */
    kilni_section_collect_and_unlock(cache);
    pthread_mutex_lock(&cache->lock);
    wait_for_sections_locked(cache);
    wait_for_departures_locked(cache);
    pthread_mutex_unlock(&cache->lock);
    pthread_setcancelstate(cancelable, NULL);
}

/* ---- forks ---- */

void kilni_departures_forget_threads_locked(kiln_cache *cache)
{
    /* Anew: nobody waits for it here, whatever it remembers. */
    pthread_cond_init(&cache->departed, NULL);
    kilni_departure **link = &cache->departures;
    while (*link) {
        if ((*link)->thread == kilni_thread_number()) {
            link = &(*link)->next;
        } else {
            *link = (*link)->next;
        }
    }
}
