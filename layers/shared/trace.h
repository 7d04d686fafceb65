/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_TRACE: one line for each request, for people and scripts.
 */
#pragma once

#include <kiln/key.h>

#include "program/request.h"

/* Opens the trace.
 *
 * @target  a file to append to, "-" for stderr, NULL for none; if the file cannot be opened,
 *          nothing is traced */
void trace_open(const char *target);

/* Writes a line with the outcome, digest and times of a request that did not bypass the cache.
 *
 * @door  what was built with, such as "nvrtc"; `kiln run --summary` counts the requests of each */
void trace_request(const char *door, const kiln_key *key, const kilni_request_result *result,
                   kiln_status status);

/* Writes a line for a build that passed through, that is, bypassed the cache. */
void trace_passed(const char *call, const char *reason);

/* Writes a line about anything else, such as a wrong setting or a store that cannot be used. */
void trace_note(const char *text);

/* Writes a line about a key. An entry with this key was found, but it was made from a different
 * state of the file at @path. */
void trace_changed(const kiln_key *key, const char *path);
