/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between libkiln and libkiln_remote. It treats a server as a place that keeps bytes
 * under names. Only libkiln interprets the bytes and verifies what a server sends. Libkiln_remote
 * does neither. It hashes values while they arrive, but does not know what their hashes must be.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/status.h>

#include "store/remote/server_state.h"

/* Must be increased with every change of this file. Libkiln uses libkiln_remote only if both have
 * the same version. */
#define KILNI_CONNECTOR_VERSION 14u

/* The symbols under which libkiln_remote exports a kilni_connector for each kind of server. */
#define KILNI_REDIS_CONNECTOR "kiln_remote_connector"
#define KILNI_HTTP_CONNECTOR "kiln_remote_http_connector"
#define KILNI_S3_CONNECTOR "kiln_remote_s3_connector"

/* The size of a cursor, including its terminating NUL. A cursor records how far a listing has come.
 */
#define KILNI_REMOTE_CURSOR_SIZE 1025u

/* The maximum number of nodes that the URL of a cluster names in addition to the first one. */
#define KILNI_REMOTE_OTHERS_MAX 7u

/* A node of a cluster. */
typedef struct kilni_remote_node {
    char host[256];
    uint16_t port;
} kilni_remote_node;

/* The address of a server, and the credentials with which this machine connects to it. */
typedef struct kilni_remote_server {
    char host[256]; /* a name or an address; "": the server listens on a Unix socket */
    uint16_t port;
    /* A Redis cluster. The server is one of its nodes, and the URL also names the nodes below. */
    bool is_cluster;
    kilni_remote_node others[KILNI_REMOTE_OTHERS_MAX];
    size_t other_count;
    char socket[108];   /* the socket's path */
    char user[64];      /* "": none */
    uint32_t database;  /* of Redis */
    char path[512];     /* for HTTP and S3: the folder that contains the names. Begins with '/'. On
                           S3, its first component is the bucket. "": the root. For a group's
                           directory: its absolute path */
    char region[64];    /* of S3 */
    uint64_t max_bytes; /* of a group's directory: how much it may occupy */
    bool is_encrypted;
    /* Absolute paths; NULL: none. */
    const char *password_file;
    const char *password;   /* of Redis, used if password_file is NULL; NULL: none */
    const char *token_file; /* of HTTP */
    /* For encrypted connections; NULL: the authorities that the system trusts. */
    const char *ca_file;
    const char *certificate_file, *key_file;
    /* The absolute path of the file in which the processes of this machine share the server's state
     * (server_state.h). NULL: nothing is shared. */
    const char *state_file;
    const char *credentials_file; /* of S3 */
    /* The keys for S3, which are used if credentials_file is NULL. NULL: there are no keys. */
    const char *access_key, *secret_key, *session_token;
} kilni_remote_server;

/* An open server. Any thread can use it. */
typedef struct kilni_remote kilni_remote;

/* A lease: the right to do something, which the server grants to one process at a time. */
typedef struct kilni_remote_lease kilni_remote_lease;

/* The hash of a value does not cover this many bytes at its end: the checksum of an entry. */
#define KILNI_REMOTE_UNHASHED 16u

/* Bytes that the owner must free with free(). */
typedef struct kilni_remote_bytes {
    unsigned char *data;
    size_t size;
    /* The hash (kilni_hash) of all bytes except the last KILNI_REMOTE_UNHASHED, if libkiln_remote
     * has computed it while the bytes arrived. */
    bool is_hashed;
    kiln_digest hash;
} kilni_remote_bytes;

/* The size of the end of a value, by which a value is recognized: an entry ends with its checksum.
 */
#define KILNI_REMOTE_END_SIZE 8u

/* A question about one value. Several questions can be asked together. */
typedef struct kilni_remote_question {
    const char *name;
    bool only_presence; /* no bytes are wanted, but only whether the server has the value */
    size_t head_size;   /* the number of bytes wanted from the value's beginning; 0: all */
    uint64_t max_bytes; /* the room for the answer, including small replies such as errors. If
                           questions are asked together, they share their room */
    /* The members after whole_size are wanted, too. In that case, all questions that are asked
     * together must have the same head_size, which is not 0. */
    bool is_about_use;
    /* The answer: */
    kiln_status status;       /* a status of get; there are bytes only if it is KILN_OK */
    kilni_remote_bytes bytes; /* the caller must free them */
    uint64_t whole_size;      /* the size of the value */
    /* For how long no client has used the value, and after how long the server will remove it.
     * UINT64_MAX: the server does not say. A Redis that has CLIENT NO-TOUCH does not
     * count this question as a use. */
    uint64_t unused_s, left_s;
    unsigned char end[KILNI_REMOTE_END_SIZE]; /* followed by zeros if the value is smaller */
} kilni_remote_question;

