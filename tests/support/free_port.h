/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports for servers of tests.
 */
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Returns a port of loopback that is not in use at the moment. */
static inline unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0 || bind(file, (struct sockaddr *)&address, size) != 0 ||
        getsockname(file, (struct sockaddr *)&address, &size) != 0) {
        abort();
    }
    close(file);
    return ntohs(address.sin_port);
}

/* Whether something accepts connections on a port of loopback. */
static inline int port_is_open(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int is_open =
        file >= 0 && connect(file, (struct sockaddr *)&address, sizeof address) == 0;
    if (file >= 0) {
        close(file);
    }
    return is_open;
}
