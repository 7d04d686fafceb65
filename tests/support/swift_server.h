/* SPDX-License-Identifier: Apache-2.0
 *
 * A real S3 server for tests, on loopback: OpenStack Swift with s3api, with its files below a
 * scratch directory. It takes seconds to start, so a test program has one for all its cases. The
 * file system must have extended attributes for users.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "support/free_port.h"

typedef struct swift_server {
    pid_t process; /* 0: the server does not run */
    unsigned port;
} swift_server;

/* Ends the test program as skipped if there is no server to test with, or no place for its files.
 */
static inline void swift_require(const char *folder)
{
    static const char *const programs[] = {
        "/usr/bin/swift-proxy-server", "/usr/bin/memcached", "/usr/bin/swift-object-server",
        "/usr/bin/swift-container-server", "/usr/bin/swift-account-server"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (access(programs[i], X_OK) != 0) {
            printf("no OpenStack Swift: scripts/install-deps --s3 installs it\n");
            exit(77);
        }
    }
    if (setxattr(folder, "user.kiln", "x", 1, 0) != 0) {
        printf("%s: no extended attributes, which OpenStack Swift needs\n", folder);
        exit(77);
    }
}

/* Returns the first of five ports of loopback, none of which is in use at the moment. */
static inline unsigned swift_free_ports(void)
{
    for (;;) {
        const unsigned first = free_port();
        unsigned count = 0;
        while (count < 5 && first + count < 65536 && !port_is_open(first + count)) {
            count++;
        }
        if (count == 5) {
            return first;
        }
    }
}

static inline bool swift_start_once(swift_server *server, const char *folder, const char *script)
{
    char port[16];
    char answer[16] = "";
    int ends[2];
    server->port = swift_free_ports();
    snprintf(port, sizeof port, "%u", server->port);
    if (pipe(ends) != 0) {
        return false;
    }
    server->process = fork();
    if (server->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        /* Python must run without the test runner's malloc setting and a sanitizer's libraries. */
        unsetenv("MALLOC_PERTURB_");
        unsetenv("LD_PRELOAD");
        execl("/usr/bin/python3", "python3", script, folder, port, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    const ssize_t count = read(ends[0], answer, sizeof answer - 1);
    close(ends[0]);
    return count > 0 && strncmp(answer, "ready", 5) == 0;
}

static inline void swift_stop(swift_server *server)
{
    if (server->process > 0) {
        kill(server->process, SIGKILL);
        while (waitpid(server->process, NULL, 0) < 0 && errno == EINTR) {
        }
        server->process = 0;
    }
}

/* Starts a server. Another process may take a port that was found free before the server opens it,
 * so this tries up to three times.
 *
 * @folder  a scratch directory
 * @script  the path of swift_server.py */
static inline bool swift_start(swift_server *server, const char *folder, const char *script)
{
    for (unsigned i = 0; i < 3; i++) {
        if (swift_start_once(server, folder, script)) {
            return true;
        }
        swift_stop(server);
    }
    return false;
}
