/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/size.h"
#include "memory/flight.h"
#include "memory/object.h"
#include "memory/reader.h"
#include "os/clock.h"

/* On the waiting thread's stack, and in the cache's list until it is answered or gives up. */
struct kilni_waiter {
    kilni_waiter *next;
    uint64_t thread;
    uint64_t group;          /* of the object, if this thread comes to build it */
    kilni_flight *flight;    /* what it waits for; NULL once it has its answer */
    pthread_cond_t answered; /* with the cache's lock */
    kiln_status status;
    kiln_reservation reservation; /* with KILN_OK */
    kiln_error *error;            /* the caller's, may be NULL */
};

uint64_t kilni_thread_number(void)
{
    /* Not pthread_self, which is reused after a thread has ended, while the thread's tickets stay.
     */
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (number == 0) {
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return number;
}

static _Thread_local size_t own_tickets;

void kilni_thread_got_ticket(void)
{
    own_tickets++;
}

void kilni_thread_lost_ticket_of(const kilni_flight *flight)
{
    if (flight->owner == kilni_thread_number() && own_tickets > 0) {
        own_tickets--;
    }
}

bool kilni_thread_may_own_tickets(void)
{
    return own_tickets > 0;
}

/* ---- the list ---- */

static void append_locked(kiln_cache *cache, kilni_waiter *waiter)
{
    kilni_waiter **end = &cache->waiters;
    while (*end) {
        end = &(*end)->next;
    }
    *end = waiter;
}

static void remove_locked(kiln_cache *cache, kilni_waiter *waiter)
{
    kilni_waiter **link = &cache->waiters;
    while (*link != waiter) {
        link = &(*link)->next;
    }
    *link = waiter->next;
}

/* Returns the waiter that has waited longest for a flight, or NULL. */
static kilni_waiter *first_of(const kilni_flight *flight)
{
    kilni_waiter *waiter = flight->cache->waiters;
    while (waiter && waiter->flight != flight) {
        waiter = waiter->next;
    }
    return waiter;
}

/* ---- cycles ---- */

/* Returns what a thread waits for in this cache, or NULL. */
static const kilni_flight *awaited_by(const kiln_cache *cache, uint64_t thread)
{
    const kilni_waiter *waiter = cache->waiters;
    while (waiter && waiter->thread != thread) {
        waiter = waiter->next;
    }
    return waiter ? waiter->flight : NULL;
}

/* Whether the owner of @flight is @thread, or waits, directly or through others, for what @thread
 * owns. */
static bool waits_for_thread(const kiln_cache *cache, const kilni_flight *flight, uint64_t thread)
{
    while (flight && flight->owner != thread) {
        flight = awaited_by(cache, flight->owner);
    }
    return flight != NULL;
}

/* Appends a key's short digest, and its part "name" if it has one. */
static void append_key(char *text, size_t size, const kiln_key *key)
{
    char digest[KILN_DIGEST_TEXT_SIZE];
    kiln_digest whole = kiln_key_digest(key);
    kiln_digest_format(&whole, digest);
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%.12s", digest);
    for (size_t i = 0; i < kiln_key_part_count(key); i++) {
        kiln_key_part part;
        if (kiln_key_part_at(key, i, &part) == KILN_OK && strcmp(part.name, "name") == 0 &&
            part.bytes) {
            int shown = part.size < 40 ? (int)part.size : 40;
            length = strlen(text);
            snprintf(text + length, size - length, " (%.*s)", shown, (const char *)part.bytes);
            break;
        }
    }
}

static kiln_status describe_cycle(const kilni_flight *wanted, uint64_t thread, kiln_error *error)
{
    char text[sizeof error->text] = "";
    const kilni_flight *flight = wanted;
    for (;;) {
        append_key(text, sizeof text, flight->slot.key);
        strncat(text, " -> ", sizeof text - strlen(text) - 1);
        if (flight->owner == thread) {
            break;
        }
        flight = awaited_by(wanted->cache, flight->owner);
    }
    append_key(text, sizeof text, wanted->slot.key);
    return kilni_error_set(error, KILN_E_CYCLE, 0, "the build waits for itself: %s", text);
}

/* ---- waiting ---- */

static kiln_status init_waiter(kilni_waiter *waiter)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) {
        return KILN_E_NO_MEMORY;
    }
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&waiter->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return failed ? KILN_E_NO_MEMORY : KILN_OK;
}

/* Returns the time @wait_ns from now, or the latest that a clock can say. */
static struct timespec deadline_after(uint64_t wait_ns)
{
    const uint64_t second = 1000000000;
    uint64_t deadline_ns;
    if (!kilni_u64_add(kilni_clock_ns(), wait_ns, &deadline_ns)) {
        deadline_ns = UINT64_MAX;
    }
    return (struct timespec){.tv_sec = (time_t)(deadline_ns / second),
                             .tv_nsec = (long)(deadline_ns % second)};
}

/* Sleeps until the waiter has its answer or its time is over, whichever is seen first under the
 * lock: an answer given meanwhile is never lost. */
