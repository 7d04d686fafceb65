/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/flight.h"

#include <stdlib.h>

#include "memory/lifetime.h"
#include "memory/reader.h"

/* ---- threads ---- */

static _Thread_local size_t own_tickets;

void kilni_thread_got_ticket(void)
{
    own_tickets++;
}

void kilni_thread_lost_ticket_of(const kilni_flight *flight)
{
    if (kilni_flight_owner(flight) == kilni_thread_number() && own_tickets > 0) {
        own_tickets--;
    }
}

bool kilni_thread_may_own_tickets(void)
{
    return own_tickets > 0;
}

/* ---- flights ---- */

kiln_status kilni_flight_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
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
    kilni_slot_init(&flight->slot, key, KILNI_SLOT_BUILDING);
    flight->cache = cache;
    flight->group = group;
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
        kilni_group_links_of(place)->group = flight->group;
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

void kilni_flight_attach_locked(kilni_flight *flight, uint64_t bytes)
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
