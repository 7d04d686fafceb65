/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that a layer sets up once per process: configuration, memory, store, writer and trace.
 */
#pragma once

#include <kiln/config.h>
#include <kiln/store.h>

#include "program/request.h"

/* Returns the state that all requests share. The first call sets up this state. Returns NULL if
 * that failed; builds then bypass the cache. */
const kilni_request_context *session_requests(void);

/* Returns 1 if there is a store, and the layer is allowed to write to it. Call it only after
 * session_requests has returned something other than NULL. */
int session_can_store(void);

/* Adds to the store's totals and to the counters of KILN_STATS. */
void session_count(const kiln_stats *delta);

/* Returns the configuration. Call it only after session_start has returned KILN_OK. */
const kiln_config *session_config(void);

/* Returns the version of Kiln and the name of the program, for the origin of entries. Call it only
 * after session_start has returned KILN_OK. */
const char *session_tool(void);

/* Reads the configuration. Returns KILN_OK; KILN_E_UNSUPPORTED if the layer must do nothing
 * (KILN_DISABLE, or a program with raised privileges); KILN_E_NO_MEMORY. */
kiln_status session_start(void);

/* Returns the time when session_start ran, in Unix nanoseconds. It is read from the same clock that
 * the system uses for the times of files. */
int64_t session_start_ns(void);

/* Waits until queued entries are written, for at most 2 s. */
void session_drain(void);

/* Does the same as session_drain, at the end of the process. What is not written by then is dropped
 * and counted. */
void session_end(void);

/* Returns 1 in a child that was forked after the layer started. Such a child builds without the
 * cache. */
int session_is_forked(void);
