/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of constants: the objects of the cache engine.
 */
#pragma once

#include <kiln/constant_backend.h>

/* A kiln_destroy_fn: the object is a kiln_constant_buffer. */
void kilni_constant_buffer_destroy(void *user, void *object);

/* A kiln_listener_fn: notifies the buffer's backend that the buffer was removed from the cache. */
void kilni_constant_buffer_notify_evicted(void *user, const kiln_event *event);
