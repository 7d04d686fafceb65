/* SPDX-License-Identifier: Apache-2.0
 *
 * Any thread may ask a Redis server through a client. The I/O thread does the work.
 */
#pragma once

#include "store/redis/exchange.h"
#include "store/remote/connector.h"

/* Any thread may use it. */
typedef struct kilni_redis_client kilni_redis_client;

/* Does not connect. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_new(const kilni_remote_server *server,
                                   kilni_redis_client **ret_client);

/* Closes the client. The I/O thread closes the connections soon after. No other thread may be in a
 * call that uses the client. */
void kilni_redis_client_close(kilni_redis_client *client);

/* Makes an exchange, to be passed to kilni_redis_client_ask or kilni_redis_client_start. In a
 * cluster, it goes to the node that has this slot, and follows redirections. Returns KILN_OK;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_prepare(kilni_redis_client *client, unsigned lane, unsigned slot,
                                       uint64_t max_bytes, uint64_t deadline_ns,
                                       kilni_redis_exchange **ret_exchange);

/* Whether the server is a cluster, and the number of the node that has a slot. 0: it is not known.
 * The number is only a hint, since a slot may move at any time. */
bool kilni_redis_client_has_nodes(const kilni_redis_client *client);
unsigned kilni_redis_client_node_of(const kilni_redis_client *client, unsigned slot);

/* Returns the lowest slot above @slot that is the lowest one of its node; KILNI_REDIS_SLOTS: there
 * is none. */
unsigned kilni_redis_client_next_node(const kilni_redis_client *client, unsigned slot);

/* Sends an exchange. Returns as kilni_redis_client_ask. KILN_OK: the caller must then wait. */
kiln_status kilni_redis_client_start(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Waits for the replies to an exchange that was started. Returns as kilni_redis_client_ask. */
kiln_status kilni_redis_client_wait(kilni_redis_exchange *exchange);

/* Sends an exchange and waits for the replies. The caller must release the exchange with
 * kilni_call_release in any case. Returns KILN_OK: all replies have arrived, some of which may
 * report errors; KILN_E_TOO_LARGE; KILN_E_DENIED: the server refuses this user;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_ask(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Sends an exchange without waiting for its replies, and releases it. For the I/O thread. */
void kilni_redis_client_send(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Returns the reason for the last failure to contact the server. */
kilni_server_fault kilni_redis_client_fault(const kilni_redis_client *client);

/* Returns true if the server is not contacted at present, and sets @ret_state. A cluster is
 * contacted if it is known which node has which keys, even if some nodes are not. */
bool kilni_redis_client_is_away(kilni_redis_client *client, kilni_server_state *ret_state);
