/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/flight.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/params.h"
#include "memory/admission.h"
#include "memory/failure.h"
#include "memory/object.h"
#include "memory/reader.h"
#include "memory/section.h"
#include "memory/wait.h"
#include "os/clock.h"

static kiln_status flight_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                              kilni_flight **ret_flight)
{
    kilni_flight *flight = kilni_slot_calloc(sizeof *flight);
    if (!flight) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = kilni_object_new(cache, key, group, &flight->object);
    if (status != KILN_OK) {
        free(flight);
        return status;
    }
    kilni_slot_init(&flight->slot, key, group, KILNI_SLOT_BUILDING);
    flight->cache = cache;
    *ret_flight = flight;
    return KILN_OK;
}

kiln_status kilni_flight_allow_group_locked(kilni_flight *flight, uint64_t group)
{
    if (group == 0 || flight->object->slot.can_have_group) {
        return KILN_OK;
    }
    kilni_object *place;
    const kiln_status status = kilni_object_new(flight->cache, flight->slot.key, group, &place);
    if (status == KILN_OK) {
        place->slot.group = flight->slot.group;
        kilni_object_free(flight->object);
        flight->object = place;
    }
    return status;
}

void kilni_flight_free(kilni_flight *flight)
{
    kiln_key_release(&flight->slot.key);
    if (flight->object) {
        kilni_object_free(flight->object);
    }
    free(flight);
}

static void attach_locked(kilni_flight *flight, uint64_t bytes)
{
    kiln_cache *cache = flight->cache;
    kilni_table_insert(&cache->pending, &flight->slot);
    flight->attached = true;
    flight->reserved_bytes = bytes;
    cache->flights++;
    cache->reserved_bytes += bytes;
}

void kilni_flight_detach_locked(kilni_flight *flight)
{
    kiln_cache *cache = flight->cache;
    if (!flight->attached) {
        return;
    }
    kilni_table_remove(&cache->pending, &flight->slot);
    flight->attached = false;
    cache->flights--;
    cache->reserved_bytes -= flight->reserved_bytes;
}

/* ---- reserving ---- */

static kiln_status bypass_locked(kiln_cache *cache, kiln_reservation *ret_reservation)
{
    cache->bypasses++;
    *ret_reservation = (kiln_reservation){.outcome = KILN_BYPASS};
    return KILN_OK;
}

static kiln_status hit_locked(kilni_object *object, kiln_reservation *ret_reservation)
{
    kilni_object_hold(object);
    *ret_reservation = (kiln_reservation){.outcome = KILN_HIT, .pin = object};
    return KILN_OK;
}

/* Makes room in the tables for all flights and the objects that they yield, so that ending a flight
 * needs no memory. */
static kiln_status reserve_tables_locked(kiln_cache *cache)
{
    size_t flights = cache->pending.slot_count + 1;
    kilni_cells *replaced;
    kiln_status status = kilni_table_reserve(&cache->pending, flights, &replaced);
    free(replaced);
    if (status != KILN_OK) {
        return status;
    }
    size_t ready = cache->ready.slot_count + flights;
    status = kilni_table_reserve(&cache->ready, ready, &replaced);
    kilni_section_retire_cells_locked(cache, replaced);
    return status == KILN_OK ? kilni_residents_reserve(&cache->residents, ready) : status;
}

static kiln_status begin_locked(kiln_cache *cache, const kiln_key *key,
                                const kiln_reserve_params *params,
                                kiln_reservation *ret_reservation, kiln_error *error)
{
    if (!kilni_may_begin_locked(cache, params->bytes)) {
        return bypass_locked(cache, ret_reservation);
    }
    kilni_flight *flight;
    kiln_status status = reserve_tables_locked(cache);
    if (status == KILN_OK) {
        status = flight_new(cache, key, params->group, &flight);
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    flight->owner = kilni_thread_number();
    kilni_thread_got_ticket();
    flight->started_ns = kilni_clock_ns();
    attach_locked(flight, params->bytes);
    kilni_counter_add(&cache->counters, KILNI_COUNTER_MISSES, kilni_reader_number());
    *ret_reservation = (kiln_reservation){.outcome = KILN_OWNER, .ticket = flight};
    return KILN_OK;
}

static kiln_status reserve_locked(kiln_cache *cache, const kiln_key *key,
                                  const kiln_reserve_params *params,
                                  kiln_reservation *ret_reservation, kiln_error *error)
{
    if (cache->disabled) {
        return bypass_locked(cache, ret_reservation);
    }
    kilni_object *object = kilni_cache_find(cache, key);
    if (object) {
        return hit_locked(object, ret_reservation);
    }
    kilni_flight *flight = (kilni_flight *)kilni_table_find(&cache->pending, key);
    if (flight && flight->slot.state == KILNI_SLOT_BUILDING && flight->owner == KILNI_NOBODY) {
        kilni_flight_detach_locked(flight);
        flight = NULL;
    }
    if (!flight) {
        return begin_locked(cache, key, params, ret_reservation, error);
    }
    if (flight->slot.state == KILNI_SLOT_FAILED) {
        return kilni_error_set(error, flight->failure, 0, "%s", flight->text);
    }
    return kilni_wait_locked(flight, params, ret_reservation, error);
}

kiln_status kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                               const kiln_reserve_params *params, kiln_reservation *ret_reservation,
                               kiln_error *error)
{
    kiln_reserve_params known;
    if (!cache || !key || !ret_reservation ||
        kilni_params_copy(params, &known, sizeof known) != KILN_OK) {
        return kilni_error_set(
            error, KILN_E_INVALID, 0,
            "a reservation needs a cache, a key, and parameters of this version");
    }
    kilni_object *object = kilni_object_pin(cache, key);
    if (object) {
        *ret_reservation = (kiln_reservation){.outcome = KILN_HIT, .pin = object};
        return KILN_OK;
    }
    if (!kilni_reader_ensure()) {
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "%s",
                               kiln_status_text(KILN_E_NO_MEMORY));
    }
    kilni_cache_lock(cache);
    kiln_status status = reserve_locked(cache, key, &known, ret_reservation, error);
    pthread_mutex_unlock(&cache->lock);
    if (status == KILN_OK && ret_reservation->outcome == KILN_HIT) {
        kilni_object_note_hit(ret_reservation->pin);
    }
    return status;
}

