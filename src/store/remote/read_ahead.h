/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks through the entries of a server, and asks for many entries in one round trip. The walk
 * handles the entries in groups. It asks for the beginnings of all entries of a group together. It
 * also asks for several complete entries together, as long as the caller reads entries in order.
 * Only the thread that walks uses this code.
 */
#pragma once

#include "store/remote/connector.h"

#define KILNI_READ_AHEAD_GROUP 64u

typedef struct kilni_read_ahead {
    const kilni_connector *connector;
    kilni_remote *remote;
    size_t head_size; /* the number of bytes wanted from an entry's beginning */
    /* The group: */
    kilni_remote_question heads[KILNI_READ_AHEAD_GROUP]; /* there are answers if was_asked */
    kilni_remote_question wholes[KILNI_READ_AHEAD_GROUP];
    size_t count;
    bool was_asked;
    size_t next;   /* the place in the group after the entry that was read last */
    size_t window; /* how many complete entries one request may ask for */
} kilni_read_ahead;

/* Begins the next group, which consists of the first @count names in heads[…].name. The caller must
 * have set these names, and they must stay valid until the group ends. */
void kilni_read_ahead_begin(kilni_read_ahead *ahead, size_t count);

/* Returns the server's answer to the request for an entry's beginning. The answer is valid until
 * the group ends. Returns NULL if the caller must ask for this entry separately. */
const kilni_remote_question *kilni_read_ahead_head(kilni_read_ahead *ahead, size_t place,
                                                   uint64_t deadline_ns);

/* Returns true if the entry was read together with others, and false if the caller must ask for it
 * separately. If true, also returns the complete entry, which the caller must free. */
bool kilni_read_ahead_take(kilni_read_ahead *ahead, size_t place, uint64_t deadline_ns,
                           kilni_remote_bytes *ret_bytes);

/* Ends the group, and frees the answers that were not taken. */
void kilni_read_ahead_end(kilni_read_ahead *ahead);
