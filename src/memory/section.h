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

/* Frees the cells that no section can see any more, gives the lock up, and destroys such objects.
 */
void kilni_section_collect_and_unlock(kiln_cache *cache);

/* For who can't collect: lets whoever leaves a section next, or settles, do it. */
void kilni_section_leave_to_others_locked(kiln_cache *cache);

/* Collects, with no lock held. */
void kilni_section_collect(kiln_cache *cache);

/* In a forked child: leaves the sections of the threads that are gone. */
void kilni_section_forget_threads_locked(kiln_cache *cache);

/* Begins to read, in whatever way there is: for what the two below can't do at once. Returns the
 * place that shows it, or where the cache's own count does, one that is nobody's. */
kilni_place *kilni_section_enter_with_care(kiln_cache *cache);
void kilni_section_leave_with_care(kiln_cache *cache, kilni_place *place);

/* Begins to read. */
static inline kilni_place *kilni_section_enter(kiln_cache *cache)
{
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(reader && kilni_place_is_free(&reader->places[0]), 1)) {
        kilni_place_take(&reader->places[0], cache);
        return &reader->places[0];
    }
    return kilni_section_enter_with_care(cache);
}

static inline void kilni_section_leave(kiln_cache *cache, kilni_place *place)
{
    if (__builtin_expect(!kilni_place_is_first_of(place, kilni_reader_own), 0)) {
        kilni_section_leave_with_care(cache, place);
    } else if (kilni_place_leave(place, cache)) {
        kilni_section_collect(cache);
    }
}