/* ---- ending ---- */

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
    /* The flight stays attached meanwhile, so that no other thread builds its key. */
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
    /* The flight's own hold passes to @followup. */
    kilni_followup_keep_locked(&followup, made,
                               kilni_object_is_resident(made) ? KILN_EVENT_INSERTED : 0);
    pthread_mutex_unlock(&cache->lock);
    kilni_flight_free(flight);
    kilni_followup_finish(cache, &followup);
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
    if (ticket->owner != kilni_thread_number()) {
        ticket->owner = kilni_thread_number();
        kilni_thread_got_ticket();
    }
    pthread_mutex_unlock(&ticket->cache->lock);
    return KILN_OK;
}

/* Answers all waiters with the failure. Returns true if the failure stays in the table. */
static bool fail_locked(kilni_flight *flight, kiln_status status, const char *text)
{
    /* Success without an object counts as a failure. */
    flight->failure = status != KILN_OK ? status : KILN_E_INVALID;
    snprintf(flight->text, sizeof flight->text, "%s",
             text ? text : kiln_status_text(flight->failure));
    kilni_wait_fail_all_locked(flight);
    bool kept = flight->attached && flight->cache->retains_failures;
    if (kept) {
        kilni_flight_detach_locked(flight);
        kilni_failure_keep_locked(flight);
    }
    return kept;
}

/* Returns true if the flight has ended, false if it goes on or its failure is kept. */
static bool abandon_locked(kilni_flight *flight, kiln_abandonment how, kiln_status status,
                           const char *text)
{
    if (how != KILN_ABANDON_UNSHAREABLE) {
        flight->cache->failures++;
    }
    if (how == KILN_ABANDON_UNSHAREABLE) {
        kilni_wait_bypass_all_locked(flight);
    } else if (how == KILN_ABANDON_TRANSIENT) {
        if (kilni_wait_hand_over_locked(flight)) {
            return false;
        }
    } else if (fail_locked(flight, status, text)) {
        return false;
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
}

/* ---- threads that end ---- */

/* Creates a flight like one that was lost, for the threads that wait for the lost one. */
static kiln_status flight_new_like(const kilni_flight *lost, kilni_flight **ret_flight)
{
    enum { ANY_GROUP = 1 };
    kiln_status status = flight_new(lost->cache, lost->slot.key, lost->slot.group, ret_flight);
    if (status == KILN_OK && lost->object->slot.can_have_group) {
        status = kilni_flight_allow_group_locked(*ret_flight, ANY_GROUP);
        if (status != KILN_OK) {
            kilni_flight_free(*ret_flight);
        }
    }
    return status;
}

/* Replaces a flight that may never be ended by a new one. */
static kiln_status replace_locked(kilni_flight *lost)
{
    kilni_flight *next;
    kiln_status status = flight_new_like(lost, &next);
    if (status == KILN_OK) {
        if (lost->attached) {
            kilni_flight_detach_locked(lost);
            attach_locked(next, lost->reserved_bytes);
        }
        kilni_wait_move_all_locked(lost, next);
        kilni_wait_hand_over_locked(next);
    }
    return status;
}

static void orphan_locked(kilni_flight *flight)
{
    flight->owner = KILNI_NOBODY;
    if (kilni_wait_has_any_locked(flight) && replace_locked(flight) != KILN_OK) {
        flight->failure = KILN_E_NO_MEMORY;
        snprintf(flight->text, sizeof flight->text, "%s", kiln_status_text(flight->failure));
        kilni_wait_fail_all_locked(flight);
    }
}

void kilni_flights_orphan_locked(kiln_cache *cache, uint64_t thread)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        kilni_flight *flight = (kilni_flight *)slot;
        if (slot->state == KILNI_SLOT_BUILDING && flight->owner == thread) {
            orphan_locked(flight);
        }
    }
    /* Flights that were removed from the table when the cache was cleared. */
    kilni_flight *flight;
    while ((flight = kilni_wait_flight_of_locked(cache, thread))) {
        orphan_locked(flight);
    }
}
