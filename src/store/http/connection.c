/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/connection.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "os/clock.h"

#define BUFFER_SIZE 16384u
#define RECEIVES_IN_A_ROW 16u
#define NS_PER_MS UINT64_C(1000000)

/* How long a server may be silent within an answer, and how long after a request's deadline the
 * connection is closed. */
#define PATIENCE_WITHIN_NS (1000 * NS_PER_MS)

struct kilni_http_connection {
    kilni_stream stream; /* first: a connection is a stream */
    kilni_http_owner *owner;
    kilni_timer silence;
    bool is_connected;
    bool was_answered;
    uint64_t connecting_ns; /* the maximum time to connect */
    uint64_t active_ns;     /* when bytes were last sent or received, or an idle connection got a
                               request */
    kilni_http_request *request; /* NULL: the connection is idle */
    unsigned char buffer[BUFFER_SIZE];
};

/* ---- the end ---- */

kilni_http_request *kilni_http_connection_close(kilni_http_connection *connection)
{
    kilni_http_request *request = connection->request;
    kilni_timer_stop(&connection->silence);
    kilni_stream_close(&connection->stream);
    free(connection);
    return request;
}

static void end(kilni_http_connection *connection, kiln_status status)
{
    const kilni_http_end how = {.status = status,
                                .was_connected = connection->is_connected,
                                .was_answered = connection->was_answered,
                                .unfinished = connection->request};
    connection->owner->ended(connection->owner, connection, &how);
    kilni_http_connection_close(connection);
}

/* ---- silence ---- */

static uint64_t patience_of(const kilni_http_connection *connection)
{
    if (!connection->is_connected) {
        return connection->connecting_ns;
    }
    return connection->request->reader.has_begun ? PATIENCE_WITHIN_NS
                                                 : connection->request->patience_ns;
}

/* Returns the time at which the connection is closed if no bytes arrive until then. If a server
 * keeps sending, but never completes an answer, the connection is closed shortly after the
 * deadline. */
static uint64_t end_of_patience(const kilni_http_connection *connection)
{
    const uint64_t silent_ns = connection->active_ns + patience_of(connection);
    const uint64_t late_ns = connection->request->call.deadline_ns + PATIENCE_WITHIN_NS;
    return late_ns < silent_ns ? late_ns : silent_ns;
}

/* Closes the connection if the server has been silent for too long. The timer is not restarted when
 * bytes arrive. Instead, this function compares the times when the timer expires. */
static void judge_silence(kilni_timer *timer)
{
    kilni_http_connection *connection =
        (kilni_http_connection *)((char *)timer - offsetof(kilni_http_connection, silence));
    if (!connection->request) {
        return;
    }
    const uint64_t until_ns = end_of_patience(connection);
    if (kilni_clock_ns() < until_ns) {
        kilni_timer_start(timer, until_ns);
    } else {
        end(connection, KILN_TIMEOUT);
    }
}

static void expect_answer(kilni_http_connection *connection, kilni_http_request *request)
{
    connection->request = request;
    connection->active_ns = kilni_clock_ns();
    kilni_timer_start(&connection->silence, end_of_patience(connection));
}

/* ---- sending ---- */

/* Sends as much of the request as it can without blocking. Returns KILN_OK; KILN_E_IO;
 * KILN_E_DENIED. */
static kiln_status send_request(kilni_http_connection *connection)
{
    kilni_http_request *request = connection->request;
    kiln_status status = KILN_OK;
    while (request && status == KILN_OK && request->sent < request->text.length) {
        size_t count = 0;
        status = kilni_stream_send(&connection->stream, request->text.bytes + request->sent,
                                   request->text.length - request->sent, &count);
        if (status == KILN_OK) {
            request->sent += count;
            connection->active_ns = kilni_clock_ns();
        }
    }
    if (status != KILN_OK && status != KILN_BUSY) {
        return status;
    }
    return kilni_socket_wait_for(&connection->stream.socket,
                                 EPOLLIN | (status == KILN_BUSY ? EPOLLOUT : 0u));
}

/* ---- receiving ---- */

/* Gives the answered request to the owner, and gets the next request from the owner. Returns false
 * if the connection was freed. */
static bool finish(kilni_http_connection *connection)
{
    kilni_http_request *request = connection->request;
    const bool goes_on = kilni_http_request_leaves_connection(request);
    connection->request = NULL;
    connection->was_answered = true;
    request = connection->owner->answered(connection->owner, connection, request, goes_on);
    if (!goes_on) {
        kilni_http_connection_close(connection);
    } else if (request) {
        expect_answer(connection, request);
    }
    return goes_on;
}

