/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of constants: what the engine keeps as its objects.
 */
#pragma once

#include <kiln/constant_backend.h>

/* A kiln_destroy_fn: the object is a kiln_constant_buffer. */
void kilni_constant_buffer_destroy(void *user, void *object);

/* A kiln_listener_fn: tells the buffer's backend that it left the cache. */
void kilni_constant_buffer_tell_evicted(void *user, const kiln_event *event);