/* The room for a reply that is not a value, such as a number or an error; and for the answer to a
 * question about the head and the use of a value. */
#define KILNI_REMOTE_REPLY_BYTES 512u
#define KILNI_REMOTE_HEAD_BYTES(head_size) ((head_size) + (uint64_t)2 * KILNI_REMOTE_REPLY_BYTES)

/* A name in a listing. */
typedef struct kilni_remote_listed {
    const char *name; /* without a terminating NUL */
    size_t name_size;
    /* The size of the value, and when it was put, in Unix seconds by the server's clock. If put_s
     * is 0, the listing does not have these. */
    uint64_t size, put_s;
} kilni_remote_listed;

/* A value that is to be removed, but only if it is still the value that was judged. */
typedef struct kilni_remote_judged {
    const char *name;
    uint64_t size;
    /* If the listing has the time of the put, that time; otherwise 0 and the end of the value. */
    uint64_t put_s;
    unsigned char end[KILNI_REMOTE_END_SIZE];
    /* The answer: KILN_OK; KILN_MISS: there is no such value any more, or a different one has
     * replaced it; a failure. */
    kiln_status status;
} kilni_remote_judged;

typedef kiln_status kilni_remote_put_fn(kilni_remote *remote, const char *name, const void *data,
                                        size_t size, uint64_t expire_ms, uint64_t deadline_ns);

typedef void kilni_remote_visit_fn(void *user, const kilni_remote_listed *listed);

/* Each call that takes a deadline (a time of kilni_clock_ns) returns by that time. In addition to
 * the statuses in its comment, each call can return:
 * KILN_E_IO: the server cannot be reached, stopped answering, broke the protocol, or must not be
 * contacted yet after a failure;
 * KILN_E_DENIED: the server refuses this user;
 * KILN_E_UNAUTHENTICATED: the server's certificate is not accepted;
 * KILN_E_NO_MEMORY. */
