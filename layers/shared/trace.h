/* SPDX-License-Identifier: Apache-2.0
 *
 * KILN_TRACE: one line for each request, for people and scripts.
 */
#pragma once

#include <kiln/key.h>

#include "program/request.h"

/* @target  a file to append to, "-" for stderr, NULL for none. A file that can't be opened: none.
 */
void trace_open(const char *target);

/* A build that the cache served or kept: outcome, digest, times. */
void trace_request(const kiln_key *key, const kilni_request_result *result, kiln_status status);

/* A build that went to the driver past the cache. */
void trace_passed(const char *call, const char *reason);

/* Something that is no request: a wrong setting, a store that can't be used. */
void trace_note(const char *text);
