/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/client.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/http/connection.h"
#include "store/network/breaker.h"
#include "store/network/host.h"

#define NS_PER_MS UINT64_C(1000000)

/* How long a server is not contacted after its certificate was not accepted, or after it has
 * refused this side's certificate. */
#define REFUSED_FOR_NS (UINT64_C(40000) * NS_PER_MS)

/* The maximum number of connections of each lane. */
#define MAX_CONNECTIONS KILNI_HTTP_LOOKUP_CONNECTIONS
static const size_t connection_counts[] = {
    [KILNI_HTTP_LANE_LOOKUPS] = MAX_CONNECTIONS, [KILNI_HTTP_LANE_PUTS] = 2};

/* No process has this number. */
#define NO_PROCESS UINT32_MAX

typedef struct request_queue {
    kilni_http_request *first, **last;
} request_queue;

typedef struct http_lane {
    kilni_http_owner owner; /* first: the owner of the lane's connections */
    kilni_http_client *client;
    size_t count; /* the maximum number of connections */
    kilni_http_connection *connections[MAX_CONNECTIONS];
    request_queue waiting; /* requests that wait for a connection, or for addresses */
} http_lane;

struct kilni_http_client {
    kilni_task closing; /* first: the task is cast to the client */
    kilni_http_settings settings;
    kilni_tls_settings tls;
    void *owned;
    kilni_breaker breaker;

    /* The handle holds one reference, and each request holds another. Each decrement is both a
     * release and an acquire, so the thread that frees the client sees all changes by other
     * threads. */
    _Atomic unsigned references;
    /* The process that last used the client. Only the I/O thread of that process can refer to the
     * client. No other call is running when the client is closed, so every access is relaxed. */
    _Atomic unsigned asked_in;
    /* The last call ended because its caller stopped waiting, although the server may still have
     * been sending. Relaxed. */
    _Atomic bool is_late;

    /* Only the I/O thread uses these. */
    kilni_host host;
    unsigned process; /* the process whose I/O thread made these connections */
    bool is_closed;
    http_lane lanes[KILNI_HTTP_LANES];
};

static void drop_reference(kilni_http_client *client)
{
    if (atomic_fetch_sub_explicit(&client->references, 1, memory_order_acq_rel) == 1) {
        free(client->owned);
        free(client);
    }
}

static void forget(void *owner)
{
    drop_reference(owner);
}

/* ---- queues ---- */

