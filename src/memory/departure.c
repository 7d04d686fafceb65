/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/departure.h"

#include "memory/section.h"
#include "memory/wait.h"

void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure)
{
    if (departure->number > 0) {
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &departure->cancelable);
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
    kiln_cache *cache = departure->cache;
    kilni_departure **link = &cache->departures;
    while (*link != departure) {
        link = &(*link)->next;
    }
    *link = departure->next;
    departure->number = 0;
    pthread_cond_broadcast(&cache->departed);
    pthread_setcancelstate(departure->cancelable, NULL);
}

bool kilni_cache_is_departing(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    const kilni_departure *departure = cache->departures;
    while (departure && departure->thread != kilni_thread_number()) {
        departure = departure->next;
    }
    pthread_mutex_unlock(&cache->lock);
    return departure != NULL;
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

/* Until a departure ends, or nothing is reclaimed any more. */
static void wait_locked(kiln_cache *cache)
{
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    pthread_cond_wait(&cache->departed, &cache->lock);
    pthread_setcancelstate(cancelable, NULL);
}

/* Until those are over that have begun. */
static void wait_for_departures_locked(kiln_cache *cache)
{
    uint64_t last = cache->last_departure;
    while (is_under_way_locked(cache, last)) {
        wait_locked(cache);
    }
}

/* Whether anything that was retired until then waits for a section. Who leaves the last of these
 * collects, and so there is a departure to wait for. Where nothing is reclaimed any more nothing is
 * waited for. */
static bool waits_for_sections_locked(const kiln_cache *cache, uint64_t last)
{
    return !cache->reclaims_nothing && cache->retired.first &&
           cache->retired.first->retired_at <= last;
}

void kilni_cache_settle(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    /* What is told of is retired after that, or destroyed. */
    wait_for_departures_locked(cache);
    uint64_t last = cache->last_retirement;
    for (;;) {
        /* What a fork has left, or a thread that ended in a destroy function, has nobody else who
         * would collect it. */
        kilni_section_collect_and_unlock(cache);
        kilni_cache_lock(cache);
        if (!waits_for_sections_locked(cache, last)) {
            break;
        }
        wait_locked(cache);
    }
    wait_for_departures_locked(cache);
    pthread_mutex_unlock(&cache->lock);
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
