/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/connection.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "os/clock.h"

#define BUFFER_SIZE 16384u
#define RECEIVES_IN_A_ROW 16u
#define NS_PER_MS UINT64_C(1000000)

/* How long a server that has answered before may be silent. The first value applies before the
 * first byte of a reply, the second within a reply. */
#define PATIENCE_NS (500 * NS_PER_MS)
#define PATIENCE_WITHIN_NS (1000 * NS_PER_MS)

/* The maximum sizes that a server may announce: the size of the largest value that Redis stores,
 * and a number of values that no SCAN exceeds. Exchanges have lower limits. */
#define MAX_BLOB (UINT64_C(512) << 20)
#define MAX_VALUES 100000u

struct kilni_redis_connection {
    kilni_stream stream; /* first: a connection is a stream */
    kilni_redis_owner *owner;
    kilni_timer silence;
    bool is_connected;
    bool was_answered;
    uint64_t patience_ns; /* how long to wait for the first answer */
    uint64_t active_ns;   /* when bytes were last sent or received, or an idle connection got an
                             exchange */

    kilni_redis_exchange *first, **last; /* the exchanges that still wait for replies */
    kilni_redis_exchange *unsent;        /* the first exchange that is not completely sent */
    kilni_redis_exchange *greeting;      /* NULL: there was none, or it was answered */

    kilni_resp_reader reader;
    unsigned char buffer[BUFFER_SIZE];
};

/* ---- the end ---- */

static void stop(kilni_redis_connection *connection)
{
    kilni_timer_stop(&connection->silence);
    kilni_stream_close(&connection->stream);
}

/* Returns the unfinished exchanges, without the greeting. Releases the greeting, because only this
 * connection refers to it. */
static kilni_redis_exchange *take_unfinished(kilni_redis_connection *connection)
{
    kilni_redis_exchange *unfinished = connection->first;
    if (connection->greeting) {
        unfinished = connection->greeting->next;
        kilni_call_release(&connection->greeting->call);
    }
    return unfinished;
}

static void end(kilni_redis_connection *connection, kiln_status status)
{
    const kilni_redis_end how = {.status = status,
                                 .was_connected = connection->is_connected,
                                 .was_answered = connection->was_answered,
                                 .unfinished = take_unfinished(connection)};
    stop(connection);
    connection->owner->ended(connection->owner, &how);
    free(connection);
}

kilni_redis_exchange *kilni_redis_connection_close(kilni_redis_connection *connection)
{
    stop(connection);
    kilni_redis_exchange *unfinished = take_unfinished(connection);
    free(connection);
    return unfinished;
}

/* ---- silence ---- */

static uint64_t patience_of(const kilni_redis_connection *connection)
{
    if (!kilni_resp_is_between_replies(&connection->reader)) {
        return PATIENCE_WITHIN_NS;
    }
    return connection->was_answered ? PATIENCE_NS : connection->patience_ns;
}

/* Returns the time at which the connection is closed if no bytes arrive until then. If a server
 * keeps sending, but never completes a reply, the connection is closed shortly after the deadline.
 */
static uint64_t end_of_patience(const kilni_redis_connection *connection)
{
    const uint64_t silent_ns = connection->active_ns + patience_of(connection);
    const uint64_t late_ns =
        connection->first ? connection->first->call.deadline_ns + PATIENCE_WITHIN_NS : silent_ns;
    return late_ns < silent_ns ? late_ns : silent_ns;
}

/* Closes the connection if the server has been silent for too long. The timer is not restarted when
 * bytes arrive. Instead, this function compares the times when the timer expires. */
static void judge_silence(kilni_timer *timer)
{
    kilni_redis_connection *connection =
        (kilni_redis_connection *)((char *)timer - offsetof(kilni_redis_connection, silence));
    if (connection->is_connected && !connection->first) {
        return;
    }
    const uint64_t until_ns = end_of_patience(connection);
    if (kilni_clock_ns() < until_ns) {
        kilni_timer_start(timer, until_ns);
    } else {
        end(connection, KILN_TIMEOUT);
    }
}

static void expect_answer(kilni_redis_connection *connection)
{
    connection->active_ns = kilni_clock_ns();
    kilni_timer_start(&connection->silence, end_of_patience(connection));
}

/* ---- sending ---- */

