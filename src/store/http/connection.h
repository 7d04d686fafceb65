/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to an HTTP server. It sends a request, reads the answer, and can then be used for
 * the next request. It is closed at the first error. Only the I/O thread uses it.
 */
#pragma once

#include "store/http/request.h"
#include "store/network/stream.h"

typedef struct kilni_http_connection kilni_http_connection;

/* How a connection ended. */
typedef struct kilni_http_end {
    /* KILN_E_IO: the connection was refused, reset or closed; KILN_TIMEOUT: the server was silent;
     * KILN_E_CORRUPT: the server broke the protocol; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY;
     * KILN_E_DENIED: the server refuses this side's certificate; KILN_E_UNAUTHENTICATED: the
     * server's certificate is not accepted. */
    kiln_status status;
    bool was_connected;
    bool was_answered;              /* the server answered at least one earlier request */
    kilni_http_request *unfinished; /* a request that the owner must finish; NULL: none */
} kilni_http_end;

/* The owner's functions that a connection calls. */
typedef struct kilni_http_owner {
    /* Called when the answer has arrived. The owner must finish the request. If @goes_on is true,
     * the connection can be used again. In that case, the function returns the request to send
     * next, or NULL. Otherwise the connection is freed when the function returns. */
    kilni_http_request *(*answered)(struct kilni_http_owner *owner,
                                    kilni_http_connection *connection, kilni_http_request *request,
                                    bool goes_on);
    /* The connection is freed when the function returns. */
    void (*ended)(struct kilni_http_owner *owner, kilni_http_connection *connection,
                  const kilni_http_end *how);
} kilni_http_owner;

/* Begins to connect, and then sends the request. On success, the request belongs to the connection.
 *
 * @tls            NULL: the connection is not encrypted
 * @connecting_ns  the maximum time until the connection can be used
 * Returns KILN_OK; KILN_E_IO; KILN_E_NO_MEMORY; statuses of kilni_tls_new. */
kiln_status kilni_http_connection_new(kilni_http_owner *owner, const kilni_address *address,
                                      const kilni_tls_settings *tls, uint64_t connecting_ns,
                                      kilni_http_request *request,
                                      kilni_http_connection **ret_connection);

/* Sends a request on an idle connection. The connection can end during the call. */
void kilni_http_connection_ask(kilni_http_connection *connection, kilni_http_request *request);

/* Returns true if the connection has an unanswered request. */
bool kilni_http_connection_is_busy(const kilni_http_connection *connection);

/* Closes a connection without calling its owner's functions. Returns the unfinished request, or
 * NULL. */
kilni_http_request *kilni_http_connection_close(kilni_http_connection *connection);
