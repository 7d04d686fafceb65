/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/waiter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/size.h"
#include "memory/flight.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/reader.h"
#include "os/clock.h"

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

/* Returns the first waiter of a flight, or NULL. */
static kilni_waiter *first_of(const kilni_flight *flight)
{
    kilni_waiter *waiter = flight->cache->waiters;
    while (waiter && waiter->flight != flight) {
        waiter = waiter->next;
    }
    return waiter;
}

/* Returns the thread that has waited longest for a flight, or NULL. */
static kilni_waiter *first_thread_of(const kilni_flight *flight)
{
    kilni_waiter *waiter = flight->cache->waiters;
    while (waiter && (waiter->flight != flight || waiter->thread == KILNI_NOBODY)) {
        waiter = waiter->next;
    }
    return waiter;
}

bool kilni_wait_has_thread(const kilni_flight *flight)
{
    return first_thread_of(flight) != NULL;
}

/* ---- waits of all caches ---- */

enum { WAIT_LISTS = 64 };

/* Guards the lists of waits, and the flights for which waiters in these lists wait. A thread takes
 * this lock only while it holds a cache's lock, so that no thread holds it when the process forks.
 * A flight is not freed while a waiter in a list waits for it. */
static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER;
static kilni_waiter *waits[WAIT_LISTS]; /* threads that wait, by number */

static kilni_waiter **list_of(uint64_t thread)
{
    return &waits[thread % WAIT_LISTS];
}

/* Returns the flight for which a thread waits, or NULL. */
static const kilni_flight *awaited_by(uint64_t thread)
{
    const kilni_waiter *waiter = *list_of(thread);
    while (waiter && waiter->thread != thread) {
        waiter = waiter->next_wait;
    }
    return waiter ? waiter->flight : NULL;
}

/* Returns true if @thread owns @flight, or if the owner of @flight waits for a flight that @thread
 * owns. The owner can also wait indirectly, through other threads and in any caches. */
static bool waits_for_thread(const kilni_flight *flight, uint64_t thread)
{
    while (flight && kilni_flight_owner(flight) != thread) {
        flight = awaited_by(kilni_flight_owner(flight));
    }
    return flight != NULL;
}

static void end_wait(kilni_waiter *waiter)
{
    kilni_waiter **link = list_of(waiter->thread);
    while (*link != waiter) {
        link = &(*link)->next_wait;
    }
    *link = waiter->next_wait;
}

/* Appends the short digest of a key. If the key has a part "name", appends that part too. */
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
        if (kilni_flight_owner(flight) == thread) {
            break;
        }
        flight = awaited_by(kilni_flight_owner(flight));
    }
    append_key(text, sizeof text, wanted->slot.key);
    return kilni_error_set(error, KILN_E_CYCLE, 0, "the build waits for itself: %s", text);
}

/* Adds a thread that is about to wait to the lists of waits, unless it would wait for itself.
 * Returns KILN_OK; KILN_E_CYCLE. */
static kiln_status begin_wait(kilni_waiter *waiter)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&waits_lock);
    if (waits_for_thread(waiter->flight, waiter->thread)) {
        status = describe_cycle(waiter->flight, waiter->thread, waiter->error);
    } else {
        waiter->next_wait = *list_of(waiter->thread);
        *list_of(waiter->thread) = waiter;
    }
    pthread_mutex_unlock(&waits_lock);
    return status;
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

/* Returns the time @wait_ns from now, or the latest time that can be represented. */
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

/* Sleeps until the waiter has its answer or the time to wait is over. The thread checks both
 * conditions under the lock, so it never misses an answer. */
static void sleep_locked(kiln_cache *cache, kilni_waiter *waiter, uint64_t wait_ns)
{
    struct timespec deadline = deadline_after(wait_ns);
    int result = 0;
    /* If the thread were cancelled here, its waiter would stay in the list, and the lock would stay
     * locked. */
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    while (waiter->flight && result != ETIMEDOUT) {
        result = wait_ns == 0 || wait_ns == KILN_UNLIMITED
                     ? pthread_cond_wait(&waiter->answered, &cache->lock)
                     : pthread_cond_timedwait(&waiter->answered, &cache->lock, &deadline);
    }
    pthread_setcancelstate(cancelable, NULL);
}

/* Counts a waiter's answer. A hit is not counted here: the caller that passes the hit on counts it.
 */
static void count_answer_locked(kiln_cache *cache, const kilni_waiter *waiter)
{
    if (waiter->status != KILN_OK) {
        return;
    }
    if (waiter->reservation.outcome == KILN_OWNER) {
        kilni_thread_got_ticket();
        kilni_count(cache, KILNI_COUNTER_MISSES);
    } else if (waiter->reservation.outcome == KILN_BYPASS) {
        cache->bypasses++;
    }
}

