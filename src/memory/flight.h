/* SPDX-License-Identifier: Apache-2.0
 *
 * Flights. A flight is a build of a key that callers share: its owner builds, and other callers
 * wait for the flight (waiter.h). A flight that failed may be kept (failure.h).
 */
#pragma once

#include "memory/memory.h"

/* Makes a flight that is not attached. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_flight_new(kiln_cache *cache, const kiln_key *key, uint64_t group,
                             kilni_flight **ret_flight);

/* Attaches a flight: puts it into the table, in which room must have been reserved, and reserves
 * @bytes. */
void kilni_flight_attach_locked(kilni_flight *flight, uint64_t bytes);

/* Detaches a flight: takes it out of the table and releases the bytes that it reserved. If its
 * build is still running, the result will not be kept. Does nothing if the flight is not attached.
 */
void kilni_flight_detach_locked(kilni_flight *flight);

/* Frees a flight that is not in the table, and the place of its object if the flight still owns the
 * place. */
void kilni_flight_free(kilni_flight *flight);

/* Ensures that the object of a flight can have a group, unless @group is 0. Called before a thread
 * waits for the flight, because that thread may become its owner. Returns KILN_OK;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_flight_allow_group_locked(kilni_flight *flight, uint64_t group);

static inline uint64_t kilni_flight_owner(const kilni_flight *flight)
{
    return atomic_load_explicit(&flight->owner, memory_order_relaxed);
}

static inline void kilni_flight_set_owner(kilni_flight *flight, uint64_t thread)
{
    atomic_store_explicit(&flight->owner, thread, memory_order_relaxed);
}

/* A thread counts the tickets that it owns. If the count is 0 when the thread ends, there is no
 * need to search for its tickets. A ticket that another thread has ended or taken stays in the
 * count. */
void kilni_thread_got_ticket(void);
void kilni_thread_lost_ticket_of(const kilni_flight *flight);
bool kilni_thread_may_own_tickets(void);