static kiln_status send_exchange(kilni_redis_connection *connection, kilni_redis_exchange *exchange)
{
    while (exchange->sent < exchange->commands.length) {
        size_t count = 0;
        const kiln_status status =
            kilni_stream_send(&connection->stream, exchange->commands.bytes + exchange->sent,
                              exchange->commands.length - exchange->sent, &count);
        if (status != KILN_OK) {
            return status;
        }
        exchange->sent += count;
        connection->active_ns = kilni_clock_ns();
    }
    return KILN_OK;
}

/* Sends as much as it can without blocking. Returns KILN_OK; KILN_E_IO; KILN_E_DENIED. */
static kiln_status send_all(kilni_redis_connection *connection)
{
    kiln_status status = KILN_OK;
    while (connection->unsent && status == KILN_OK) {
        status = send_exchange(connection, connection->unsent);
        if (status == KILN_OK) {
            connection->unsent = connection->unsent->next;
        }
    }
    if (status != KILN_OK && status != KILN_BUSY) {
        return status;
    }
    return kilni_socket_wait_for(&connection->stream.socket,
                                 EPOLLIN | (connection->unsent ? EPOLLOUT : 0u));
}

/* ---- receiving ---- */

/* Returns true if a server replies that it needs no password. This is not an error, because a
 * password from the environment is sent to all servers. Redis sends the first text from version 6
 * on, and the second text in earlier versions. */
static bool is_open_to_all(const kilni_redis_value *value)
{
    const char *text = (const char *)value->data;
    return strstr(text, "without any password configured") || strstr(text, "no password is set");
}

static kiln_status judge_greeting(const kilni_redis_exchange *greeting)
{
    for (size_t i = 0; i < greeting->value_count; i++) {
        if (greeting->values[i].kind == KILNI_RESP_ERROR && !is_open_to_all(&greeting->values[i])) {
            return KILN_E_DENIED;
        }
    }
    return KILN_OK;
}

/* Called when all replies to the first exchange have arrived. */
static kiln_status finish_first(kilni_redis_connection *connection)
{
    kilni_redis_exchange *exchange = connection->first;
    kiln_status status = KILN_OK;
    if (connection->unsent == exchange) {
        return KILN_E_CORRUPT; /* a reply without a command */
    }
    if (connection->greeting) {
        status = judge_greeting(exchange);
        if (status != KILN_OK) {
            return status;
        }
    }
    connection->first = exchange->next;
    if (!connection->first) {
        connection->last = &connection->first;
    }
    if (connection->greeting) {
        connection->greeting = NULL;
        kilni_call_release(&exchange->call);
    } else {
        connection->was_answered = true;
        connection->owner->answered(connection->owner, exchange);
        kilni_redis_exchange_end(exchange, KILN_OK);
    }
    return KILN_OK;
}

static kiln_status take_event(kilni_redis_connection *connection, const kilni_resp_event *event)
{
    if (event->is_aside) {
        return KILN_OK;
    }
    if (!connection->first) {
        return KILN_E_CORRUPT;
    }
    const kiln_status status = kilni_redis_exchange_take(connection->first, event);
    return status == KILN_OK && connection->first->replies_left == 0 ? finish_first(connection)
                                                                     : status;
}

static kiln_status parse(kilni_redis_connection *connection, const unsigned char *bytes,
                         size_t size)
{
    kilni_byte_reader input = {.at = bytes, .left = size};
    for (;;) {
        kilni_resp_event event;
        kiln_status status = KILN_OK;
        switch (kilni_resp_next(&connection->reader, &input, &event)) {
        case KILNI_RESP_MORE:
            return KILN_OK;
        case KILNI_RESP_BROKEN:
            return KILN_E_CORRUPT;
        case KILNI_RESP_EVENT:
            status = take_event(connection, &event);
        }
        if (status != KILN_OK) {
            return status;
        }
    }
}

/* Handles bytes that were received directly into the place of the present blob.
 *
 * @left  how many bytes of the blob were missing. Bytes beyond this number are its end */
static kiln_status take_in_place(kilni_redis_connection *connection, size_t count, uint64_t left)
{
    unsigned char end[KILNI_RESP_BLOB_END_SIZE];
    const size_t of_blob = count < left ? count : (size_t)left;
    const size_t of_end = count - of_blob;
    memcpy(end, kilni_redis_exchange_place(connection->first) + of_blob, of_end);
    kilni_resp_skip(&connection->reader, of_blob);
    kilni_redis_exchange_arrived(connection->first, of_blob);
    return of_end > 0 ? parse(connection, end, of_end) : KILN_OK;
}

