/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between libkiln and libkiln_remote: a server keeps bytes under names. Only libkiln
 * interprets the bytes and verifies what a server sends; libkiln_remote does neither.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "store/remote/server_state.h"

/* Increased with every change of this file. Libkiln uses no libkiln_remote of a different version.
 */
#define KILNI_CONNECTOR_VERSION 9u

/* The symbols under which libkiln_remote exports a kilni_connector for each kind of server. */
#define KILNI_REDIS_CONNECTOR "kiln_remote_connector"
#define KILNI_HTTP_CONNECTOR "kiln_remote_http_connector"
#define KILNI_S3_CONNECTOR "kiln_remote_s3_connector"

/* The size of a cursor, which records how far a listing has come, with its terminating NUL. */
#define KILNI_REMOTE_CURSOR_SIZE 1025u

/* How many nodes of a cluster a URL may name besides the first one. */
#define KILNI_REMOTE_OTHERS_MAX 7u

/* A node of a cluster. */
typedef struct kilni_remote_node {
    char host[256];
    uint16_t port;
} kilni_remote_node;

/* The address of a server, and the credentials with which this machine connects to it. */
typedef struct kilni_remote_server {
    char host[256]; /* a name or an address; "": the server is at a socket in the file system */
    uint16_t port;
    /* A cluster of Redis: the server is one of its nodes, and the URL names these nodes too. */
    bool is_cluster;
    kilni_remote_node others[KILNI_REMOTE_OTHERS_MAX];
    size_t other_count;
    char socket[108];  /* the socket's path */
    char user[64];     /* "": none */
    uint32_t database; /* of Redis */
    char path[512];    /* of HTTP and S3: the folder that contains the names, beginning with '/'; on
                          S3, its first component is the bucket; "": the root */
    char region[64];   /* of S3 */
    bool is_encrypted;
    /* Absolute paths; NULL: none. */
    const char *password_file;
    const char *password;   /* of Redis, used if password_file is NULL; NULL: none */
    const char *token_file; /* of HTTP */
    const char
        *ca_file; /* for encrypted connections; NULL: the authorities that the system trusts */
    const char *certificate_file, *key_file;
    /* The file in which the processes of this machine share the server's state (server_state.h), as
     * an absolute path; NULL: nothing is shared. */
    const char *state_file;
    const char *credentials_file; /* of S3 */
    /* The keys of S3, used if credentials_file is NULL; NULL: none. */
    const char *access_key, *secret_key, *session_token;
} kilni_remote_server;

/* An open server. Any thread may use it. */
typedef struct kilni_remote kilni_remote;

/* The right to do something, which the server grants to one process at a time. */
typedef struct kilni_remote_lease kilni_remote_lease;

/* Bytes that the owner frees with free(). */
typedef struct kilni_remote_bytes {
    unsigned char *data;
    size_t size;
} kilni_remote_bytes;

/* A request for one value, which may be sent together with others. */
typedef struct kilni_remote_question {
    const char *name;
    size_t head_size; /* how many bytes from the value's beginning are wanted; 0: all */
    /* The answer: */
    kiln_status status;       /* as get returns; if not KILN_OK, there are no bytes */
    kilni_remote_bytes bytes; /* the caller must free them */
    uint64_t whole_size;      /* of the value */
} kilni_remote_question;

typedef kiln_status kilni_remote_put_fn(kilni_remote *remote, const char *name, const void *data,
                                        size_t size, uint64_t expire_ms, uint64_t deadline_ns);

typedef void kilni_remote_visit_fn(void *user, const char *name, size_t size);

/* Each call that takes a deadline (a time of kilni_clock_ns) returns by then. Besides the statuses
 * that its comment lists, it may return KILN_E_IO: the server cannot be reached, stopped answering,
 * broke the protocol, or may not be contacted yet after a failure; KILN_E_DENIED: the server
 * refuses this user; KILN_E_UNAUTHENTICATED: the server's certificate is not accepted;
 * KILN_E_NO_MEMORY. */
