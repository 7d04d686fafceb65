/* SPDX-License-Identifier: Apache-2.0
 *
 * Flights whose owning thread ends. Such a flight stays valid, because other threads can still end
 * its ticket. But threads no longer wait for it: those that waited now wait for a new flight.
 */
#pragma once

#include "memory/memory.h"

/* Called when a thread ends. The thread's flights stay valid. But another thread also builds each
 * of their keys: one that already waits for the key, or the next one that asks for it. */
void kilni_flights_orphan_locked(kiln_cache *cache, uint64_t thread);
