/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is told of what happens in a cache.
 */
#pragma once

#include "memory/memory.h"

/* Calls each listener that wants the event and came no later than @last_listener, in the order in
 * which they came. No lock held. */
void kilni_listeners_tell(kiln_cache *cache, const kiln_event *event, uint64_t last_listener);

/* Frees all listeners, none of which is running on another thread. */
void kilni_listeners_free(kiln_cache *cache);
