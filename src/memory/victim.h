/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the object to evict. In a cache of few objects, all objects are compared. In a larger
 * cache, a random sample of objects is compared with the candidates. Candidates are the objects
 * that ranked lowest in earlier samples or when they were inserted. They are kept in the order of
 * their ranks. A candidate might have been used, pinned or released since it was ranked. So the
 * lowest candidate is ranked again before it is chosen, and all candidates are ranked again from
 * time to time. The time for a choice does not depend on the number of objects.
 */
#pragma once

#include "memory/memory.h"

/* Returns the object to remove first, or NULL if the cache is empty. The object is not in use,
 * unless all objects that were compared are in use. */
kilni_object *kilni_victim_choose_locked(kiln_cache *cache, kilni_order order);

/* Makes an object that was just inserted a candidate if it ranks low enough. */
void kilni_victim_consider_locked(kilni_object *object);

/* Removes an object from the candidates. Must be called before the object is removed from the
 * cache. */
void kilni_victim_forget_locked(kilni_object *object);
