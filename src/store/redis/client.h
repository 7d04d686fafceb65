/* SPDX-License-Identifier: Apache-2.0
 *
 * A client for a Redis server. Any thread can ask the server through a client, and the I/O thread
 * does the work.
 */
#pragma once

#include "store/redis/exchange.h"
#include "store/remote/connector.h"

/* A client. Any thread can use it. */
typedef struct kilni_redis_client kilni_redis_client;

/* Makes a client, without connecting to the server. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_new(const kilni_remote_server *server,
                                   kilni_redis_client **ret_client);

/* Closes the client. The I/O thread closes the connections soon after. The caller must ensure that
 * no other thread is in a call that uses the client. */
void kilni_redis_client_close(kilni_redis_client *client);

/* Makes an exchange, which the caller then passes to kilni_redis_client_ask or
 * kilni_redis_client_start. In a cluster, the exchange goes to the node that has the given slot,
 * and follows redirections. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_prepare(kilni_redis_client *client, unsigned lane, unsigned slot,
                                       uint64_t max_bytes, uint64_t deadline_ns,
                                       kilni_redis_exchange **ret_exchange);

/* Returns true if the server is a cluster, and it is not yet known which node has which slot. The
 * next exchange asks for this. */
bool kilni_redis_client_needs_map(const kilni_redis_client *client);

/* Returns the number of the node that has a slot; 0: unknown, or the server is not a cluster. The
 * number is only a hint, because a slot can move at any time. */
unsigned kilni_redis_client_node_of(const kilni_redis_client *client, unsigned slot);

/* Returns the lowest slot above @slot that is the lowest slot of its node; KILNI_REDIS_SLOTS: there
 * is no such slot. With this function, a caller can visit each node once. */
unsigned kilni_redis_client_next_node(const kilni_redis_client *client, unsigned slot);

/* Sends an exchange. The statuses are those of kilni_redis_client_ask. After KILN_OK, the caller
 * must call kilni_redis_client_wait. */
kiln_status kilni_redis_client_start(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Waits for the replies to an exchange that was started. The statuses are those of
 * kilni_redis_client_ask. */
kiln_status kilni_redis_client_wait(kilni_redis_exchange *exchange);

/* Sends an exchange and waits for the replies. Even on failure, the caller must release the
 * exchange with kilni_call_release. Returns KILN_OK: all replies have arrived, but some of them may
 * report errors; KILN_E_TOO_LARGE; KILN_E_DENIED: the server refuses this user;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_ask(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Sends an exchange without waiting for its replies, and releases it. Called on the I/O thread. */
void kilni_redis_client_send(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Returns the reason for the last failure to contact the server. */
kilni_server_fault kilni_redis_client_fault(const kilni_redis_client *client);

/* Returns true, and sets @ret_state, if the server is not being contacted at present. A cluster is
 * being contacted if this process knows which node has which keys, even if some nodes are not. */
bool kilni_redis_client_is_away(kilni_redis_client *client, kilni_server_state *ret_state);
