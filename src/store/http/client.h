/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of an HTTP server. The client makes connections, keeps them open, and replaces
 * connections that have ended.
 */
#pragma once

#include "store/http/request.h"
#include "store/network/tls.h"
#include "store/remote/server_state.h"

/* A client. Any thread can use it. */
typedef struct kilni_http_client kilni_http_client;

/* Look-ups have their own connections. So they do not wait while large bodies are being sent. */
enum { KILNI_HTTP_LANE_LOOKUPS, KILNI_HTTP_LANE_PUTS, KILNI_HTTP_LANES };

/* The maximum number of connections for look-ups. */
#define KILNI_HTTP_LOOKUP_CONNECTIONS 4u

/* The address of the server, and how long the server is allowed to be silent. All times are in
 * nanoseconds. */
typedef struct kilni_http_settings {
    const char *host; /* a name or an address */
    uint16_t port;
    const kilni_tls_settings *tls; /* NULL: connections are not encrypted */
    uint64_t connecting_ns;        /* the maximum time to connect */
    uint64_t new_answer_ns;        /* before an answer, if no answer came within the last minute */
    uint64_t answer_ns;            /* before an answer, if one came within the last minute */
    uint64_t put_answer_ns;        /* before the answer to a put, after all of it was sent */
    const char *state_file;        /* as in kilni_remote_server */
} kilni_http_settings;

/* Makes a client, without connecting to the server.
 *
 * @settings  copied, and so is *tls; the texts to which they point must outlive the client
 * @owned     memory that the client frees with free() when the client is freed; it can contain
 *            these texts
 * Returns KILN_OK; KILN_E_NO_MEMORY: @owned still belongs to the caller. */
kiln_status kilni_http_client_new(const kilni_http_settings *settings, void *owned,
                                  kilni_http_client **ret_client);

/* Closes the client. The I/O thread closes the connections soon after. The caller must ensure that
 * no other thread is in a call that uses the client. */
void kilni_http_client_close(kilni_http_client *client);

/* Makes a request, which the caller then passes to kilni_http_client_ask or
 * kilni_http_client_start. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_http_client_prepare(kilni_http_client *client, unsigned lane,
                                      uint64_t deadline_ns, kilni_http_request **ret_request);

/* Sends a request. The statuses are those of kilni_http_client_ask. After KILN_OK, the caller must
 * call kilni_http_client_wait. */
kiln_status kilni_http_client_start(kilni_http_client *client, kilni_http_request *request);

/* Waits for the answer to a request that was started. The statuses are those of
 * kilni_http_client_ask. */
kiln_status kilni_http_client_wait(kilni_http_request *request);

/* Sends a request and waits for the answer. Even on failure, the caller must release the request
 * with kilni_call_release. Returns KILN_OK: there is an answer, but it may report an error;
 * KILN_E_TOO_LARGE; KILN_E_DENIED: the server does not accept this side's certificate;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_http_client_ask(kilni_http_client *client, kilni_http_request *request);

/* Sends a request for which no thread waits, and takes ownership of it. Only the I/O thread is
 * allowed to call this. The request's function arrived is always called, unless the I/O thread has
 * ended. */
void kilni_http_client_send(kilni_http_client *client, kilni_http_request *request);

/* Returns the reason for the last failure to contact the server. */
kilni_server_fault kilni_http_client_fault(const kilni_http_client *client);

/* Returns true, and sets @ret_state, if the server is not being contacted at present. */
bool kilni_http_client_is_away(kilni_http_client *client, kilni_server_state *ret_state);

/* Keeps all callers from contacting the server for the given time. Called if the server has
 * reported that it cannot answer now, or that it refuses this user. */
void kilni_http_client_rest(kilni_http_client *client, uint64_t duration_ns);
