/* SPDX-License-Identifier: Apache-2.0
 *
 * Single flight: one build of a key at a time.
 */
#pragma once

#include "memory/memory.h"

/* Takes a flight out of the table and releases what it reserved; its result will not be kept. Does
 * nothing if the flight is not attached. */
void kilni_flight_detach_locked(kilni_flight *flight);

/* Ensures that the object of a flight can be of a group, unless @group is 0. Called before a thread
 * that may come to own the flight waits for it. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_flight_allow_group_locked(kilni_flight *flight, uint64_t group);

/* Frees a flight that is not in the table, and its object's place if it still has that. */
void kilni_flight_free(kilni_flight *flight);

/* For a thread that ends: its flights stay valid, but a thread that waits for one of their keys, or
 * asks for it next, builds too. */
void kilni_flights_orphan_locked(kiln_cache *cache, uint64_t thread);
