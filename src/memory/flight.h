/* SPDX-License-Identifier: Apache-2.0
 *
 * Single flight: one build of a key at a time.
 */
#pragma once

#include "memory/memory.h"

/* Takes a flight out of the table and gives back what it reserved; nothing of it will be kept. A
 * flight that is not attached is left alone. */
void kilni_flight_detach_locked(kilni_flight *flight);

/* Sees to it that what comes of a flight can be of a group, where that is not 0: before anybody
 * waits for it who may go on with it. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_flight_allow_group_locked(kilni_flight *flight, uint64_t group);

/* Frees a flight that is not in the table, and the place for its object where it still has it. */
void kilni_flight_free(kilni_flight *flight);

/* For a thread that ends: what it owns stays, but whoever waits for it, or asks next, builds too.
 */
void kilni_flights_leave_locked(kiln_cache *cache, uint64_t thread);
