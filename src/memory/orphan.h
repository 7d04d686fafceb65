/* SPDX-License-Identifier: Apache-2.0
 *
 * Flights whose owning thread ends. They stay valid, since other threads may still end their
 * tickets, but nothing waits for them any longer: a new flight takes over the threads that wait.
 */
#pragma once

#include "memory/memory.h"

/* Called when a thread ends. Its flights stay valid, but a thread that waits for one of their keys,
 * or asks for that key next, builds the key too. */
void kilni_flights_orphan_locked(kiln_cache *cache, uint64_t thread);
