/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/orphan.h"

#include <stdio.h>

#include "memory/flight.h"
#include "memory/waiter.h"

/* Creates a flight with the same key and group as a lost flight, for the threads that wait for the
 * lost flight. */
static kiln_status flight_new_like(const kilni_flight *lost, kilni_flight **ret_flight)
{
    enum { ANY_GROUP = 1 };
    kiln_status status = kilni_flight_new(lost->cache, lost->slot.key, lost->group, ret_flight);
    if (status == KILN_OK && lost->object->slot.can_have_group) {
        status = kilni_flight_allow_group_locked(*ret_flight, ANY_GROUP);
        if (status != KILN_OK) {
            kilni_flight_free(*ret_flight);
        }
    }
    return status;
}

/* Replaces a flight that might never end with a new flight. */
static kiln_status replace_locked(kilni_flight *lost)
{
    kilni_flight *next;
    kiln_status status = flight_new_like(lost, &next);
    if (status == KILN_OK) {
        if (lost->attached) {
            kilni_flight_detach_locked(lost);
            kilni_flight_attach_locked(next, lost->reserved_bytes);
        }
        kilni_wait_move_all_locked(lost, next);
        kilni_wait_hand_over_locked(next);
    }
    return status;
}

static void orphan_locked(kilni_flight *flight)
{
    kilni_flight_set_owner(flight, KILNI_NOBODY);
    if (!kilni_wait_has_thread(flight)) {
        kilni_wait_ask_again_locked(flight);
    } else if (replace_locked(flight) != KILN_OK) {
        flight->failure = KILN_E_NO_MEMORY;
        snprintf(flight->text, sizeof flight->text, "%s", kiln_status_text(flight->failure));
        kilni_wait_fail_all_locked(flight);
    }
}

/* Returns a flight that @thread owns and that has a waiter, even if the flight is not in the table.
 * Returns NULL if there is none. */
static kilni_flight *awaited_flight_of_locked(const kiln_cache *cache, uint64_t thread)
{
    const kilni_waiter *waiter = cache->waiters;
    while (waiter && kilni_flight_owner(waiter->flight) != thread) {
        waiter = waiter->next;
    }
    return waiter ? waiter->flight : NULL;
}

void kilni_flights_orphan_locked(kiln_cache *cache, uint64_t thread)
{
    size_t position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&cache->pending, &position))) {
        kilni_flight *flight = (kilni_flight *)slot;
        if (slot->state == KILNI_SLOT_BUILDING && kilni_flight_owner(flight) == thread) {
            orphan_locked(flight);
        }
    }
    /* The remaining flights were removed from the table, for example when the cache was cleared. */
    kilni_flight *flight;
    while ((flight = awaited_flight_of_locked(cache, thread))) {
        orphan_locked(flight);
    }
}
