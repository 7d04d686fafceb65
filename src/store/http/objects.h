/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations on named bytes that all kinds of HTTP servers share. The kinds differ in how they
 * authorize a request.
 */
#pragma once

#include "store/http/client.h"
#include "store/http/question.h"
#include "store/remote/connector.h"

/* A kind of server. */
typedef struct kilni_http_kind {
    kilni_http_authorize_fn *authorize;
    /* Checks the files that authorize reads. Returns KILN_OK; KILN_E_INVALID, KILN_E_DENIED,
     * KILN_E_IO. */
    kiln_status (*check)(const kilni_remote_server *server, kiln_error *error);
    unsigned refusal;    /* a further HTTP status with which such servers refuse a user, in addition
                            to 401, 403 and 407; 0: none */
    bool has_conditions; /* such servers might honour "If-None-Match" in a PUT */
    uint64_t connecting_ns, new_answer_ns, answer_ns, put_answer_ns; /* as kilni_http_settings */
} kilni_http_kind;

/* Shows whether a server refuses a PUT with "If-None-Match: *" for a name that already has a value.
 */
enum { KILNI_HTTP_UNTRIED, KILNI_HTTP_HONOURED, KILNI_HTTP_IGNORED };

struct kilni_remote {
    const kilni_http_kind *kind;
    const kilni_remote_server *server; /* belongs to the client */
    kilni_http_client *client;
    /* After the server has refused a put or a removal, the time when the next one may be sent. Only
     * a hint, so accesses are relaxed. */
    _Atomic uint64_t next_put_ns;
    /* The same for leases: after the server has refused one, the time when the next one may be
     * requested. */
    _Atomic uint64_t next_lease_ns;
    _Atomic unsigned conditions; /* KILNI_HTTP_…; relaxed */
};

/* These functions implement the operations of kilni_connector with similar names. */
kiln_status kilni_http_open(const kilni_http_kind *kind, const kilni_remote_server *server,
                            kilni_remote **ret_remote, kiln_error *error);
void kilni_http_close(kilni_remote *remote);
kiln_status kilni_http_get(kilni_remote *remote, const char *name, uint64_t max_bytes,
                           uint64_t deadline_ns, kilni_remote_bytes *ret_bytes);
kiln_status kilni_http_get_head(kilni_remote *remote, const char *name, size_t size,
                                uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                                uint64_t *ret_whole_size);
kiln_status kilni_http_contains(kilni_remote *remote, const char *name, uint64_t deadline_ns);
void kilni_http_ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                         uint64_t deadline_ns);
kiln_status kilni_http_put(kilni_remote *remote, const char *name, const void *data, size_t size,
                           uint64_t expire_ms, uint64_t deadline_ns);
kiln_status kilni_http_remove(kilni_remote *remote, const char *name, uint64_t deadline_ns);
kiln_status kilni_http_remove_judged(kilni_remote *remote, kilni_remote_judged *values,
                                     size_t count, uint64_t deadline_ns);
kilni_server_fault kilni_http_fault(const kilni_remote *remote);
bool kilni_http_is_away(kilni_remote *remote, kilni_server_state *ret_state);

/* ---- for the other operations ---- */

/* A request for a name. It also states how much of the answer's body is wanted. */
typedef struct kilni_http_object {
    unsigned lane;
    const char *method, *name;
    size_t range; /* range, body, body_size and must_be_new: as in kilni_http_question */
    const void *body;
    size_t body_size;
    bool must_be_new;
    uint64_t max_bytes, deadline_ns;
    size_t kept_bytes;
} kilni_http_object;

/* Appends the text of a request. Returns KILN_OK; KILN_E_NO_MEMORY; a failure of kind->authorize.
 */
kiln_status kilni_http_append_object(const kilni_http_kind *kind, const kilni_remote_server *server,
                                     const kilni_http_object *object, kilni_text *text);

/* Sends a request and waits for the answer. Also sets @ret_request on failure, but possibly to
 * NULL. The caller must release the request. Returns the statuses of kilni_http_client_ask and
 * kilni_http_append_object. */
kiln_status kilni_http_ask_object(kilni_remote *remote, const kilni_http_object *object,
                                  kilni_http_request **ret_request);

/* Returns the status for an answer that does not report success. */
kiln_status kilni_http_status_of(kilni_remote *remote, const kilni_http_head *head);

/* Returns the status for an answer that should have a body. */
kiln_status kilni_http_status_of_body(kilni_remote *remote, const kilni_http_request *request);

/* Gets a text, such as a list of names.
 *
 * @path, @query  as in kilni_http_question
 * @ret_bytes     [out] the text; a NUL follows the bytes
 * Returns KILN_OK; KILN_MISS: the server has no such text; other statuses of get. */
kiln_status kilni_http_get_text(kilni_remote *remote, const char *path, const char *query,
                                uint64_t max_bytes, uint64_t deadline_ns,
                                kilni_remote_bytes *ret_bytes);
