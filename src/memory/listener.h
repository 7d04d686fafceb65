/* SPDX-License-Identifier: Apache-2.0
 *
 * The listeners, which are notified of what happens in a cache.
 */
#pragma once

#include "memory/memory.h"

/* Calls each listener that wants the event and was added no later than @last_listener, in the order
 * in which they were added. No lock held. */
void kilni_listeners_notify(kiln_cache *cache, const kiln_event *event, uint64_t last_listener);

/* Whether some listener wants an event. */
bool kilni_listeners_want_locked(const kiln_cache *cache, uint32_t event);

/* Frees all listeners, none of which is running on another thread. */
void kilni_listeners_free(kiln_cache *cache);

/* In a forked child: ends the calls of the parent's other threads. */
void kilni_listeners_forget_threads_locked(kiln_cache *cache);
