/* SPDX-License-Identifier: Apache-2.0
 *
 * What a layer sets up once in a process: configuration, memory, store, writer, trace.
 */
#pragma once

#include <kiln/config.h>
#include <kiln/store.h>

#include "program/request.h"

/* What requests share, made at the first use; NULL where it can't be had: then builds pass
 * through. */
const kilni_request_context *session_requests(void);

/* 1 where there is a store that may be written to. session_requests is not NULL. */
int session_can_store(void);

/* Counters for the store's totals and for KILN_STATS. */
void session_count(const kiln_stats *delta);

const kiln_config *session_config(void);

/* Patterns of further variables that decide a build (KILN_KEY_ENV), NULL-ended. */
const char *const *session_key_variables(void);

/* Reads the configuration. KILN_OK; KILN_E_UNSUPPORTED: the layer stays out of the way
 * (KILN_DISABLE, or a program with raised privileges); KILN_E_NO_MEMORY. */
kiln_status session_start(void);

/* When that was, by the clock that files' changes go by, in Unix nanoseconds. */
int64_t session_start_ns(void);

/* Waits for what is being written, 2 s at most. */
void session_drain(void);

/* 1 in a child that was forked after the layer started: it builds without the cache. */
int session_is_forked(void);
