/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of a Redis server. It makes connections, keeps them open, and replaces those that end.
 */
#pragma once

#include "store/network/tls.h"
#include "store/redis/exchange.h"
#include "store/remote/connector.h"

/* Any thread may use it. */
typedef struct kilni_redis_client kilni_redis_client;

/* Look-ups have their own connection, so that they do not wait while large values are being sent.
 */
enum { KILNI_REDIS_LANE_LOOKUPS, KILNI_REDIS_LANE_PUTS, KILNI_REDIS_LANES };

/* Returns the settings for encrypted connections to a server. @server must outlive the result. */
kilni_tls_settings kilni_redis_tls_of(const kilni_remote_server *server);

/* Does not connect. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_new(const kilni_remote_server *server,
                                   kilni_redis_client **ret_client);

/* Closes the client. The I/O thread closes the connections soon after. No other thread may be in a
 * call that uses the client. */
void kilni_redis_client_close(kilni_redis_client *client);

/* Makes an exchange, to be passed to kilni_redis_client_ask. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_prepare(kilni_redis_client *client, unsigned lane,
                                       uint64_t max_bytes, uint64_t deadline_ns,
                                       kilni_redis_exchange **ret_exchange);

/* Sends an exchange and waits for the replies. The caller must release the exchange with
 * kilni_call_release in any case. Returns KILN_OK: all replies have arrived, some of which may
 * report errors; KILN_E_TOO_LARGE; KILN_E_DENIED: the server refuses this user;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_client_ask(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Sends an exchange without waiting for its replies, and releases it. For the I/O thread. */
void kilni_redis_client_send(kilni_redis_client *client, kilni_redis_exchange *exchange);

/* Returns the reason for the last failure to contact the server. */
kilni_server_fault kilni_redis_client_fault(const kilni_redis_client *client);

/* Whether the server is not contacted at present; if so, sets @ret_state. */
bool kilni_redis_client_is_away(kilni_redis_client *client, kilni_server_state *ret_state);

/* Keeps all callers from contacting the server for this time, because it has reported that it
 * cannot answer now. */
void kilni_redis_client_rest(kilni_redis_client *client, uint64_t duration_ns);
