/* SPDX-License-Identifier: Apache-2.0
 *
 * A proxy that corrupts a server's answers to a client. It listens on loopback, has a thread for
 * each connection, and reads the fault anew for each piece of an answer.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"

typedef enum fault {
    FAULT_NONE,
    FAULT_CUT,     /* the proxy closes the connection normally */
    FAULT_RESET,   /* the proxy resets the connection */
    FAULT_SILENCE, /* the rest of the answer is not sent */
    FAULT_DRIP,    /* the rest is sent a byte at a time */
    FAULT_FLIP,    /* one bit of the next byte is flipped */
    /* A given text is sent instead of the rest, and then the connection is closed. The answer to a
     * HEAD ends at the text's empty line. */
    FAULT_TEXT,
    FAULT_ENDLESS, /* the same, but the connection stays open */
    FAULT_INSERT   /* the text is inserted into the answer */
} fault;

typedef struct fault_proxy {
    int listener;
    unsigned port, server_port;
    pthread_t thread;
    _Atomic int fault;
    _Atomic uint64_t drip_ns; /* between two bytes */
    _Atomic size_t after; /* this many bytes of a connection's answers are passed on unchanged */
    _Atomic(const char *) text;
    _Atomic unsigned accepted;
    _Atomic unsigned running; /* connections */
    _Atomic bool is_ending;
} fault_proxy;

typedef struct fault_connection {
    fault_proxy *proxy;
    int client, server;
    size_t passed;   /* bytes of answers */
    bool has_struck; /* FLIP and INSERT occur once in a connection */
    bool asks_head;  /* the last request is a HEAD */
} fault_connection;

static inline bool fault_write(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t count = send(file, bytes, size, MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

static inline bool fault_is_ending(const fault_proxy *proxy)
{
    return atomic_load(&proxy->is_ending);
}

/* Waits until the client has closed the connection. */
static inline void fault_wait_for_client(fault_connection *connection)
{
    char bytes[4096];
    struct pollfd wait = {.fd = connection->client, .events = POLLIN};
    while (!fault_is_ending(connection->proxy)) {
        if (poll(&wait, 1, 20) > 0 && read(connection->client, bytes, sizeof bytes) <= 0) {
            return;
        }
    }
}

static inline void fault_drip(fault_connection *connection, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size && !fault_is_ending(connection->proxy); i++) {
        if (!fault_write(connection->client, bytes + i, 1)) {
            return;
        }
        kilni_sleep_ns(atomic_load(&connection->proxy->drip_ns));
    }
}

static inline size_t fault_length_of(const fault_connection *connection, const char *text)
{
    const char *end = connection->asks_head ? strstr(text, "\r\n\r\n") : NULL;
    return end ? (size_t)(end - text) + 4 : strlen(text);
}

/* Applies the fault to the rest of an answer. Returns false if the connection ends. */
static inline bool fault_strike(fault_connection *connection, char *bytes, size_t size)
{
    const char *text = atomic_load(&connection->proxy->text);
    const struct linger at_once = {.l_onoff = 1};
    switch (atomic_load(&connection->proxy->fault)) {
    case FAULT_RESET:
        setsockopt(connection->client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return false;
    case FAULT_SILENCE:
        fault_wait_for_client(connection);
        return false;
    case FAULT_DRIP:
        fault_drip(connection, bytes, size);
        return true;
    case FAULT_FLIP:
        bytes[0] = (char)(bytes[0] ^ 0x10);
        return fault_write(connection->client, bytes, size);
    case FAULT_TEXT:
        fault_write(connection->client, text, fault_length_of(connection, text));
        return false;
    case FAULT_ENDLESS:
        while (!fault_is_ending(connection->proxy) &&
               fault_write(connection->client, text, strlen(text))) {
        }
        return false;
    case FAULT_INSERT:
        return fault_write(connection->client, text, strlen(text)) &&
               fault_write(connection->client, bytes, size);
    default:
        return false;
    }
}

/* Passes an answer on, up to the fault. Returns false if the connection ends. */
static inline bool fault_pass_answer(fault_connection *connection, char *bytes, size_t size)
{
    const fault_proxy *proxy = connection->proxy;
    const int kind = atomic_load(&proxy->fault);
    const size_t after = atomic_load(&proxy->after);
    const bool is_once = kind == FAULT_FLIP || kind == FAULT_INSERT;
    const size_t right = after > connection->passed ? after - connection->passed : 0;
    connection->passed += size;
    if (kind == FAULT_NONE || right >= size || (is_once && connection->has_struck)) {
        return fault_write(connection->client, bytes, size);
    }
    connection->has_struck = true;
    return fault_write(connection->client, bytes, right) &&
           fault_strike(connection, bytes + right, size - right);
}

static inline bool fault_pass(fault_connection *connection)
{
    char bytes[16384];
    struct pollfd wait[2] = {{.fd = connection->client, .events = POLLIN},
                             {.fd = connection->server, .events = POLLIN}};
    poll(wait, 2, 20);
    if (wait[0].revents) {
        const ssize_t count = read(connection->client, bytes, sizeof bytes);
        connection->asks_head = count > 5 && memcmp(bytes, "HEAD ", 5) == 0;
        return count > 0 && fault_write(connection->server, bytes, (size_t)count);
    }
    if (wait[1].revents) {
        const ssize_t count = read(connection->server, bytes, sizeof bytes);
        return count > 0 && fault_pass_answer(connection, bytes, (size_t)count);
    }
    return true;
}

static inline void *fault_serve(void *argument)
{
    fault_connection *connection = argument;
    fault_proxy *proxy = connection->proxy;
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)proxy->server_port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    connection->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection->server, (const struct sockaddr *)&address, sizeof address) == 0) {
        while (!fault_is_ending(proxy) && fault_pass(connection)) {
        }
    }
    close(connection->server);
    close(connection->client);
    free(connection);
    atomic_fetch_sub(&proxy->running, 1);
    return NULL;
}

