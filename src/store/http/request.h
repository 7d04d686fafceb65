/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to an HTTP server, and the answer to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/status.h>

#include "base/text.h"
#include "store/http/response.h"
#include "store/network/call.h"
#include "store/network/value_hash.h"

typedef struct kilni_http_request {
    kilni_call call; /* first: a request is a call */
    struct kilni_http_request *next;
    /* The owner of the request, and a function that is called when the request is freed. NULL:
     * there is none. */
    void *owner;
    void (*forget)(void *owner);
    /* The I/O thread calls this function when it has the results of a request for which no thread
     * waits. NULL: nothing is called. */
    void (*arrived)(struct kilni_http_request *request);
    void *user;      /* an argument for the function arrived */
    unsigned lane;   /* which of the owner's lanes sends it */
    bool may_repeat; /* sending it again does no harm */
    bool is_repeated;
    unsigned hops;        /* how many addresses have refused a connection for this request */
    bool asks_head;       /* the method is HEAD */
    bool asks_range;      /* the request asks for a part of the file */
    uint64_t patience_ns; /* how long to wait for the beginning of the answer */
    uint64_t max_bytes;   /* the maximum size of the body; a larger body is an error */
    size_t kept_bytes;    /* how many bytes of the body to keep; the call does not wait for more */

    kilni_text text; /* what is sent */
    size_t sent;
    kilni_http_reader reader;

    /* The results: valid only if the status is KILN_OK. */
    kiln_status status;
    kilni_http_head head;
    unsigned char *data; /* the body, with a NUL after it; NULL: no body was wanted */
    size_t size;
    bool is_hashed; /* there is a hash of the body, as in kilni_remote_bytes */
    kiln_digest digest;

    kilni_value_hash hash; /* while the body arrives */
    size_t capacity;       /* of data, without the NUL */
    size_t discarded;      /* how many bytes of the body were discarded */
} kilni_http_request;

/* Makes a request whose text is empty.
 *
 * @run  as kilni_call_init
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_http_request_new(void (*run)(kilni_task *task), uint64_t deadline_ns,
                                   kilni_http_request **ret_request);

/* ---- for the I/O thread ---- */

/* Reads @input, a part of the answer to this request that has arrived. Returns KILN_OK: the answer,
 * or the wanted part of it, is complete; KILN_BUSY: more bytes must arrive; KILN_E_CORRUPT: the
 * input is not an HTTP answer; KILN_E_TOO_LARGE: the body is larger than max_bytes;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_http_request_take(kilni_http_request *request, kilni_byte_reader *input);

/* Returns the place for the next bytes of the body, and sets @ret_room to the number of bytes that
 * can be received there. Returns NULL if it is not certain that the next bytes belong to the body.
 */
unsigned char *kilni_http_request_place(kilni_http_request *request, size_t *ret_room);
/* Does the same as kilni_http_request_take for bytes that were received at the place that
 * kilni_http_request_place returned. */
kiln_status kilni_http_request_arrived(kilni_http_request *request, size_t count);

/* Returns true if the connection can be used for the next request after this answer. */
bool kilni_http_request_leaves_connection(const kilni_http_request *request);

/* Prepares a request to be sent once more. The caller must ensure that no part of its answer has
 * arrived. */
void kilni_http_request_rewind(kilni_http_request *request);
