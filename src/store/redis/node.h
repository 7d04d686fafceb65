/* SPDX-License-Identifier: Apache-2.0
 *
 * One Redis server, with its addresses and connections, and a breaker that decides whether it is
 * contacted. The connections are kept open, and replaced when they end. Only the I/O thread uses
 * this struct, except the breaker and the prober.
 */
#pragma once

#include "store/network/lookup.h"
#include "store/network/prober.h"
#include "store/network/tls.h"
#include "store/redis/connection.h"
#include "store/remote/connector.h"

/* How long a caller waits for a server, or for a look-up of its name. The second value applies if
 * the server has answered within the last minute. */
#define KILNI_REDIS_PATIENCE_NS UINT64_C(250000000)
#define KILNI_REDIS_PATIENCE_IF_KNOWN_NS UINT64_C(500000000)

typedef struct kilni_redis_lane {
    kilni_redis_owner owner; /* first: the owner of the lane's connection */
    struct kilni_redis_node *node;
    kilni_redis_connection *connection; /* NULL: none */
} kilni_redis_lane;

typedef struct kilni_redis_node {
    kilni_breaker breaker;
    kilni_prober prober;

    const kilni_remote_server *server; /* the credentials, and the socket */
    const char *host;                  /* "": use the Unix socket */
    uint16_t port;
    kilni_tls_settings tls;

    unsigned process; /* the process whose I/O thread made these connections */
    kilni_redis_lane lanes[KILNI_REDIS_LANES];
    bool is_stopped;
    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t address_count, next_address;
    uint64_t found_ns;                             /* when the addresses were looked up */
    kilni_lookup *lookup;                          /* the look-up that is under way; NULL: none */
    kilni_redis_exchange *waiting, **last_waiting; /* exchanges that wait for addresses */
    kilni_timer silence;                           /* ends the wait for addresses */
} kilni_redis_node;

/* Returns the settings for encrypted connections to a server. @server must outlive the result. */
kilni_tls_settings kilni_redis_tls_of(const kilni_remote_server *server);

/* Makes a node, without connecting to the server. @server, @host, @state_file and the texts of @tls
 * must outlive the node.
 *
 * @state_file  the breaker's file; NULL: none */
void kilni_redis_node_init(kilni_redis_node *node, const kilni_remote_server *server,
                           const char *host, uint16_t port, const kilni_tls_settings *tls,
                           const char *state_file);

/* Sends an exchange, even if the breaker is open. On failure, ends the exchange. */
void kilni_redis_node_send(kilni_redis_node *node, kilni_redis_exchange *exchange);

/* Returns true if the node has exchanges that have not ended. */
bool kilni_redis_node_is_busy(const kilni_redis_node *node);

/* Closes all connections, and ends all exchanges with KILN_E_IO. The caller must not send anything
 * later. */
void kilni_redis_node_stop(kilni_redis_node *node);

/* Returns true if the node can be contacted now. If a probe is due, starts the prober. */
bool kilni_redis_node_may_ask(kilni_redis_node *node);

/* Records that a server could not be used. If the server must not be contacted for now, starts the
 * prober. */
void kilni_redis_note_failure(kilni_breaker *breaker, kilni_prober *prober, kiln_status status,
                              bool was_connected);

/* Returns the status for a caller that was not admitted. The status shows a caller that the server
 * refuses this user, even if only a probe was refused. */
kiln_status kilni_redis_status_of(kilni_server_fault fault);
