/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk through the entries of a server, which asks for many entries in one round trip. The walk
 * handles groups of entries. It asks for the beginnings of all entries of a group together. It asks
 * for several complete entries together as long as the caller reads entries in order. Only the
 * thread that walks uses this code.
 */
#pragma once

#include "store/remote/connector.h"

#define KILNI_READ_AHEAD_GROUP 64u

typedef struct kilni_read_ahead {
    const kilni_connector *connector;
    kilni_remote *remote;
    size_t head_size; /* how many bytes from an entry's beginning are wanted */
    /* The group: */
    kilni_remote_question heads[KILNI_READ_AHEAD_GROUP]; /* answered if has_heads */
    kilni_remote_question wholes[KILNI_READ_AHEAD_GROUP];
    size_t count;
    bool was_asked, has_heads;
    size_t next;   /* the place in the group after the one that was read last */
    size_t window; /* how many complete entries may be asked for together */
} kilni_read_ahead;

/* Begins the next group, which consists of the first @count names in heads[…].name. The caller must
 * have set these names, and they must stay valid until the group ends. */
void kilni_read_ahead_begin(kilni_read_ahead *ahead, size_t count);

/* Returns the server's answer to the request for an entry's beginning; NULL: the caller must ask
 * for this entry separately. The answer is valid until the group ends. */
const kilni_remote_question *kilni_read_ahead_head(kilni_read_ahead *ahead, size_t place,
                                                   uint64_t deadline_ns);

/* Returns true, and a complete entry that the caller must free, if the entry was read together with
 * others. Otherwise returns false, and the caller must ask for the entry separately. */
bool kilni_read_ahead_take(kilni_read_ahead *ahead, size_t place, uint64_t deadline_ns,
                           kilni_remote_bytes *ret_bytes);

/* Ends the group, and frees the answers that were not taken. */
void kilni_read_ahead_end(kilni_read_ahead *ahead);
