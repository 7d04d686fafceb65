/* SPDX-License-Identifier: Apache-2.0
 *
 * Real Redis servers for tests, on a Unix socket in a scratch directory and a free port of the
 * loopback interface. They write nothing to disk, and are killed when the test ends.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "support/free_port.h"

typedef struct redis_server {
    pid_t process; /* 0: the server does not run */
    unsigned port;
    char socket[100];
} redis_server;

/* Returns the path of the server's program, or NULL if none is installed. The variable REDIS_SERVER
 * can name another server of this protocol. */
static inline const char *redis_program(void)
{
    static const char *const programs[] = {"/usr/bin/redis-server", "/usr/local/bin/redis-server",
                                           "/usr/bin/valkey-server"};
    const char *named = getenv("REDIS_SERVER");
    if (named) {
        return access(named, X_OK) == 0 ? named : NULL;
    }
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (access(programs[i], X_OK) == 0) {
            return programs[i];
        }
    }
    return NULL;
}

/* Ends the test program as skipped if there is no server to test with. */
static inline void redis_require(void)
{
    if (!redis_program()) {
        printf("no Redis server: scripts/install-deps --fleet installs it\n");
        exit(77);
    }
}

/* Connects to the server's socket. Returns -1 if the server does not accept. */
static inline int redis_dial(const redis_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server->socket);
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && connect(file, (struct sockaddr *)&address, sizeof address) != 0) {
        close(file);
        return -1;
    }
    return file;
}

/* Sends a command in the protocol's one-line form. Returns the first bytes of the reply, up to a
 * zero byte, in a buffer that the next call overwrites; "" if there was no reply. */
static inline const char *redis_say(const redis_server *server, const char *command)
{
    static char reply[4096];
    char line[1024];
    const int file = redis_dial(server);
    const int length = snprintf(line, sizeof line, "%s\r\n", command);
    reply[0] = '\0';
    if (file >= 0 && write(file, line, (size_t)length) == length) {
        const ssize_t count = read(file, reply, sizeof reply - 1);
        reply[count > 0 ? count : 0] = '\0';
    }
    if (file >= 0) {
        close(file);
    }
    return reply;
}

/* Returns a number from a server's reply to INFO; 0: it is not there.
 *
 * @connection  of redis_dial; the server reads from it once for each call */
static inline unsigned long redis_info(int connection, const char *section, const char *field)
{
    char text[16384];
    const int length = snprintf(text, sizeof text, "INFO %s\r\n", section);
    if (write(connection, text, (size_t)length) != length) {
        abort();
    }
    const ssize_t size = read(connection, text, sizeof text - 1);
    if (size <= 0) {
        abort();
    }
    text[size] = '\0';
    const char *found = strstr(text, field);
    return found ? strtoul(found + strlen(field), NULL, 10) : 0;
}

static inline void redis_run(const redis_server *server, const char *const *options)
{
    char port[16];
    const char *arguments[64] = {redis_program(),
                                 "--port",
                                 port,
                                 "--unixsocket",
                                 server->socket,
                                 "--unixsocketperm",
                                 "700",
                                 "--bind",
                                 "127.0.0.1",
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "no",
                                 "--logfile",
                                 "/dev/null"};
    size_t count = 15;
    snprintf(port, sizeof port, "%u", server->port);
    while (*options && count < 63) {
        arguments[count++] = *options++;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
        _exit(126);
    }
    union {
        const char *const *given;
        char *const *wanted;
    } vector = {.given = arguments};
    execv(arguments[0], vector.wanted);
    _exit(127);
}

/* Starts a server on its port. Returns false if the server does not accept connections. */
static inline bool redis_start_again(redis_server *server, const char *const *options)
{
    server->process = fork();
    if (server->process == 0) {
        redis_run(server, options);
    }
    for (unsigned i = 0; i < 1000; i++) {
        const char *reply = redis_say(server, "PING");
        if (reply[0] != '\0') {
            return true;
        }
        if (waitpid(server->process, NULL, WNOHANG) == server->process) {
            server->process = 0;
            return false;
        }
        kilni_sleep_ns(10000000);
    }
    return false;
}

/* Starts a server. Tries several ports, because another program may take a port that has just been
 * free.
 *
 * @folder   the folder for the server's socket
 * @options  options as on the server's command line; ends with NULL */
static inline bool redis_start(redis_server *server, const char *folder, const char *const *options)
{
    for (unsigned i = 0; i < 5; i++) {
        server->port = free_port();
        const int length =
            snprintf(server->socket, sizeof server->socket, "%s/redis-%u", folder, server->port);
        if (length < (int)sizeof server->socket && redis_start_again(server, options)) {
            return true;
        }
    }
    return false;
}

static inline void redis_stop(redis_server *server)
{
    if (server->process > 0) {
        kill(server->process, SIGKILL);
        while (waitpid(server->process, NULL, 0) < 0 && errno == EINTR) {
        }
        unlink(server->socket);
        server->process = 0;
    }
}
