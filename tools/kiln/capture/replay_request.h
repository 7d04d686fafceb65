/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to repeat the builds of older drivers, which programs leave after an upgrade.
 */
#pragma once

#include <stdbool.h>

#include <kiln/entry.h>

/* Returns whether a request is one of these. */
bool replay_request_is(const kiln_entry *request);

/* Runs `kiln replay` for a limited time, on all processors except one, at idle priority. What the
 * program that left the request needed in its last run comes first. Returns false
 * if it was ended by a signal, so that the request should be served again later.
 *
 * @location  of the store: a directory, or a chain that begins with one */
bool replay_request_serve(const char *location, const kiln_entry *request);
