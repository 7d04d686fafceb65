/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are sent together, and the replies to them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "base/text.h"
#include "store/network/call.h"
#include "store/network/value_hash.h"
#include "store/redis/value.h"

/* The maximum number of commands in an exchange that a node of a cluster can redirect. */
#define KILNI_REDIS_REDIRECTED_COMMANDS 2u

/* Look-ups have their own connection. So they do not wait while large values are being sent. */
enum { KILNI_REDIS_LANE_LOOKUPS, KILNI_REDIS_LANE_PUTS, KILNI_REDIS_LANES };

typedef struct kilni_redis_exchange {
    kilni_call call; /* first: an exchange is a call */
    struct kilni_redis_exchange *next;
    /* The owner of the exchange, and a function that is called when the exchange is freed. NULL:
     * there is none. */
    void *owner;
    void (*forget)(void *owner);
    /* Called when the exchange ends, instead of waking the caller. The function must either ensure
     * that kilni_call_finish is called, or release the exchange. It must not send anything, because
     * the connection that received the answer may be in the middle of its work. NULL: the caller is
     * woken. */
    void (*ended)(struct kilni_redis_exchange *exchange);
    void *asker;     /* an argument for ended */
    unsigned lane;   /* which of a server's connections sends it */
    bool may_repeat; /* sending it again does no harm */
    bool is_repeated;
    unsigned hops; /* how many addresses have refused a connection for this exchange */

    /* In a cluster: */
    uint16_t slot;  /* the exchange goes to the node that has this slot */
    bool stays;     /* it is not redirected, since it has several names or too many commands */
    bool is_asking; /* ASKING precedes each command */
    unsigned redirections;         /* how often a node has named a different node */
    struct kilni_redis_node *node; /* the node to which it was or will be sent */

    kilni_text commands;
    size_t second_at; /* where the second command begins; 0: there is none */
    size_t sent;
    size_t command_count;
    size_t replies_left;

    uint64_t max_bytes;  /* as in kilni_redis_exchange_new */
    uint64_t bytes_left; /* how many more bytes are allowed */
    size_t blob_arrived; /* how many bytes of the last value have arrived, while is_in_blob */
    bool is_in_blob;
    kilni_value_hash hash; /* of the last value, while is_in_blob */

    /* The results. There are values only if the status is KILN_OK. */
    kiln_status status;
    kilni_redis_value *values;
    size_t value_count, value_capacity;
} kilni_redis_exchange;

/* Makes an exchange without a command.
 *
 * @run        as in kilni_call_init
 * @max_bytes  the maximum size of all replies together: their data, and about 100 bytes for each
 *             value that is not the only value of a reply
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_exchange_new(void (*run)(kilni_task *task), uint64_t max_bytes,
                                     uint64_t deadline_ns, kilni_redis_exchange **ret_exchange);

/* Adds a command. Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_exchange_add(kilni_redis_exchange *exchange,
                                     const kilni_resp_argument *arguments, size_t count);

/* ---- for the I/O thread ---- */

/* Appends a reader's event to the replies. Returns KILN_OK; KILN_E_TOO_LARGE: the replies have more
 * data than the exchange allows; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_exchange_take(kilni_redis_exchange *exchange,
                                      const kilni_resp_event *event);

/* Returns where the next bytes of the present blob belong; NULL: no blob is arriving. The end of
 * the blob (KILNI_RESP_BLOB_END_SIZE) can be received behind the blob. */
unsigned char *kilni_redis_exchange_place(kilni_redis_exchange *exchange);
void kilni_redis_exchange_arrived(kilni_redis_exchange *exchange, size_t count);

/* Returns true if no part of a reply has arrived. */
bool kilni_redis_exchange_is_unanswered(const kilni_redis_exchange *exchange);

/* Prepares an exchange to be sent once more. Drops the replies that have arrived. */
void kilni_redis_exchange_rewind(kilni_redis_exchange *exchange);

/* Does the same as kilni_redis_exchange_rewind, and puts ASKING before each command. This makes a
 * node answer even for a slot that it is about to get. There must be at most
 * KILNI_REDIS_REDIRECTED_COMMANDS commands. The replies to ASKING are not among the values. Returns
 * KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_redis_exchange_rewind_asking(kilni_redis_exchange *exchange);

/* Ends an exchange. */
void kilni_redis_exchange_end(kilni_redis_exchange *exchange, kiln_status status);

/* Ends the exchanges of a list. */
void kilni_redis_exchange_end_all(kilni_redis_exchange *exchange, kiln_status status);
