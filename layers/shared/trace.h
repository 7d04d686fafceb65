/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_TRACE: one line for each request, for people and scripts.
 */
#pragma once

#include <kiln/key.h>

#include "program/request.h"

/* Opens the trace.
 *
 * @target  a file to append to, "-" for stderr, NULL for none; a file that cannot be opened counts
 *          as none */
void trace_open(const char *target);

/* Writes a line for a request that did not pass through: outcome, digest and times. */
void trace_request(const kiln_key *key, const kilni_request_result *result, kiln_status status);

/* Writes a line for a build that passed through. */
void trace_passed(const char *call, const char *reason);

/* Writes a line about anything else, such as a wrong setting or a store that cannot be used. */
void trace_note(const char *text);

/* Writes a line about a key whose entry was found, but was made from a different state of the file
 * at @path. */
void trace_changed(const kiln_key *key, const char *path);
