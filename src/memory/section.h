/* SPDX-License-Identifier: Apache-2.0
 *
 * Read sections, and what waits for them to be left.
 */
#pragma once

#include "memory/memory.h"
#include "memory/reader.h"

/* Takes an object that nothing but a section can reach. */
void kilni_section_retire_locked(kilni_object *object);

/* Takes cells of cache->ready that were replaced; NULL is allowed. */
void kilni_section_retire_cells_locked(kiln_cache *cache, kilni_cells *cells);

/* Frees the cells that no section can see any more and gives such objects, to be destroyed once the
 * lock is free. */
kilni_queue kilni_section_collect_locked(kiln_cache *cache);

/* Collects and destroys. No lock held. */
void kilni_section_collect(kiln_cache *cache);
