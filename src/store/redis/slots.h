/* SPDX-License-Identifier: Apache-2.0
 *
 * How a Redis cluster divides the names among its nodes: the slot of a name, the list of the slots
 * of each node, and the answers that name a different node. This code does no I/O and allocates
 * nothing, so that all of it can be fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis/value.h"

/* Each name belongs to one of so many slots, and each slot to one node. */
#define KILNI_REDIS_SLOTS 16384u

/* Returns the slot of a name. If the name contains text in braces, only the first such text counts.
 */
uint16_t kilni_redis_slot_of(const char *name, size_t size);

/* The address of a node of a cluster, as a different node reports it. */
typedef struct kilni_redis_place {
    char host[256]; /* a name or an address; "": the host of the node that answered */
    uint16_t port;
} kilni_redis_place;

/* What an error reply says about a slot. */
typedef enum kilni_redis_redirection {
    KILNI_REDIS_STAYS, /* it is a different error */
    KILNI_REDIS_MOVED, /* the slot belongs to a different node */
    KILNI_REDIS_ASK    /* the slot is moving, and the name may already be on the other node */
} kilni_redis_redirection;

/* Reads an error reply. The results are set unless KILNI_REDIS_STAYS is returned. */
kilni_redis_redirection kilni_redis_redirection_read(const kilni_redis_value *value,
                                                     uint16_t *ret_slot,
                                                     kilni_redis_place *ret_place);

/* Consecutive slots of one node. */
typedef struct kilni_redis_range {
    uint16_t first, last;
    kilni_redis_place place;
} kilni_redis_range;

/* Reads the reply to CLUSTER SLOTS, one range of slots in each call. Ranges whose node has no
 * usable address are skipped.
 *
 * @at  [in, out] the place in the reply; 0 begins to read
 * Returns KILN_OK: there is a range; KILN_MISS: there are no more; KILN_E_CORRUPT: the values are
 * not such a reply. */
kiln_status kilni_redis_range_next(const kilni_redis_value *values, size_t count, size_t *at,
                                   kilni_redis_range *ret_range);