typedef struct kilni_connector {
    uint32_t version;

    /* Opens a server without contacting it. Returns KILN_OK; KILN_E_INVALID, KILN_E_DENIED or
     * KILN_E_IO: a file cannot be used; KILN_E_NO_MEMORY. If the call fails, @error describes the
     * failure. */
    kiln_status (*open)(const kilni_remote_server *server, kilni_remote **ret_remote,
                        kiln_error *error);
    void (*close)(kilni_remote *remote);

    /* Limits all later calls of this thread, on any server, as kilni_call_limit_set
     * (store/call_limit.h) describes. A call that reaches the limit returns KILN_E_IO. A lease that
     * is released then stays on the server until it expires. Libkiln calls this function before
     * each call. */
    void (*limit_calls)(const _Atomic uint64_t *end_ns);

    /* Gets a value. Returns KILN_OK; KILN_MISS; KILN_E_TOO_LARGE: the value is larger than
     * @max_bytes. */
    kiln_status (*get)(kilni_remote *remote, const char *name, uint64_t max_bytes,
                       uint64_t deadline_ns, kilni_remote_bytes *ret_bytes);

    /* Gets at most the first @size bytes of a value, and sets @ret_whole_size to the size of the
     * whole value. The statuses are those of get. */
    kiln_status (*get_head)(kilni_remote *remote, const char *name, size_t size,
                            uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                            uint64_t *ret_whole_size);

    /* Asks several questions at once: on Redis in one round trip to each node, on HTTP servers over
     * all connections for look-ups. Each question gets its own status. If it is KILN_E_TOO_LARGE,
     * the room that the questions share was not enough for the answers, so the caller can ask again
     * with fewer questions. The answers never use more memory than this room. NULL: asking takes no
     * round trip, so the caller asks one question after the other. */
    void (*ask_many)(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                     uint64_t deadline_ns);
    /* True if ask_many answers questions about use. Otherwise it ignores is_about_use. */
    bool knows_uses;

    /* Checks whether the server has a value. Returns KILN_OK: it has; KILN_MISS: it does not. */
    kiln_status (*contains)(kilni_remote *remote, const char *name, uint64_t deadline_ns);

    /* Stores a value.
     *
     * @expire_ms  the time after which the server removes the value; 0: never
     * Returns KILN_OK; KILN_E_FULL; KILN_E_READONLY; KILN_E_TOO_LARGE: the value is larger than the
     * server should accept. */
    kilni_remote_put_fn *put;

    /* Does the same as put, but returns KILN_EXISTS and does nothing if the server has a value of
     * that name. NULL: this kind of server has no such operation. */
    kilni_remote_put_fn *put_new;

    /* Makes the server keep a value for at least @expire_ms from now on. A value that never expires
     * stays so. Returns KILN_OK, even if there is no such value. NULL: this kind of server has no
     * such operation. */
    kiln_status (*keep)(kilni_remote *remote, const char *name, uint64_t expire_ms,
                        uint64_t deadline_ns);

    /* Removes a value. Returns KILN_OK; KILN_MISS; KILN_E_READONLY. */
    kiln_status (*remove)(kilni_remote *remote, const char *name, uint64_t deadline_ns);

    /* Removes values together. On Redis, comparing a value and removing it is one step. On S3, a
     * value that is put between the two is lost. Returns KILN_OK: each value has its own status; on
     * failure, some values may have been removed. NULL: this kind of server cannot list its names,
     * or is not trimmed. */
    kiln_status (*remove_judged)(kilni_remote *remote, kilni_remote_judged *values, size_t count,
                                 uint64_t deadline_ns);

    /* Moves a value to a different name in one step, but only if the value consists of exactly the
     * given bytes. Under the new name, the server keeps the value for @expire_ms. Returns KILN_OK;
     * KILN_MISS: there is no such value, or it has different bytes; KILN_E_FULL; KILN_E_READONLY.
     * NULL: this kind of server has no such operation. */
    kiln_status (*move)(kilni_remote *remote, const char *name, const char *new_name,
                        kilni_remote_bytes value, uint64_t expire_ms, uint64_t deadline_ns);

    /* Visits some of the names that begin with @prefix. A name can be visited more than once.
     *
     * @cursor  [in, out] an empty text begins the listing; the call sets it to an empty text after
     *          the last names
     * Returns KILN_OK; KILN_E_UNSUPPORTED: this kind of server cannot list names. */
    kiln_status (*list)(kilni_remote *remote, const char *prefix,
                        char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                        kilni_remote_visit_fn *visit, void *user);

    /* Takes the lease of a value. The lease ends when it is released, or a few seconds after the
     * process has ended. The server might lose the lease earlier. The caller must release the lease
     * before it closes @remote. In a forked child, a release only frees the memory.
     *
     * @name        the name of the value
     * @build_ns    how long it will probably take to make the value; 0: unknown
     * @has_waited  true if a previous call has returned KILN_BUSY. In that case, if nobody holds
     *              the lease any more and the server has the value, the call can return KILN_EXISTS
     *              instead of taking the lease
     * Returns KILN_OK; KILN_BUSY: a different holder has the lease; KILN_EXISTS;
     * KILN_E_UNSUPPORTED: this server has no leases, or taking one would take too long compared
     * with @build_ns. */
    kiln_status (*lease)(kilni_remote *remote, const char *name, uint64_t build_ns, bool has_waited,
                         uint64_t deadline_ns, kilni_remote_lease **ret_lease);
    uint64_t lease_pause_ns; /* the longest pause between two attempts to take a lease */
    /* Returns true if the server did not have the value when it granted the lease. The server
     * checks this and grants the lease in one step. NULL: this kind of server does not report it.
     */
    bool (*lease_is_of_miss)(const kilni_remote_lease *lease);
    /* Releases the lease on the server, within about a second. */
    void (*lease_release)(kilni_remote_lease *lease);

    /* Returns why the last call that failed with KILN_E_IO failed. */
    kilni_server_fault (*fault)(const kilni_remote *remote);

    /* Returns true, and sets @ret_state, if the server is not being contacted at present. Does not
     * contact the server. */
    bool (*is_away)(kilni_remote *remote, kilni_server_state *ret_state);
} kilni_connector;
