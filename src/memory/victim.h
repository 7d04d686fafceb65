/* SPDX-License-Identifier: Apache-2.0
 *
 * Which object leaves the cache first.
 *
 * In a cache of few objects, all are compared. In a larger one, a random sample is compared with
 * the candidates: the objects that ranked lowest in earlier samples, or when they were inserted.
 * The candidates are ranked anew each time, since they may have been used or pinned. So the time
 * that one choice takes does not depend on the number of objects.
 */
#pragma once

#include "memory/memory.h"

/* What objects are ordered by. */
typedef enum kilni_order {
    KILNI_ORDER_POLICY, /* by the cache's policy */
    KILNI_ORDER_COST    /* by what it costs to rebuild */
} kilni_order;

/* Returns the object to remove first; NULL if the cache is empty. Returns a pinned one only if all
 * that were compared are pinned. @step counts the objects that the call has removed before. The
 * later choices of one call take less time than the first one, which has ranked the candidates. */
kilni_object *kilni_victim_choose_locked(kiln_cache *cache, kilni_order order, size_t step);

/* Lets an object that was just inserted become a candidate. */
void kilni_victim_consider_locked(kilni_object *object);

/* Must be called before an object leaves the cache. */
void kilni_victim_forget_locked(kilni_object *object);
