/* SPDX-License-Identifier: Apache-2.0
 *
 * Which objects go first.
 *
 * They are found some at a time, the first ones of a look at all objects: one, then twice as many
 * each time, so that making little room is quick and making much takes few looks. In a cache of
 * many objects, the first one of a sample is enough to make room: a look at all would take longer
 * than it is worth.
 */
#pragma once

#include "memory/memory.h"

enum { KILNI_VICTIMS = 64 };

/* An object's place in the order in which objects go. */
typedef struct kilni_rank {
    bool pinned;
    double worth;
    uint64_t use;      /* its word: the clock of the last use, and above all equal, the frequency */
    uint64_t inserted; /* unique */
} kilni_rank;

/* What objects are ordered by. */
typedef enum kilni_order {
    KILNI_ORDER_POLICY, /* by the cache's policy, where objects are many by a sample */
    KILNI_ORDER_COST    /* by what it costs to rebuild */
} kilni_order;

/* Begins with its order and zeroes; good for one time under the lock. */
typedef struct kilni_victims {
    kilni_order order;
    size_t limit; /* of what is found at a time */
    size_t count, next;
    struct kilni_victim {
        kilni_rank rank;
        kilni_object *object;
    } found[KILNI_VICTIMS]; /* in order */
} kilni_victims;

/* The next to go, to be taken out before the next call; NULL where there is none. Unpinned ones
 * come first. */
kilni_object *kilni_victims_next_locked(kiln_cache *cache, kilni_victims *victims);

/* The same without those that are pinned. */
kilni_object *kilni_victims_next_unpinned_locked(kiln_cache *cache, kilni_victims *victims);