/* Handles the bytes that have arrived in the buffer. Bytes without a request, or after a complete
 * answer, are an error. */
static kiln_status take(kilni_http_connection *connection, size_t size)
{
    kilni_byte_reader input = {.at = connection->buffer, .left = size};
    if (!connection->request || connection->request->sent == 0) {
        return KILN_E_CORRUPT;
    }
    const kiln_status status = kilni_http_request_take(connection->request, &input);
    return status == KILN_OK && input.left > 0 &&
                   kilni_http_request_leaves_connection(connection->request)
               ? KILN_E_CORRUPT
               : status;
}

/* Receives once. The bytes of a body go directly to their final place, and all other bytes go into
 * the buffer. Sets @ret_is_empty to true if there was nothing to receive. Returns KILN_OK: the
 * answer is complete; KILN_BUSY: more bytes must arrive. */
static kiln_status receive_some(kilni_http_connection *connection, bool *ret_is_empty)
{
    size_t room = 0;
    unsigned char *place =
        connection->request ? kilni_http_request_place(connection->request, &room) : NULL;
    size_t count = 0;
    const kiln_status status =
        place ? kilni_stream_receive(&connection->stream, place, room, &count)
              : kilni_stream_receive(&connection->stream, connection->buffer, BUFFER_SIZE, &count);
    *ret_is_empty = status == KILN_BUSY;
    if (status != KILN_OK) {
        return status;
    }
    connection->active_ns = kilni_clock_ns();
    return place ? kilni_http_request_arrived(connection->request, count) : take(connection, count);
}

/* Reads only a part of the bytes that have arrived, because a server might send faster than this
 * thread reads. In that case, the thread must still serve its other sockets and its timers. Epoll
 * reports the remaining bytes again. */
static kiln_status receive_part(kilni_http_connection *connection)
{
    kiln_status status = KILN_BUSY;
    bool is_empty = false;
    for (unsigned i = 0; status == KILN_BUSY && !is_empty &&
                         (i < RECEIVES_IN_A_ROW || kilni_stream_has_more(&connection->stream));
         i++) {
        status = receive_some(connection, &is_empty);
    }
    return status;
}

static kiln_status become_connected(kilni_http_connection *connection)
{
    const kiln_status status = kilni_stream_check(&connection->stream);
    if (status == KILN_OK) {
        connection->is_connected = true;
        connection->active_ns = kilni_clock_ns();
    }
    return status;
}

/* Called when the socket is ready. Receives before it sends, because a server that refuses a
 * request can answer before it has received the whole request. */
static void ready(kilni_socket *socket, uint32_t events)
{
    (void)events;
    kilni_http_connection *connection = (kilni_http_connection *)socket;
    kiln_status status = connection->is_connected ? KILN_OK : become_connected(connection);
    if (status == KILN_BUSY) {
        return;
    }
    if (status == KILN_OK) {
        status = receive_part(connection);
    }
    if (status == KILN_OK && !finish(connection)) {
        return;
    }
    if (status == KILN_OK || status == KILN_BUSY) {
        status = send_request(connection);
    }
    if (status != KILN_OK) {
        end(connection, status);
    }
}

/* ---- the interface ---- */

kiln_status kilni_http_connection_new(kilni_http_owner *owner, const kilni_address *address,
                                      const kilni_tls_settings *tls, uint64_t connecting_ns,
                                      kilni_http_request *request,
                                      kilni_http_connection **ret_connection)
{
    kilni_http_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return KILN_E_NO_MEMORY;
    }
    connection->owner = owner;
    connection->connecting_ns = connecting_ns;
    connection->stream.socket.ready = ready;
    connection->silence.expire = judge_silence;
    const kiln_status status = kilni_stream_open(&connection->stream, address, tls);
    if (status != KILN_OK) {
        free(connection);
        return status;
    }
    expect_answer(connection, request);
    *ret_connection = connection;
    return KILN_OK;
}

void kilni_http_connection_ask(kilni_http_connection *connection, kilni_http_request *request)
{
    expect_answer(connection, request);
    const kiln_status status = send_request(connection);
    if (status != KILN_OK) {
        end(connection, status);
    }
}

bool kilni_http_connection_is_busy(const kilni_http_connection *connection)
{
    return connection->request != NULL;
}
