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

/* The list has the newest departure first. */
static bool is_under_way_locked(const kiln_cache *cache, uint64_t last)
{
    const kilni_departure *departure = cache->departures;
    while (departure && departure->number > last) {
        departure = departure->next;
    }
    return departure != NULL;
}

/* Waits until a departure ends, or nothing is reclaimed any longer. */
static void wait_locked(kiln_cache *cache)
{
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    pthread_cond_wait(&cache->departed, &cache->lock);
    pthread_setcancelstate(cancelable, NULL);
}

/* Waits until the departures that have begun are over. */
static void wait_for_departures_locked(kiln_cache *cache)
{
    uint64_t last = cache->last_departure;
    while (is_under_way_locked(cache, last)) {
        wait_locked(cache);
    }
}

/* Whether anything that was retired up to @last still waits for a section. The thread that leaves
 * the last of these sections collects, so there will be a departure to wait for. If nothing is
 * reclaimed any longer, nothing is waited for. */
static bool waits_for_sections_locked(const kiln_cache *cache, uint64_t last)
{
    return !cache->reclaims_nothing && cache->retired.first &&
           cache->retired.first->retired_at <= last;
}

void kilni_cache_settle(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    /* Objects that are being reported are retired, or destroyed, before their departures end. */
    wait_for_departures_locked(cache);
    uint64_t last = cache->last_retirement;
    for (;;) {
        /* No other thread would collect what was left by a fork, or by a thread that ended in a
         * destroy function. */
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
    /* Initialized again: no thread of the child waits for it, whatever state it was copied in. */
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
