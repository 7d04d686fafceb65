/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to a Redis server. It sends exchanges in order, without waiting for replies in
 * between, and stores the replies in the exchanges to which they belong. It is closed at the first
 * error. Only the I/O thread uses it.
 */
#pragma once

#include "store/network/stream.h"
#include "store/redis/exchange.h"

typedef struct kilni_redis_connection kilni_redis_connection;

/* How a connection ended. */
typedef struct kilni_redis_end {
    /* KILN_E_IO: the connection was refused, reset or closed; KILN_TIMEOUT: the server was silent;
     * KILN_E_CORRUPT: the server broke the protocol; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY;
     * KILN_E_DENIED: the server refuses the greeting, or this side's certificate;
     * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted. */
    kiln_status status;
    bool was_connected;
    bool was_answered; /* the server answered at least one exchange */
    /* The exchanges that are not completely answered, in order. If the connection ended within a
     * reply, that reply belongs to the first of these exchanges. The owner must finish them. */
    kilni_redis_exchange *unfinished;
} kilni_redis_end;

/* The owner's functions that a connection calls. */
typedef struct kilni_redis_owner {
    /* All replies to an exchange have arrived. The exchange ends when the function returns. */
    void (*answered)(struct kilni_redis_owner *owner, const kilni_redis_exchange *exchange);
    /* The connection is freed when the function returns. */
    void (*ended)(struct kilni_redis_owner *owner, const kilni_redis_end *how);
} kilni_redis_owner;

/* Begins to connect.
 *
 * @tls          NULL: the connection is not encrypted
 * @greeting     an exchange to send first; NULL: none. On success, the connection owns it. If the
 *               reply to it is an error, the connection ends
 * @patience_ns  how long the connection waits for the first answer
 * Returns KILN_OK; KILN_E_IO; KILN_E_NO_MEMORY; statuses of kilni_tls_new. */
kiln_status kilni_redis_connection_new(kilni_redis_owner *owner, const kilni_address *address,
                                       const kilni_tls_settings *tls,
                                       kilni_redis_exchange *greeting, uint64_t patience_ns,
                                       kilni_redis_connection **ret_connection);

/* Sends an exchange. The connection can end during the call. In that case, the exchange is among
 * the unfinished exchanges. */
void kilni_redis_connection_send(kilni_redis_connection *connection,
                                 kilni_redis_exchange *exchange);

/* Returns true if there are unanswered exchanges. */
bool kilni_redis_connection_is_busy(const kilni_redis_connection *connection);

/* Closes a connection without calling its owner's functions. Returns the unfinished exchanges. */
kilni_redis_exchange *kilni_redis_connection_close(kilni_redis_connection *connection);