static void sleep_locked(kiln_cache *cache, kilni_waiter *waiter, uint64_t wait_ns)
{
    struct timespec deadline = deadline_after(wait_ns);
    int result = 0;
    /* A thread cancelled here would leave its waiter in the list, and the lock taken. */
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    while (waiter->flight && result != ETIMEDOUT) {
        result = wait_ns == 0 || wait_ns == KILN_UNLIMITED
                     ? pthread_cond_wait(&waiter->answered, &cache->lock)
                     : pthread_cond_timedwait(&waiter->answered, &cache->lock, &deadline);
    }
    pthread_setcancelstate(cancelable, NULL);
}

/* Counts a waiter's answer. A hit is counted by the callers that pass it on. */
static void count_answer_locked(kiln_cache *cache, const kilni_waiter *waiter)
{
    if (waiter->status != KILN_OK) {
        return;
    }
    if (waiter->reservation.outcome == KILN_OWNER) {
        kilni_thread_got_ticket();
        kilni_counter_add(&cache->counters, KILNI_COUNTER_MISSES, kilni_reader_number());
    } else if (waiter->reservation.outcome == KILN_BYPASS) {
        cache->bypasses++;
    }
}

kiln_status kilni_wait_locked(kilni_flight *flight, const kiln_reserve_params *params,
                              kiln_reservation *ret_reservation, kiln_error *error)
{
    if (params->wait_ns == KILN_NO_WAIT) {
        return KILN_TIMEOUT;
    }
    kiln_cache *cache = flight->cache;
    kilni_waiter waiter = {
        .thread = kilni_thread_number(), .group = params->group, .flight = flight, .error = error};
    if (waits_for_thread(cache, flight, waiter.thread)) {
        return describe_cycle(flight, waiter.thread, error);
    }
    kiln_status status = kilni_flight_allow_group_locked(flight, params->group);
    if (status == KILN_OK) {
        status = init_waiter(&waiter);
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    cache->waits++;
    append_locked(cache, &waiter);
    sleep_locked(cache, &waiter, params->wait_ns);
    if (waiter.flight) {
        remove_locked(cache, &waiter);
        waiter.status = KILN_TIMEOUT;
    } else {
        count_answer_locked(cache, &waiter);
    }
    pthread_cond_destroy(&waiter.answered);
    if (waiter.status == KILN_OK) {
        *ret_reservation = waiter.reservation;
    }
    return waiter.status;
}

/* ---- answering ---- */

/* The waiter's stack stays valid: its thread can't return before the lock is free. */
static void answer_locked(kiln_cache *cache, kilni_waiter *waiter, kiln_status status,
                          kiln_reservation reservation)
{
    remove_locked(cache, waiter);
    waiter->flight = NULL;
    waiter->status = status;
    waiter->reservation = reservation;
    pthread_cond_signal(&waiter->answered);
}

void kilni_wait_pin_all_locked(const kilni_flight *flight, kilni_object *object)
{
    kilni_waiter *waiter;
    while ((waiter = first_of(flight))) {
        kilni_object_hold(object);
        answer_locked(flight->cache, waiter, KILN_OK,
                      (kiln_reservation){.outcome = KILN_HIT, .pin = object});
    }
}

void kilni_wait_bypass_all_locked(const kilni_flight *flight)
{
    kilni_waiter *waiter;
    while ((waiter = first_of(flight))) {
        answer_locked(flight->cache, waiter, KILN_OK, (kiln_reservation){.outcome = KILN_BYPASS});
    }
}

void kilni_wait_fail_all_locked(const kilni_flight *flight)
{
    kilni_waiter *waiter;
    while ((waiter = first_of(flight))) {
        kilni_error_set(waiter->error, flight->failure, 0, "%s", flight->text);
        answer_locked(flight->cache, waiter, flight->failure, (kiln_reservation){0});
    }
}

bool kilni_wait_hand_over_locked(kilni_flight *flight)
{
    kilni_waiter *waiter = first_of(flight);
    if (!waiter) {
        return false;
    }
    flight->owner = waiter->thread;
    flight->slot.group = flight->object->slot.group = waiter->group;
    flight->started_ns = kilni_clock_ns();
    answer_locked(flight->cache, waiter, KILN_OK,
                  (kiln_reservation){.outcome = KILN_OWNER, .ticket = flight});
    return true;
}

bool kilni_wait_has_any_locked(const kilni_flight *flight)
{
    return first_of(flight) != NULL;
}

kilni_flight *kilni_wait_flight_of_locked(const kiln_cache *cache, uint64_t thread)
{
    const kilni_waiter *waiter = cache->waiters;
    while (waiter && waiter->flight->owner != thread) {
        waiter = waiter->next;
    }
    return waiter ? waiter->flight : NULL;
}

void kilni_wait_move_all_locked(const kilni_flight *from, kilni_flight *to)
{
    kilni_waiter *waiter;
    while ((waiter = first_of(from))) {
        waiter->flight = to;
    }
}
