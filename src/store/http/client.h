/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of an HTTP server. It makes connections, keeps them open, and replaces those that end.
 */
#pragma once

#include "store/http/request.h"
#include "store/network/tls.h"
#include "store/remote/server_state.h"

/* Any thread may use it. */
typedef struct kilni_http_client kilni_http_client;

/* Look-ups have their own connections, so that they do not wait while large bodies are being sent.
 */
enum { KILNI_HTTP_LANE_LOOKUPS, KILNI_HTTP_LANE_PUTS, KILNI_HTTP_LANES };

/* The address of the server, and how long it may be silent, in nanoseconds. */
typedef struct kilni_http_settings {
    const char *host; /* a name or an address */
    uint16_t port;
    const kilni_tls_settings *tls; /* NULL: connections are not encrypted */
    uint64_t connecting_ns;        /* how long connecting may take in all */
    uint64_t new_answer_ns;        /* before an answer, if no answer came within the last minute */
    uint64_t answer_ns;            /* before an answer, if one came within the last minute */
    uint64_t put_answer_ns;        /* before the answer to a put, after all of it was sent */
    const char *state_file;        /* as in kilni_remote_server */
} kilni_http_settings;

/* Does not connect.
 *
 * @settings  copied, and so is *tls; the texts to which they point must outlive the client
 * @owned     the client frees it with free() when the client itself is freed, so it may contain
 *            these texts
 * Returns KILN_OK; KILN_E_NO_MEMORY, and @owned still belongs to the caller. */
kiln_status kilni_http_client_new(const kilni_http_settings *settings, void *owned,
                                  kilni_http_client **ret_client);

/* Closes the client. The I/O thread closes the connections soon after. No other thread may be in a
 * call that uses the client. */
void kilni_http_client_close(kilni_http_client *client);

/* Makes a request, to be passed to kilni_http_client_ask. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_http_client_prepare(kilni_http_client *client, unsigned lane,
                                      uint64_t deadline_ns, kilni_http_request **ret_request);

/* Sends a request and waits for the answer. The caller must release the request with
 * kilni_call_release in any case. Returns KILN_OK: there is an answer, which may report an error;
 * KILN_E_TOO_LARGE; KILN_E_DENIED: the server does not accept this side's certificate;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted; KILN_E_IO; KILN_E_NO_MEMORY. */
kiln_status kilni_http_client_ask(kilni_http_client *client, kilni_http_request *request);

/* Sends a request for which no thread waits. Its function arrived is called in any case, unless the
 * I/O thread has ended. Only the I/O thread calls this. The request passes to the client. */
void kilni_http_client_send(kilni_http_client *client, kilni_http_request *request);

/* Returns the reason for the last failure to contact the server. */
kilni_server_fault kilni_http_client_fault(const kilni_http_client *client);

/* Whether the server is not contacted at present; if so, sets @ret_state. */
bool kilni_http_client_is_away(kilni_http_client *client, kilni_server_state *ret_state);

/* Keeps all callers from contacting the server for this time, because it has reported that it
 * cannot answer now, or that it refuses this user. */
void kilni_http_client_rest(kilni_http_client *client, uint64_t duration_ns);
