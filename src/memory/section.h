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

/* Sections of threads that have no place left. */
void kilni_section_enter_unlisted(kiln_cache *cache);
void kilni_section_leave_unlisted(kiln_cache *cache);

/* Begins to read; returns the place that shows it, NULL where that is the cache's list. */
static inline kilni_place *kilni_section_enter(kiln_cache *cache)
{
    kilni_place *place = kilni_reader_enter(kilni_reader_get(), cache);
    if (__builtin_expect(!place, 0)) {
        kilni_section_enter_unlisted(cache);
    }
    return place;
}

static inline void kilni_section_leave(kiln_cache *cache, kilni_place *place)
{
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(!place, 0)) {
        kilni_section_leave_unlisted(cache);
    } else if (kilni_reader_has(reader, place) && kilni_reader_leave(reader, place, cache)) {
        kilni_section_collect(cache);
    }
}
