/* SPDX-License-Identifier: Apache-2.0
 *
 * GET on a plain socket, and what the protocol needs to find the end of the answer.
 */
#include "fleet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_SIZE ((size_t)2 << 20)
#define PIECE_SIZE ((size_t)16 << 10)
#define COMMAND_SIZE (FLEET_NAME_SIZE + 32)

static int connection = -1;
static char *buffer;      /* what has arrived in one call */
static size_t used, next; /* how much of the buffer is filled, and has been read */

static void connect_to_server(const char *where)
{
    static const int on = 1;
    char host[64];
    unsigned port = 0;
    struct sockaddr_in address = {.sin_family = AF_INET};
    fleet_expect(sscanf(where, "%63[^:]:%u", host, &port) == 2 &&
                     inet_pton(AF_INET, host, &address.sin_addr) == 1,
                 where);
    address.sin_port = htons((uint16_t)port);
    connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fleet_expect(connection >= 0 &&
                     setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
                     connect(connection, (const struct sockaddr *)&address, sizeof address) == 0,
                 where);
    buffer = malloc(BUFFER_SIZE);
    fleet_expect(buffer != NULL, "out of memory");
}

static void disconnect(void)
{
    close(connection);
    free(buffer);
}

static void send_all(const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(connection, bytes, size, MSG_NOSIGNAL);
        fleet_expect(sent > 0, "send");
        bytes += sent;
        size -= (size_t)sent;
    }
}

static size_t receive(void *bytes, size_t size)
{
    const ssize_t got = recv(connection, bytes, size, 0);
    fleet_expect(got > 0, "the server closed the connection");
    return (size_t)got;
}

/* Returns the size of the next value; -1: there is none.
 *
 * @piece  how many bytes may be received at a time */
static long read_size(size_t piece)
{
    const char *end;
    while (!(end = memchr(buffer + next, '\n', used - next))) {
        used += receive(buffer + used, piece);
    }
    fleet_expect(buffer[next] == '$', "no value");
    const long size = strtol(buffer + next + 1, NULL, 10);
    next = (size_t)(end + 1 - buffer);
    return size;
}

static size_t write_command(char *text, const char *name)
{
    return (size_t)snprintf(text, COMMAND_SIZE, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(name),
                            name);
}

static long get(const char *name, const unsigned char **ret_value)
{
    char command[COMMAND_SIZE];
    used = next = 0;
    send_all(command, write_command(command, name));
    const long size = read_size(BUFFER_SIZE);
    *ret_value = (const unsigned char *)buffer + next;
    fleet_expect(size < (long)(BUFFER_SIZE - next - 2), "the value is too large");
    while (size >= 0 && used < next + (size_t)size + 2) {
        used += receive(buffer + used, BUFFER_SIZE - used);
    }
    return size;
}

/* Reads the next value into memory of its own. Bytes that have already arrived are copied, and the
 * others are received in their place, together with the line's end. */
static size_t read_own_value(void **ret_value)
{
    const long size = read_size(PIECE_SIZE);
    fleet_expect(size >= 0, "no value");
    const size_t wanted = (size_t)size + 2;
    char *value = malloc(wanted);
    fleet_expect(value != NULL, "out of memory");
    size_t filled = used - next < wanted ? used - next : wanted;
    memcpy(value, buffer + next, filled);
    next += filled;
    if (next == used) {
        next = used = 0;
    }
    while (filled < wanted) {
        filled += receive(value + filled, wanted - filled);
    }
    *ret_value = value;
    return (size_t)size;
}

static size_t get_many(char names[FLEET_BATCH][FLEET_NAME_SIZE], void *ret_values[FLEET_BATCH])
{
    char commands[FLEET_BATCH * COMMAND_SIZE];
    size_t length = 0, sum = 0;
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        length += write_command(commands + length, names[i]);
    }
    used = next = 0;
    send_all(commands, length);
    for (size_t i = 0; i < FLEET_BATCH; i++) {
        sum += read_own_value(&ret_values[i]);
    }
    return sum;
}

const fleet_peer fleet_redis = {
    .connect = connect_to_server, .get = get, .get_many = get_many, .disconnect = disconnect};