static void give_up_locked(kiln_cache *cache, kilni_waiter *waiter)
{
    remove_locked(cache, waiter);
    pthread_mutex_lock(&waits_lock);
    end_wait(waiter);
    pthread_mutex_unlock(&waits_lock);
    waiter->status = KILN_TIMEOUT;
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
    kiln_status status = kilni_flight_allow_group_locked(flight, params->group);
    if (status == KILN_OK) {
        status = init_waiter(&waiter);
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    status = begin_wait(&waiter);
    if (status == KILN_OK) {
        cache->waits++;
        append_locked(cache, &waiter);
        sleep_locked(cache, &waiter, params->wait_ns);
        if (waiter.flight) {
            give_up_locked(cache, &waiter);
        } else {
            count_answer_locked(cache, &waiter);
        }
        status = waiter.status;
    }
    pthread_cond_destroy(&waiter.answered);
    if (status == KILN_OK) {
        *ret_reservation = waiter.reservation;
    }
    return status;
}

kiln_status kilni_pending_new_locked(kilni_flight *flight, const kiln_reserve_params *params,
                                     kiln_pending **ret_pending)
{
    kiln_pending *pending = calloc(1, sizeof *pending);
    if (!pending) {
        return KILN_E_NO_MEMORY;
    }
    pending->params = *params;
    pending->params.flags &= ~(uint32_t)KILN_RESERVE_PENDING;
    pending->error.struct_size = sizeof pending->error;
    pending->waiter =
        (kilni_waiter){.thread = KILNI_NOBODY, .group = params->group, .error = &pending->error};
    const kiln_status status = kilni_flight_allow_group_locked(flight, params->group);
    if (status != KILN_OK) {
        free(pending);
        return status;
    }
    pending->waiter.flight = flight;
    append_locked(flight->cache, &pending->waiter);
    pending->cache = kilni_cache_retain(flight->cache);
    pending->key = kiln_key_retain(flight->slot.key);
    *ret_pending = pending;
    return KILN_OK;
}

void kilni_pending_detach_locked(kiln_pending *pending)
{
    remove_locked(pending->cache, &pending->waiter);
    pending->waiter.flight = NULL;
}

/* ---- answering ---- */

/* Gives a waiter its answer. The waiter is on the stack of its thread. It stays valid, because that
 * thread can't return before the lock is free. */
static void answer_locked(kiln_cache *cache, kilni_waiter *waiter, kiln_status status,
                          kiln_reservation reservation)
{
    remove_locked(cache, waiter);
    pthread_mutex_lock(&waits_lock);
    if (reservation.ticket) {
        /* The same lock is held while the owner is set and while its wait is ended. Otherwise, a
         * thread that searches for a cycle could find the owner waiting for its own flight, and the
         * search would not end. */
        kilni_flight_set_owner(reservation.ticket, waiter->thread);
    }
    waiter->flight = NULL;
    if (waiter->thread != KILNI_NOBODY) {
        end_wait(waiter);
    }
    pthread_mutex_unlock(&waits_lock);
    kilni_notice_add(&waiter->notice);
    waiter->status = status;
    waiter->reservation = reservation;
    if (waiter->thread != KILNI_NOBODY) {
        pthread_cond_signal(&waiter->answered);
    }
}

void kilni_wait_ask_again_locked(const kilni_flight *flight)
{
    kilni_waiter *waiter;
    while ((waiter = first_of(flight))) {
        answer_locked(flight->cache, waiter, KILN_BUSY, (kiln_reservation){0});
    }
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
    kilni_waiter *waiter = first_thread_of(flight);
    if (!waiter) {
        kilni_wait_ask_again_locked(flight);
        return false;
    }
    flight->group = waiter->group;
    if (flight->object->slot.can_have_group) {
        kilni_group_links_of(flight->object)->group = waiter->group;
    }
    flight->started_ns = kilni_clock_ns();
    answer_locked(flight->cache, waiter, KILN_OK,
                  (kiln_reservation){.outcome = KILN_OWNER, .ticket = flight});
    return true;
}

void kilni_wait_move_all_locked(const kilni_flight *from, kilni_flight *to)
{
    kilni_waiter *waiter;
    pthread_mutex_lock(&waits_lock);
    while ((waiter = first_of(from))) {
        waiter->flight = to;
    }
    pthread_mutex_unlock(&waits_lock);
}

/* ---- forks ---- */

void kilni_waiters_forget_threads_locked(kiln_cache *cache)
{
    memset(waits, 0, sizeof waits);
    kilni_waiter **link = &cache->waiters;
    while (*link) {
        kilni_waiter *waiter = *link;
        if (waiter->thread == KILNI_NOBODY &&
            kilni_flight_owner(waiter->flight) == kilni_thread_number()) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        /* Waiters on the stacks of the parent's threads are not touched. */
        if (waiter->thread == KILNI_NOBODY) {
            waiter->flight = NULL;
            waiter->status = KILN_BUSY;
        }
    }
}
