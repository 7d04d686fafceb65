/* SPDX-License-Identifier: Apache-2.0 */
#include "store/network/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "store/network/transfer.h"

static kiln_status connect_to(kilni_stream *stream, const kilni_address *address)
{
    const int file =
        socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) {
        return KILN_E_IO;
    }
    const int on = 1;
    if (address->address.ss_family != AF_UNIX) {
        setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    /* EAGAIN means that the queue of a Unix socket is full. It is also treated as a failure,
     * because no event would report that the queue has room again. */
    if (connect(file, (const struct sockaddr *)&address->address, address->size) != 0 &&
        errno != EINPROGRESS) {
        close(file);
        return KILN_E_IO;
    }
    const kiln_status status = kilni_socket_open(&stream->socket, file, EPOLLIN | EPOLLOUT);
    if (status != KILN_OK) {
        kilni_socket_close(&stream->socket);
    }
    return status;
}

kiln_status kilni_stream_open(kilni_stream *stream, const kilni_address *address,
                              const kilni_tls_settings *tls)
{
    stream->tls = NULL;
    if (tls) {
        const kiln_status status = kilni_tls_new(tls, &stream->socket.file, &stream->tls);
        if (status != KILN_OK) {
            return status;
        }
    }
    const kiln_status status = connect_to(stream, address);
    if (status != KILN_OK) {
        kilni_tls_free(stream->tls);
    }
    return status;
}

/* Returns KILN_OK: the socket is connected; KILN_BUSY; KILN_E_IO. First checks the descriptor,
 * because the application may have closed it and opened a file that got the same number. */
static kiln_status check_transport(const kilni_stream *stream)
{
    struct sockaddr_storage peer;
    socklen_t peer_size = sizeof peer;
    int error = 0;
    socklen_t error_size = sizeof error;
    const int file = stream->socket.file.file;
    if (!kilni_owned_descriptor_is_intact(&stream->socket.file) ||
        getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &error_size) != 0 || error != 0) {
        return KILN_E_IO;
    }
    if (getpeername(file, (struct sockaddr *)&peer, &peer_size) == 0) {
        return KILN_OK;
    }
    return errno == ENOTCONN ? KILN_BUSY : KILN_E_IO;
}

kiln_status kilni_stream_check(kilni_stream *stream)
{
    kiln_status status = check_transport(stream);
    if (status != KILN_OK || !stream->tls) {
        return status;
    }
    uint32_t events;
    status = kilni_tls_shake_hands(stream->tls, &events);
    if (status == KILN_BUSY && kilni_socket_wait_for(&stream->socket, events) != KILN_OK) {
        return KILN_E_IO;
    }
    return status;
}

kiln_status kilni_stream_send(kilni_stream *stream, const void *bytes, size_t size,
                              size_t *ret_count)
{
    return stream->tls ? kilni_tls_send(stream->tls, bytes, size, ret_count)
                       : kilni_transfer_send(&stream->socket.file, bytes, size, ret_count);
}

kiln_status kilni_stream_receive(kilni_stream *stream, void *bytes, size_t size, size_t *ret_count)
{
    return stream->tls ? kilni_tls_receive(stream->tls, bytes, size, ret_count)
                       : kilni_transfer_receive(&stream->socket.file, bytes, size, ret_count);
}

bool kilni_stream_has_more(const kilni_stream *stream)
{
    return stream->tls && kilni_tls_has_more(stream->tls);
}

void kilni_stream_close(kilni_stream *stream)
{
    kilni_socket_close(&stream->socket);
    kilni_tls_free(stream->tls);
}