static void empty(request_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

static void append(request_queue *queue, kilni_http_request *request)
{
    request->next = NULL;
    *queue->last = request;
    queue->last = &request->next;
}

static kilni_http_request *take_first(request_queue *queue)
{
    kilni_http_request *request = queue->first;
    if (request) {
        queue->first = request->next;
        if (!queue->first) {
            queue->last = &queue->first;
        }
    }
    return request;
}

static void finish(kilni_http_request *request, kiln_status status)
{
    request->status = status;
    if (request->arrived) {
        request->arrived(request);
    }
    kilni_call_finish(&request->call);
}

static void finish_waiting(http_lane *lane, kiln_status status)
{
    kilni_http_request *request = take_first(&lane->waiting);
    for (; request; request = take_first(&lane->waiting)) {
        finish(request, status);
    }
}

/* Takes the next request whose caller still waits, and finishes the requests before it. */
static kilni_http_request *take_wanted(http_lane *lane)
{
    kilni_http_request *request = take_first(&lane->waiting);
    for (; request && kilni_call_is_abandoned(&request->call);
         request = take_first(&lane->waiting)) {
        finish(request, KILN_TIMEOUT);
    }
    return request;
}

/* ---- the I/O thread ---- */

static void note_failure(kilni_http_client *client, kiln_status status, bool was_connected)
{
    const uint64_t now_ns = kilni_clock_ns();
    if (status == KILN_E_DENIED || status == KILN_E_UNAUTHENTICATED || status == KILN_E_INVALID) {
        kilni_breaker_rest(&client->breaker, now_ns, REFUSED_FOR_NS,
                           status == KILN_E_UNAUTHENTICATED ? KILNI_FAULT_UNTRUSTED
                                                            : KILNI_FAULT_REFUSED);
    } else if (status != KILN_E_TOO_LARGE && status != KILN_E_NO_MEMORY) {
        const kilni_server_fault fault = status == KILN_TIMEOUT ? KILNI_FAULT_SILENT
                                         : was_connected        ? KILNI_FAULT_BROKEN
                                                                : KILNI_FAULT_UNREACHABLE;
        kilni_breaker_note_fault(&client->breaker, now_ns, fault);
    }
}

/* Returns how long the server is allowed to be silent before the answer. */
static uint64_t patience_of(kilni_http_client *client, unsigned lane)
{
    if (lane == KILNI_HTTP_LANE_PUTS) {
        return client->settings.put_answer_ns;
    }
    return kilni_breaker_is_known(&client->breaker, kilni_clock_ns())
               ? client->settings.answer_ns
               : client->settings.new_answer_ns;
}

/* Opens a connection for a request. The addresses must be known. */
static kiln_status connect_to(http_lane *lane, kilni_http_request *request,
                              kilni_http_connection **ret_connection)
{
    kilni_http_client *client = lane->client;
    kiln_status status = KILN_E_IO;
    do {
        status = kilni_http_connection_new(&lane->owner, kilni_host_address(&client->host),
                                           client->settings.tls ? &client->tls : NULL,
                                           client->settings.connecting_ns, request, ret_connection);
        if (status == KILN_E_IO) {
            kilni_host_try_next(&client->host);
        }
    } while (status == KILN_E_IO && ++request->hops < client->host.count);
    return status;
}

/* Returns the place of an idle connection, or an empty place. NULL: all connections are busy. */
static kilni_http_connection **free_place(http_lane *lane)
{
    kilni_http_connection **empty_place = NULL;
    for (size_t i = 0; i < lane->count; i++) {
        if (!lane->connections[i]) {
            empty_place = &lane->connections[i];
        } else if (!kilni_http_connection_is_busy(lane->connections[i])) {
            return &lane->connections[i];
        }
    }
    return empty_place;
}

/* Sends waiting requests as long as there are idle connections or more connections can be opened.
 * The addresses must be known. */
static void send_waiting(http_lane *lane)
{
    kilni_http_connection **place = free_place(lane);
    kilni_http_request *request = place ? take_wanted(lane) : NULL;
    while (request) {
        kiln_status status = KILN_OK;
        request->patience_ns = patience_of(lane->client, request->lane);
        if (*place) {
            kilni_http_connection_ask(*place, request);
        } else {
            status = connect_to(lane, request, place);
        }
        if (status != KILN_OK) {
            note_failure(lane->client, status, false);
            finish(request, status);
        }
        place = free_place(lane);
        request = place ? take_wanted(lane) : NULL;
    }
}

static void found(kilni_host *host, kiln_status status)
{
    kilni_http_client *client =
        (kilni_http_client *)((char *)host - offsetof(kilni_http_client, host));
    if (status != KILN_OK) {
        note_failure(client, status, false);
    }
    for (size_t i = 0; i < KILNI_HTTP_LANES; i++) {
        if (status == KILN_OK) {
            send_waiting(&client->lanes[i]);
        } else {
            finish_waiting(&client->lanes[i], status);
        }
    }
}

static void submit(kilni_http_client *client, kilni_http_request *request)
{
    http_lane *lane = &client->lanes[request->lane];
    if (client->is_closed || kilni_call_is_abandoned(&request->call)) {
        finish(request, KILN_TIMEOUT);
        return;
    }
    append(&lane->waiting, request);
    const kiln_status status = kilni_host_find(&client->host);
    if (status == KILN_OK) {
        send_waiting(lane);
    } else if (status != KILN_BUSY) {
        finish_waiting(lane, status);
    }
}

/* Prepares the client for use in this forked child. Does not touch the state of the parent's I/O
 * thread, because that thread may have been changing it during the fork. */
static void begin_process(kilni_http_client *client)
{
    client->process = kilni_loop_process();
    for (size_t i = 0; i < KILNI_HTTP_LANES; i++) {
        memset(client->lanes[i].connections, 0, sizeof client->lanes[i].connections);
        empty(&client->lanes[i].waiting);
    }
    kilni_host_forget(&client->host);
}

static void run(kilni_task *task)
{
    kilni_http_request *request = (kilni_http_request *)task;
    kilni_http_client *client = request->owner;
    if (client->process != kilni_loop_process()) {
        begin_process(client);
    }
    submit(client, request);
}

/* ---- calls by connections ---- */

static void remove_connection(http_lane *lane, const kilni_http_connection *connection)
{
    for (size_t i = 0; i < lane->count; i++) {
        if (lane->connections[i] == connection) {
            lane->connections[i] = NULL;
        }
    }
}

/* Called when an answer has arrived. Even an answer that reports a failure is recorded as an
 * answer, because the server did not keep the caller waiting. */
static kilni_http_request *answered(kilni_http_owner *owner, kilni_http_connection *connection,
                                    kilni_http_request *request, bool goes_on)
{
    http_lane *lane = (http_lane *)owner;
    kilni_breaker_note_answer(&lane->client->breaker, kilni_clock_ns());
    finish(request, KILN_OK);
    if (goes_on) {
        kilni_http_request *next = take_wanted(lane);
        if (next) {
            next->patience_ns = patience_of(lane->client, next->lane);
        }
        return next;
    }
    remove_connection(lane, connection);
    send_waiting(lane);
    return NULL;
}

/* Returns true if a request can be repeated on a new connection. There are two reasons to repeat
 * it: the server has closed a connection that was idle for a long time, or no server has received
 * the request, so the next address can be tried. */
static bool may_resend(const kilni_http_client *client, const kilni_http_end *how,
                       kilni_http_request *request)
{
    if (client->is_closed || how->status != KILN_E_IO || request->reader.has_begun) {
        return false;
    }
    if (!how->was_connected) {
        return ++request->hops < client->host.count;
    }
    const bool may_repeat = request->may_repeat && !request->is_repeated;
    request->is_repeated = true;
    return may_repeat && how->was_answered;
}

/* Called when a connection has ended. If the connection could not be established, all requests that
 * wait for a connection fail with the same status. */
static void ended(kilni_http_owner *owner, kilni_http_connection *connection,
                  const kilni_http_end *how)
{
    http_lane *lane = (http_lane *)owner;
    kilni_http_client *client = lane->client;
    kilni_http_request *request = how->unfinished;
    remove_connection(lane, connection);
    if (!how->was_connected) {
        kilni_host_try_next(&client->host);
    }
    if (!request) {
        return;
    }
    if (may_resend(client, how, request)) {
        kilni_http_request_rewind(request);
        submit(client, request);
        return;
    }
    if (!client->is_closed) {
        note_failure(client, how->status, how->was_connected);
    }
    finish(request, how->status);
    if (how->was_connected) {
        send_waiting(lane);
    } else {
        finish_waiting(lane, how->status);
    }
}

/* ---- the interface ---- */

kiln_status kilni_http_client_new(const kilni_http_settings *settings, void *owned,
                                  kilni_http_client **ret_client)
{
    kilni_http_client *client = calloc(1, sizeof *client);
    if (!client) {
        return KILN_E_NO_MEMORY;
    }
    client->settings = *settings;
    client->owned = owned;
    client->breaker.file = settings->state_file;
    if (settings->tls) {
        client->tls = *settings->tls;
    }
    client->host = (kilni_host){.name = settings->host, .port = settings->port, .found = found};
    for (size_t i = 0; i < KILNI_HTTP_LANES; i++) {
        client->lanes[i] = (http_lane){
            .owner = {answered, ended}, .client = client, .count = connection_counts[i]};
    }
    atomic_init(&client->references, 1);
    atomic_init(&client->asked_in, NO_PROCESS);
    client->process = NO_PROCESS;
    *ret_client = client;
    return KILN_OK;
}

static void close_lane(http_lane *lane)
{
    finish_waiting(lane, KILN_E_IO);
    for (size_t i = 0; i < lane->count; i++) {
        kilni_http_connection *connection = lane->connections[i];
        kilni_http_request *request = connection ? kilni_http_connection_close(connection) : NULL;
        lane->connections[i] = NULL;
        if (request) {
            finish(request, KILN_E_IO);
        }
    }
}

static void close_on_thread(kilni_task *task)
{
    kilni_http_client *client = (kilni_http_client *)task;
    client->is_closed = true;
    kilni_host_abandon(&client->host);
    for (size_t i = 0; i < KILNI_HTTP_LANES; i++) {
        close_lane(&client->lanes[i]);
    }
    drop_reference(client);
}

/* If this process has never used the client, the I/O thread does not refer to the client, which is
 * then freed immediately. If the I/O thread has ended, the objects to which it referred can never
 * be freed. */
void kilni_http_client_close(kilni_http_client *client)
{
    client->closing.run = close_on_thread;
    if (atomic_load_explicit(&client->asked_in, memory_order_relaxed) != kilni_loop_process()) {
        drop_reference(client);
    } else {
        kilni_loop_post(&client->closing);
    }
}

kiln_status kilni_http_client_prepare(kilni_http_client *client, unsigned lane,
                                      uint64_t deadline_ns, kilni_http_request **ret_request)
{
    const kiln_status status = kilni_http_request_new(run, deadline_ns, ret_request);
    if (status == KILN_OK) {
        atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
        (*ret_request)->owner = client;
        (*ret_request)->forget = forget;
        (*ret_request)->lane = lane;
        (*ret_request)->may_repeat = lane == KILNI_HTTP_LANE_LOOKUPS;
    }
    return status;
}

kiln_status kilni_http_client_start(kilni_http_client *client, kilni_http_request *request)
{
    if (!kilni_breaker_admits(&client->breaker, kilni_clock_ns())) {
        return KILN_E_IO;
    }
    atomic_store_explicit(&client->asked_in, kilni_loop_process(), memory_order_relaxed);
    request->reader.answers_head = request->asks_head;
    return kilni_call_start(&request->call);
}

/* Treats a server that does not answer in time like a server that cannot be reached. */
kiln_status kilni_http_client_wait(kilni_http_request *request)
{
    kilni_http_client *client = request->owner;
    kiln_status status = kilni_call_wait(&request->call);
    atomic_store_explicit(&client->is_late, status == KILN_TIMEOUT, memory_order_relaxed);
    if (status == KILN_OK) {
        status = request->status;
    }
    return status == KILN_TIMEOUT || status == KILN_E_CORRUPT ? KILN_E_IO : status;
}

kiln_status kilni_http_client_ask(kilni_http_client *client, kilni_http_request *request)
{
    const kiln_status status = kilni_http_client_start(client, request);
    return status == KILN_OK ? kilni_http_client_wait(request) : status;
}

void kilni_http_client_send(kilni_http_client *client, kilni_http_request *request)
{
    if (kilni_breaker_admits(&client->breaker, kilni_clock_ns())) {
        kilni_call_send(&request->call);
    } else {
        finish(request, KILN_E_IO);
    }
}

kilni_server_fault kilni_http_client_fault(const kilni_http_client *client)
{
    return atomic_load_explicit(&client->is_late, memory_order_relaxed)
               ? KILNI_FAULT_SILENT
               : kilni_breaker_fault(&client->breaker);
}

bool kilni_http_client_is_away(kilni_http_client *client, kilni_server_state *ret_state)
{
    return kilni_breaker_is_open(&client->breaker, kilni_clock_ns(), ret_state);
}

void kilni_http_client_rest(kilni_http_client *client, uint64_t duration_ns)
{
    kilni_breaker_rest(&client->breaker, kilni_clock_ns(), duration_ns, KILNI_FAULT_BUSY);
}