/* Receives once. The bytes of a blob go directly to their final place, together with its end, and
 * all other bytes go into the buffer. */
static kiln_status receive_some(kilni_redis_connection *connection)
{
    unsigned char *place = connection->first ? kilni_redis_exchange_place(connection->first) : NULL;
    const uint64_t blob_left = kilni_resp_blob_left(&connection->reader);
    const bool is_in_place = place && blob_left > 0;
    size_t count = 0;
    const kiln_status status =
        is_in_place
            ? kilni_stream_receive(&connection->stream, place,
                                   (size_t)blob_left + KILNI_RESP_BLOB_END_SIZE, &count)
            : kilni_stream_receive(&connection->stream, connection->buffer, BUFFER_SIZE, &count);
    if (status != KILN_OK) {
        return status;
    }
    connection->active_ns = kilni_clock_ns();
    return is_in_place ? take_in_place(connection, count, blob_left)
                       : parse(connection, connection->buffer, count);
}

/* Reads only a part of the bytes that have arrived, because a server might send faster than this
 * thread reads. In that case, the thread must still serve its other sockets and its timers. Epoll
 * reports the remaining bytes again. */
static kiln_status receive_part(kilni_redis_connection *connection)
{
    kiln_status status = KILN_OK;
    for (unsigned i = 0;
         status == KILN_OK && (i < RECEIVES_IN_A_ROW || kilni_stream_has_more(&connection->stream));
         i++) {
        status = receive_some(connection);
    }
    return status == KILN_BUSY ? KILN_OK : status;
}

static kiln_status become_connected(kilni_redis_connection *connection)
{
    const kiln_status status = kilni_stream_check(&connection->stream);
    if (status == KILN_OK) {
        connection->is_connected = true;
        connection->active_ns = kilni_clock_ns();
    }
    return status;
}

static void ready(kilni_socket *socket, uint32_t events)
{
    (void)events;
    kilni_redis_connection *connection = (kilni_redis_connection *)socket;
    kiln_status status = connection->is_connected ? KILN_OK : become_connected(connection);
    if (status == KILN_BUSY) {
        return;
    }
    if (status == KILN_OK) {
        status = receive_part(connection);
    }
    if (status == KILN_OK) {
        status = send_all(connection);
    }
    if (status != KILN_OK) {
        end(connection, status);
    }
}

/* ---- the interface ---- */

kiln_status kilni_redis_connection_new(kilni_redis_owner *owner, const kilni_address *address,
                                       const kilni_tls_settings *tls,
                                       kilni_redis_exchange *greeting, uint64_t patience_ns,
                                       kilni_redis_connection **ret_connection)
{
    kilni_redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        return KILN_E_NO_MEMORY;
    }
    connection->owner = owner;
    connection->patience_ns = patience_ns;
    connection->last = &connection->first;
    connection->reader.limits = (kilni_resp_limits){.max_blob = MAX_BLOB, .max_values = MAX_VALUES};
    connection->stream.socket.ready = ready;
    connection->silence.expire = judge_silence;
    const kiln_status status = kilni_stream_open(&connection->stream, address, tls);
    if (status != KILN_OK) {
        free(connection);
        return status;
    }
    if (greeting) {
        connection->greeting = greeting;
        connection->first = greeting;
        connection->unsent = greeting;
        connection->last = &greeting->next;
    }
    expect_answer(connection);
    *ret_connection = connection;
    return KILN_OK;
}

void kilni_redis_connection_send(kilni_redis_connection *connection, kilni_redis_exchange *exchange)
{
    const bool is_idle = connection->is_connected && !connection->first;
    exchange->next = NULL;
    *connection->last = exchange;
    connection->last = &exchange->next;
    connection->unsent = connection->unsent ? connection->unsent : exchange;
    if (is_idle) {
        expect_answer(connection);
    }
    const kiln_status status = connection->is_connected ? send_all(connection) : KILN_OK;
    if (status != KILN_OK) {
        end(connection, status);
    }
}

bool kilni_redis_connection_is_busy(const kilni_redis_connection *connection)
{
    return connection->first != NULL;
}
