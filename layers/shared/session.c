/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <kiln/version.h>

#include "os/clock.h"
#include "trace.h"

/* The maximum size in bytes of the entries that are kept in memory. They serve programs that a
 * process builds more than once. */
#define MEMORY_BYTES (UINT64_C(64) << 20)

/* The maximum size in bytes of the entries that wait to be written. */
#define QUEUE_BYTES (UINT64_C(256) << 20)

#define TOOL_SIZE 128 /* of the origin of entries; a longer name of a program is cut */

#define DRAIN_NS (UINT64_C(2) * 1000000000)

/* Written by session_start, before any call comes in. */
static int64_t start_ns;
static kiln_config *config;
static char tool[TOOL_SIZE];

/* Written once, by the function that once_set_up runs, and only read after that. */
static pthread_once_t once_set_up = PTHREAD_ONCE_INIT;
static kilni_request_context requests;

/* 1 once the variable named "requests" is complete. Read by callers that must not set up that
 * variable. The store in set_up (release) pairs with the load in has_own_writer (acquire). */
static _Atomic int is_set_up;

/* A drain has timed out, so the end of the process does not wait for the same tiers again. Loaders
 * call clDeinitLayer, which drains, shortly before the process ends. Relaxed. */
static _Atomic int has_timed_out;

/* Written in a forked child, while the child has only one thread. Read with relaxed order. */
static _Atomic int is_forked;

int64_t session_start_ns(void)
{
    return start_ns;
}

const kiln_config *session_config(void)
{
    return config;
}

const char *session_tool(void)
{
    return tool;
}

int session_is_forked(void)
{
    return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

static void note_fork(void)
{
    atomic_store_explicit(&is_forked, 1, memory_order_relaxed);
}

/* ---- set-up ---- */

kiln_status session_start(void)
{
    if (getauxval(AT_SECURE)) {
        return KILN_E_UNSUPPORTED;
    }
    start_ns = kilni_file_clock_ns();
    kiln_status status = kiln_config_from_env(NULL, NULL, &config);
    if (status == KILN_OK && config->disabled) {
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK && pthread_atfork(NULL, NULL, note_fork) != 0) {
        status = KILN_E_NO_MEMORY;
    }
    if (status == KILN_OK) {
        snprintf(tool, sizeof tool, "kiln %s, %s", kiln_version(), program_invocation_short_name);
        trace_open(config->trace);
        for (size_t i = 0; config->warnings[i]; i++) {
            trace_note(config->warnings[i]);
        }
    }
    return status;
}

static void log_to_trace(void *user, kiln_log_level level, const char *text)
{
    (void)user;
    (void)level;
    trace_note(text);
}

/* Returns NULL if no store can be opened. In that case, the layer caches only in memory, and the
 * reason is written to the trace. */
static kiln_store *open_store(void)
{
    const char *directory = config->dir;
    if (!directory) {
        trace_note("no store: none of KILN_DIR, XDG_CACHE_HOME and HOME names a directory");
        return NULL;
    }
    if (config->max_bytes == 0) {
        trace_note("KILN_MAX_SIZE is 0: nothing is stored");
        return NULL;
    }
    kiln_store_params params = {.struct_size = sizeof params};
    kiln_config_get_store(config, &params);
    params.log.write = log_to_trace;
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_store_open(directory, &params, &store, &error) != KILN_OK) {
        trace_note(error.text);
    }
    return store;
}

static void set_up(void)
{
    const kiln_cache_params memory = {
        .struct_size = sizeof memory,
        .max_bytes = MEMORY_BYTES,
        .destroy = kilni_request_destroy_entry,
    };
    kiln_cache *cache = NULL;
    if (kiln_cache_new(&memory, &cache) != KILN_OK) {
        return;
    }
    kiln_store *store = open_store();
    kilni_writer *writer = NULL;
    if (kilni_writer_new(store, QUEUE_BYTES, &writer) != KILN_OK) {
        kiln_store_close(&store);
        kiln_cache_free(&cache);
        return;
    }
    kilni_writer_set_stats_file(writer, config->stats);
    kilni_writer_set_record_file(writer, config->record);
    kilni_writer_spare_thread(writer);
    requests = (kilni_request_context){.memory = cache, .store = store, .writer = writer};
    atomic_store_explicit(&is_set_up, 1, memory_order_release);
}

const kilni_request_context *session_requests(void)
{
    pthread_once(&once_set_up, set_up);
    return atomic_load_explicit(&is_set_up, memory_order_acquire) ? &requests : NULL;
}

int session_can_store(void)
{
    return requests.store && !config->readonly;
}

void session_count(const kiln_stats *delta)
{
    const kilni_request_context *context = session_is_forked() ? NULL : session_requests();
    if (context) {
        kilni_writer_count(context->writer, delta);
    }
}

static bool has_own_writer(void)
{
    return atomic_load_explicit(&is_set_up, memory_order_acquire) && !session_is_forked();
}

void session_drain(void)
{
    if (has_own_writer() && kilni_writer_drain(requests.writer, DRAIN_NS) == KILN_TIMEOUT) {
        atomic_store_explicit(&has_timed_out, 1, memory_order_relaxed);
    }
}

void session_end(void)
{
    if (has_own_writer()) {
        const int is_late = atomic_load_explicit(&has_timed_out, memory_order_relaxed);
        kilni_writer_end(requests.writer, is_late ? 0 : DRAIN_NS);
    }
}
