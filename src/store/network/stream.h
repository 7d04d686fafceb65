/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to a server, over which bytes are sent and received. Only the I/O thread uses it. No
 * function blocks.
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

#include <kiln/status.h>

#include "store/network/loop.h"
#include "store/network/tls.h"

/* The address of a server. */
typedef struct kilni_address {
    struct sockaddr_storage address;
    socklen_t size;
} kilni_address;

typedef struct kilni_stream {
    kilni_socket socket; /* first: a kilni_stream is a kilni_socket. Its owner sets ready */
    kilni_tls *tls;      /* NULL: the connection is not encrypted */
} kilni_stream;

/* Begins to connect. The caller must call kilni_stream_check when the socket becomes ready.
 *
 * @tls  NULL: the connection is not encrypted
 * Returns KILN_OK; KILN_E_IO; the statuses of kilni_tls_new. The caller must not close the stream
 * after a failure. */
kiln_status kilni_stream_open(kilni_stream *stream, const kilni_address *address,
                              const kilni_tls_settings *tls);

/* Continues to connect. Returns KILN_OK: the connection is established; KILN_BUSY: it is not
 * established yet; KILN_E_IO; the statuses of kilni_tls_shake_hands. */
kiln_status kilni_stream_check(kilni_stream *stream);

/* Each of these functions sends or receives as many bytes as possible without blocking. Returns
 * KILN_OK and a count above 0; KILN_BUSY: no byte can be sent or received now; KILN_E_IO: the
 * connection has ended; KILN_E_DENIED: the server does not accept this side's certificate. */
kiln_status kilni_stream_send(kilni_stream *stream, const void *bytes, size_t size,
                              size_t *ret_count);
kiln_status kilni_stream_receive(kilni_stream *stream, void *bytes, size_t size, size_t *ret_count);

/* Returns true if TLS holds bytes that have already arrived. Epoll does not report such bytes. */
bool kilni_stream_has_more(const kilni_stream *stream);

void kilni_stream_close(kilni_stream *stream);
