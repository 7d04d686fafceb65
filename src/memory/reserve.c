/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/reserve.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/sized_struct.h"
#include "memory/evict.h"
#include "memory/flight.h"
#include "memory/lifetime.h"
#include "memory/pin.h"
#include "memory/read_section.h"
#include "memory/reader.h"
#include "memory/waiter.h"
#include "os/clock.h"

static const uint32_t KNOWN_FLAGS = KILN_RESERVE_PENDING | KILN_RESERVE_NO_TICKET;

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

/* Makes room in the tables for all flights and for the objects that they yield. So a flight can end
 * without any need for memory. */
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
    if (params->flags & KILN_RESERVE_NO_TICKET) {
        kilni_count(cache, KILNI_COUNTER_MISSES);
        return KILN_MISS;
    }
    if (!kilni_may_begin_locked(cache, params->bytes)) {
        return bypass_locked(cache, ret_reservation);
    }
    kilni_flight *flight;
    kiln_status status = reserve_tables_locked(cache);
    if (status == KILN_OK) {
        status = kilni_flight_new(cache, key, params->group, &flight);
    }
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    kilni_flight_set_owner(flight, kilni_thread_number());
    kilni_thread_got_ticket();
    flight->started_ns = kilni_clock_ns();
    kilni_flight_attach_locked(flight, params->bytes);
    kilni_count(cache, KILNI_COUNTER_MISSES);
    *ret_reservation = (kiln_reservation){.outcome = KILN_OWNER, .ticket = flight};
    return KILN_OK;
}

static kiln_status pend_locked(kilni_flight *flight, const kiln_reserve_params *params,
                               kiln_reservation *ret_reservation, kiln_error *error)
{
    kiln_pending *pending;
    const kiln_status status = kilni_pending_new_locked(flight, params, &pending);
    if (status != KILN_OK) {
        return kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    *ret_reservation = (kiln_reservation){.outcome = KILN_PENDING, .pending = pending};
    return KILN_OK;
}

static kiln_status reserve_locked(kiln_cache *cache, const kiln_key *key,
                                  const kiln_reserve_params *params,
                                  kiln_reservation *ret_reservation, bool *ret_waited,
                                  kiln_error *error)
{
    if (cache->disabled) {
        return bypass_locked(cache, ret_reservation);
    }
    kilni_object *object = kilni_cache_find(cache, key);
    if (object) {
        return hit_locked(object, ret_reservation);
    }
    kilni_flight *flight = (kilni_flight *)kilni_table_find(&cache->pending, key);
    if (flight && flight->slot.state == KILNI_SLOT_BUILDING &&
        kilni_flight_owner(flight) == KILNI_NOBODY) {
        kilni_flight_detach_locked(flight);
        flight = NULL;
    }
    if (!flight) {
        return begin_locked(cache, key, params, ret_reservation, error);
    }
    if (flight->slot.state == KILNI_SLOT_FAILED) {
        return kilni_error_set(error, flight->failure, 0, "%s", flight->text);
    }
    *ret_waited = true;
    return params->flags & KILN_RESERVE_PENDING
               ? pend_locked(flight, params, ret_reservation, error)
               : kilni_wait_locked(flight, params, ret_reservation, error);
}

kiln_status kilni_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                const kiln_reserve_params *params,
                                kiln_reservation *ret_reservation, bool *ret_waited,
                                kiln_error *error)
{
    kiln_reserve_params known;
    *ret_waited = false;
    if (!cache || !key || !ret_reservation ||
        kilni_sized_struct_copy(params, &known, sizeof known) != KILN_OK ||
        (known.flags & ~KNOWN_FLAGS)) {
        return kilni_error_set(error, KILN_E_INVALID, 0,
                               "the cache, the key or the result pointer is NULL, or the "
                               "parameters are not of this version");
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
    kiln_status status = reserve_locked(cache, key, &known, ret_reservation, ret_waited, error);
    pthread_mutex_unlock(&cache->lock);
    if (status == KILN_OK && ret_reservation->outcome == KILN_HIT) {
        kilni_object_note_hit(ret_reservation->pin);
    }
    return status;
}

kiln_status kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                               const kiln_reserve_params *params, kiln_reservation *ret_reservation,
                               kiln_error *error)
{
    bool waited;
    return kilni_cache_reserve(cache, key, params, ret_reservation, &waited, error);
}
