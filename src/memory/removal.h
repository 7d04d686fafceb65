/* SPDX-License-Identifier: Apache-2.0
 *
 * How objects, flights and failures leave the cache.
 */
#pragma once

#include "memory/aftermath.h"
#include "memory/memory.h"

/* Takes an object out of the cache; its watches turn here, before any notice. */
void kilni_evict_locked(kilni_object *object, kiln_eviction reason, kilni_aftermath *after);

/* Removes everything. Flights go on, and nothing that comes of them is kept. */
void kilni_clear_locked(kiln_cache *cache, kilni_aftermath *after);
