/* SPDX-License-Identifier: Apache-2.0
 *
 * How a Redis cluster divides names among its nodes. This code finds the slot of a name, and reads
 * the list of the slots of each node and the answers that name a different node. It does no I/O and
 * allocates nothing, so that all of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis/value.h"

/* The number of slots. Each name belongs to one slot, and each slot to one node. */
#define KILNI_REDIS_SLOTS 16384u

/* Returns the slot of a name. If the name contains texts in braces, only the first of these texts
 * is used. */
uint16_t kilni_redis_slot_of(const char *name, size_t size);

/* The address of a node, as reported by a node of the cluster. */
typedef struct kilni_redis_place {
    char host[256]; /* a name or an address; "": the host of the node that answered */
    uint16_t port;
} kilni_redis_place;

/* What an error reply says about a slot. */
typedef enum kilni_redis_redirection {
    KILNI_REDIS_STAYS, /* the error has nothing to do with slots */
    KILNI_REDIS_MOVED, /* the slot belongs to a different node */
    KILNI_REDIS_ASK    /* the slot is moving, and the other node might already have the name */
} kilni_redis_redirection;

/* Interprets an error reply. Sets the results unless it returns KILNI_REDIS_STAYS. */
kilni_redis_redirection kilni_redis_redirection_read(const kilni_redis_value *value,
                                                     uint16_t *ret_slot,
                                                     kilni_redis_place *ret_place);

/* Consecutive slots of one node. */
typedef struct kilni_redis_range {
    uint16_t first, last;
    kilni_redis_place place;
} kilni_redis_range;

/* Reads the reply to CLUSTER SLOTS, one range of slots per call. Skips the ranges of nodes that
 * have no usable address.
 *
 * @at  [in, out] the place in the reply; 0 before the first call
 * Returns KILN_OK: there is a range; KILN_MISS: there are no more ranges; KILN_E_CORRUPT: the
 * values are not a reply to CLUSTER SLOTS. */
kiln_status kilni_redis_range_next(const kilni_redis_value *values, size_t count, size_t *at,
                                   kilni_redis_range *ret_range);