typedef struct kilni_connector {
    uint32_t version;

    /* Opens a server without contacting it. Returns KILN_OK; KILN_E_INVALID, KILN_E_DENIED,
     * KILN_E_IO: a file cannot be used; KILN_E_NO_MEMORY. @error describes the failure. */
    kiln_status (*open)(const kilni_remote_server *server, kilni_remote **ret_remote,
                        kiln_error *error);
    void (*close)(kilni_remote *remote);

    /* Gets a value. Returns KILN_OK; KILN_MISS; KILN_E_TOO_LARGE: the value has more than
     * @max_bytes. */
    kiln_status (*get)(kilni_remote *remote, const char *name, uint64_t max_bytes,
                       uint64_t deadline_ns, kilni_remote_bytes *ret_bytes);

    /* Gets at most the first @size bytes of a value, and sets @ret_whole_size to the value's size.
     * Otherwise as get. */
    kiln_status (*get_head)(kilni_remote *remote, const char *name, size_t size,
                            uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                            uint64_t *ret_whole_size);

    /* Gets several values in one round trip.
     *
     * @questions  each receives its own answer
     * @max_bytes  the most bytes that all answers together may have; in a cluster, those of one
     *             node
     * Returns KILN_OK: each question has a status; otherwise as get, and there are no bytes. NULL:
     * the server can be asked for only one value at a time. */
    kiln_status (*get_many)(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                            uint64_t max_bytes, uint64_t deadline_ns);

    /* Returns KILN_OK; KILN_MISS. */
    kiln_status (*contains)(kilni_remote *remote, const char *name, uint64_t deadline_ns);

    /* @expire_ms  after how long the server removes the value; 0: never
     * Returns KILN_OK; KILN_E_FULL; KILN_E_READONLY; KILN_E_TOO_LARGE: more than the server should
     * hold in one value. */
    kilni_remote_put_fn *put;

    /* As put, but does nothing if the server has a value of that name. In that case returns
     * KILN_EXISTS. NULL: this kind of server has no such operation. */
    kilni_remote_put_fn *put_new;

    /* Makes the server keep a value for at least this time from now on, unless it has no end.
     * Returns KILN_OK, even if there is no such value. NULL: this kind of server has no such
     * operation. */
    kiln_status (*keep)(kilni_remote *remote, const char *name, uint64_t expire_ms,
                        uint64_t deadline_ns);

    /* Returns KILN_OK; KILN_MISS; KILN_E_READONLY. */
    kiln_status (*remove)(kilni_remote *remote, const char *name, uint64_t deadline_ns);

    /* Moves a value to a different name, in one step, if it consists of exactly these bytes. The
     * server removes it there after @expire_ms. Returns KILN_OK; KILN_MISS: the value is a
     * different one, or does not exist; KILN_E_FULL; KILN_E_READONLY. NULL: this kind of server has
     * no such operation.
     */
    kiln_status (*move)(kilni_remote *remote, const char *name, const char *new_name,
                        kilni_remote_bytes value, uint64_t expire_ms, uint64_t deadline_ns);

    /* Visits some of the names that begin with @prefix. A name may be visited more than once.
     *
     * @cursor  [in, out] "" begins the listing; the call sets it to "" after the last names
     * Returns KILN_OK; KILN_E_UNSUPPORTED: this kind of server has no lists. */
    kiln_status (*list)(kilni_remote *remote, const char *prefix,
                        char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                        kilni_remote_visit_fn *visit, void *user);

    /* Takes the lease of a value. The lease ends when it is released, or a few seconds after the
     * process has ended. The server may lose it earlier. It must be released before @remote is
     * closed. In a forked child, a release frees only the memory.
     *
     * @name        of the value
     * @build_ns    how long it will probably take to make the value; 0: unknown
     * @has_waited  a previous call has returned KILN_BUSY. If nobody holds the lease any more and
     *              the server has the value, the call may return KILN_EXISTS instead of taking the
     *              lease
     * Returns KILN_OK; KILN_BUSY: a different holder has the lease; KILN_EXISTS;
     * KILN_E_UNSUPPORTED: this server has no leases, or taking one would take too long compared
     * with @build_ns. */
    kiln_status (*lease)(kilni_remote *remote, const char *name, uint64_t build_ns, bool has_waited,
                         uint64_t deadline_ns, kilni_remote_lease **ret_lease);
    uint64_t lease_pause_ns; /* the longest time between two attempts of a caller that waits */
    /* Whether the server did not have the value when it granted the lease. The server checks this
     * and grants the lease in one step. NULL: this kind of server does not report it. */
    bool (*lease_is_of_miss)(const kilni_remote_lease *lease);
    /* Releases the lease on the server. Takes at most about a second. */
    void (*lease_release)(kilni_remote_lease *lease);

    /* Returns why the last call that failed with KILN_E_IO failed. */
    kilni_server_fault (*fault)(const kilni_remote *remote);

    /* Whether the server is not contacted at present; if so, sets @ret_state. Does not contact it.
     */
    bool (*is_away)(kilni_remote *remote, kilni_server_state *ret_state);
} kilni_connector;
