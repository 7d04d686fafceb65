/* SPDX-License-Identifier: Apache-2.0
 *
 * Flights. A flight is one build of a key for several callers: its owner builds, and the other
 * callers wait for the flight (waiter.h). A flight that failed can be kept (failure.h).
 */
#pragma once

#include "memory/memory.h"

/* Makes a flight that is not attached. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_flight_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_flight **ret_flight);

/* Attaches a flight: puts it into the table and reserves @bytes. Room in the table must have been
 * reserved before. */
void kilni_flight_attach_locked(kilni_flight *flight, uint64_t bytes);

/* Detaches a flight: removes it from the table and releases the bytes that it reserved. If the
 * build is still running, its result will not be kept. Does nothing if the flight is not attached.
 */
void kilni_flight_detach_locked(kilni_flight *flight);

/* Frees a flight, which must not be in the table. If the flight still owns the place of its object,
 * frees the place too. */
void kilni_flight_free(kilni_flight *flight);

/* Makes sure that the object of a flight can have a group. Does nothing if @group is 0. Called
 * before a thread waits for the flight, because that thread might become the flight's owner.
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_flight_allow_group_locked(kilni_flight *flight, uint64_t group);

static inline uint64_t kilni_flight_owner(const kilni_flight *flight)
{
    return atomic_load_explicit(&flight->owner, memory_order_relaxed);
}

static inline void kilni_flight_set_owner(kilni_flight *flight, uint64_t thread)
{
    atomic_store_explicit(&flight->owner, thread, memory_order_relaxed);
}

/* Each thread counts the tickets that it owns. If the count is 0 when the thread ends, there is no
 * need to search for the thread's tickets. The count does not decrease when another thread ends or
 * takes a ticket of this thread. */
void kilni_thread_got_ticket(void);
void kilni_thread_lost_ticket_of(const kilni_flight *flight);
bool kilni_thread_may_own_tickets(void);