static inline void *fault_accept(void *argument)
{
    fault_proxy *proxy = argument;
    struct pollfd wait = {.fd = proxy->listener, .events = POLLIN};
    while (!fault_is_ending(proxy)) {
        const int client =
            poll(&wait, 1, 20) > 0 ? accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        fault_connection *connection = client >= 0 ? calloc(1, sizeof *connection) : NULL;
        pthread_t thread;
        if (connection) {
            connection->proxy = proxy;
            connection->client = client;
            atomic_fetch_add(&proxy->accepted, 1);
            atomic_fetch_add(&proxy->running, 1);
            if (pthread_create(&thread, NULL, fault_serve, connection) != 0) {
                abort();
            }
            pthread_detach(thread);
        }
    }
    return NULL;
}

/* Starts a proxy in front of a server on loopback.
 *
 * @host, @port  where the proxy listens; port 0: the proxy chooses one */
static inline void fault_proxy_start_at(fault_proxy *proxy, unsigned server_port, uint32_t host,
                                        unsigned port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(host)};
    socklen_t size = sizeof address;
    memset(proxy, 0, sizeof *proxy);
    proxy->server_port = server_port;
    atomic_init(&proxy->drip_ns, 50000000);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(proxy->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(proxy->listener, 100) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&proxy->thread, NULL, fault_accept, proxy) != 0) {
        abort();
    }
    proxy->port = ntohs(address.sin_port);
}

static inline void fault_proxy_start(fault_proxy *proxy, unsigned server_port)
{
    fault_proxy_start_at(proxy, server_port, INADDR_LOOPBACK, 0);
}

/* From now on, answers are corrupted after @after bytes of each connection. */
static inline void fault_proxy_set(fault_proxy *proxy, fault kind, size_t after, const char *text)
{
    atomic_store(&proxy->after, after);
    atomic_store(&proxy->text, text);
    atomic_store(&proxy->fault, kind);
}

static inline void fault_proxy_stop(fault_proxy *proxy)
{
    atomic_store(&proxy->is_ending, true);
    pthread_join(proxy->thread, NULL);
    while (atomic_load(&proxy->running) > 0) {
        kilni_sleep_ns(1000000);
    }
    close(proxy->listener);
}
