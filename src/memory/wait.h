/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that wait for a flight. Each has a condition of its own, so that only threads that have
 * an answer are woken, and a flight may be freed as soon as it has answered.
 */
#pragma once

#include "memory/memory.h"

/* A number that no other thread of this process has or had. */
uint64_t kilni_thread_number(void);

/* A thread counts the tickets that it owns, so that its end needs to look for them only if there
 * are any. A ticket that another thread ends or takes stays in the count. */
void kilni_thread_got_ticket(void);
void kilni_thread_lost_ticket_of(const kilni_flight *flight);
bool kilni_thread_may_own_tickets(void);

/* Waits for a flight's answer, as long as @params say, as kiln_cache_reserve describes it. Gives up
 * the lock meanwhile. */
kiln_status kilni_wait_locked(kilni_flight *flight, const kiln_reserve_params *params,
                              kiln_reservation *ret_reservation, kiln_error *error);

/* Answer all threads that wait for a flight: with a pin on what was built; with BYPASS; with the
 * flight's failure. */
void kilni_wait_pin_all_locked(const kilni_flight *flight, kilni_object *object);
void kilni_wait_bypass_all_locked(const kilni_flight *flight);
void kilni_wait_fail_all_locked(const kilni_flight *flight);

/* Makes the thread that has waited longest the owner of the flight, and gives the flight the group
 * that this thread asked for. Returns false if no thread waits. */
bool kilni_wait_hand_over_locked(kilni_flight *flight);

bool kilni_wait_has_any_locked(const kilni_flight *flight);

/* Returns a flight of @thread's for which a thread waits, even if the flight is not in the table;
 * or NULL. */
kilni_flight *kilni_wait_flight_of_locked(const kiln_cache *cache, uint64_t thread);

/* Makes all threads that wait for one flight wait for another. */
void kilni_wait_move_all_locked(const kilni_flight *from, kilni_flight *to);
