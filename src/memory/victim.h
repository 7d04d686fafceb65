/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the object to evict. In a cache of few objects, all are compared. In a larger one, a
 * random sample is compared with the candidates: the objects that ranked lowest in earlier samples,
 * or when they were inserted. The candidates are kept in order. They may have been used, pinned or
 * released since they were ranked, so the lowest candidate is ranked again before it is chosen, and
 * all candidates are ranked again from time to time. The time that a choice takes does not depend
 * on the number of objects.
 */
#pragma once

#include "memory/memory.h"

/* Returns the object to remove first; NULL if the cache is empty. Returns an object that is in use
 * only if all objects that were compared are in use. */
kilni_object *kilni_victim_choose_locked(kiln_cache *cache, kilni_order order);

/* Lets an object that was just inserted become a candidate. */
void kilni_victim_consider_locked(kilni_object *object);

/* Removes an object from the candidates. Must be called before the object is removed from the
 * cache. */
void kilni_victim_forget_locked(kilni_object *object);
