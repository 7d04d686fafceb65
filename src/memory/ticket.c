/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends tickets, either with an object or with a failure.
 */
#include <stdio.h>

#include "memory/evict.h"
#include "memory/failure.h"
#include "memory/flight.h"
#include "memory/lifetime.h"
#include "memory/notice.h"
#include "memory/notify.h"
#include "memory/read_section.h"
#include "memory/reader.h"
#include "memory/waiter.h"
#include "os/clock.h"

kiln_status kiln_ticket_fulfil(kiln_ticket **ticket, void *object, uint64_t bytes, uint64_t cost_ns,
                               kiln_pin **ret_pin)
{
    if (!ticket || !*ticket || !object) {
        return KILN_E_INVALID;
    }
    kilni_flight *flight = *ticket;
    *ticket = NULL;
    kiln_cache *cache = flight->cache;
    if (cost_ns == 0) {
        cost_ns = kilni_clock_ns() - flight->started_ns;
    }
    kilni_followup followup = {0};
    kilni_cache_lock(cache);
    /* The flight stays attached while room is made, so that no other thread builds its key. */
    if (flight->attached) {
        kilni_make_room_locked(cache, bytes, &followup);
    }
    kilni_thread_lost_ticket_of(flight);
    kilni_object *made = flight->object;
    flight->object = NULL;
    bool kept = flight->attached;
    kilni_flight_detach_locked(flight);
    kilni_object_fill_locked(made, object, bytes, cost_ns);
    if (kept) {
        kilni_admit_locked(made);
    }
    kilni_wait_pin_all_locked(flight, made);
    if (ret_pin) {
        kilni_object_hold(made);
        *ret_pin = made;
    }
    /* @followup takes over the flight's hold. */
    kilni_followup_keep_locked(&followup, made,
                               kilni_object_is_resident(made) ? KILN_EVENT_INSERTED : 0);
    kilni_followup_finish_and_unlock(cache, &followup);
    kilni_flight_free(flight);
    kilni_notices_send();
    return KILN_OK;
}

kiln_status kiln_ticket_take(kiln_ticket *ticket)
{
    if (!ticket) {
        return KILN_E_INVALID;
    }
    if (!kilni_reader_ensure()) {
        return KILN_E_NO_MEMORY;
    }
    kilni_cache_lock(ticket->cache);
    if (kilni_flight_owner(ticket) != kilni_thread_number()) {
        kilni_flight_set_owner(ticket, kilni_thread_number());
        kilni_thread_got_ticket();
    }
    pthread_mutex_unlock(&ticket->cache->lock);
    return KILN_OK;
}

/* Answers all waiters with the failure. */
static void fail_locked(kilni_flight *flight, kiln_status status, const char *text)
{
    /* If the status is success, but there is no object, this is also a failure. */
    flight->failure = status != KILN_OK ? status : KILN_E_INVALID;
    snprintf(flight->text, sizeof flight->text, "%s",
             text ? text : kiln_status_text(flight->failure));
    kilni_wait_fail_all_locked(flight);
}

/* Lets one waiter build. Does so only once after a transient failure, but as often as needed after
 * failures that concern only their owners. Returns true if the flight continues. */
static bool retry_locked(kilni_flight *flight, kiln_status status, const char *text)
{
    if (flight->is_retry && status != KILN_OK) {
        fail_locked(flight, status, text);
        return false;
    }
    flight->is_retry = flight->is_retry || status != KILN_OK;
    return kilni_wait_hand_over_locked(flight);
}

/* Returns true if the flight has ended, false if it continues or its failure is kept. */
static bool abandon_locked(kilni_flight *flight, kiln_abandonment how, kiln_status status,
                           const char *text)
{
    if (how != KILN_ABANDON_UNSHAREABLE) {
        flight->cache->failures++;
    }
    if (how == KILN_ABANDON_UNSHAREABLE) {
        kilni_wait_bypass_all_locked(flight);
    } else if (how == KILN_ABANDON_TRANSIENT) {
        if (retry_locked(flight, status, text)) {
            return false;
        }
    } else {
        fail_locked(flight, status, text);
        if (flight->attached && flight->cache->retains_failures) {
            kilni_flight_detach_locked(flight);
            kilni_failure_keep_locked(flight);
            return false;
        }
    }
    kilni_flight_detach_locked(flight);
    return true;
}

void kiln_ticket_abandon(kiln_ticket **ticket, kiln_abandonment how, kiln_status status,
                         const char *text)
{
    if (!ticket || !*ticket) {
        return;
    }
    kilni_flight *flight = *ticket;
    *ticket = NULL;
    kiln_cache *cache = flight->cache;
    kilni_cache_lock(cache);
    kilni_thread_lost_ticket_of(flight);
    bool gone = abandon_locked(flight, how, status, text);
    /* Also frees cells that were replaced to make room for a flight that yielded no object. */
    kilni_section_collect_and_unlock(cache);
    if (gone) {
        kilni_flight_free(flight);
    }
    kilni_notices_send();
}
