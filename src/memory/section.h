/* SPDX-License-Identifier: Apache-2.0
 *
 * Read sections, and what waits for them to be left.
 */
#pragma once

#include "memory/memory.h"
#include "memory/reader.h"

/* Takes an object that nothing except a section can reach. */
void kilni_section_retire_locked(kilni_object *object);

/* Takes cells of cache->ready that were replaced. NULL is allowed. */
void kilni_section_retire_cells_locked(kiln_cache *cache, kilni_cells *cells);

/* Frees the cells that no section can see any longer, gives up the lock, and destroys the objects
 * that no section can see. */
void kilni_section_collect_and_unlock(kiln_cache *cache);

/* For a thread that can't collect: leaves it to the next thread that leaves a section, or settles
 * the cache. */
void kilni_section_defer_locked(kiln_cache *cache);

/* Collects. No lock held. */
void kilni_section_collect(kiln_cache *cache);

/* In a forked child: leaves the sections of the parent's other threads. */
void kilni_section_forget_threads_locked(kiln_cache *cache);

/* Begins to read, in whatever way is possible: for what the two functions below can't do at once.
 * Returns the place that shows the section, or, if the cache's own count shows it, one that belongs
 * to no thread. */
kilni_place *kilni_section_enter_slowly(kiln_cache *cache);
void kilni_section_leave_slowly(kiln_cache *cache, kilni_place *place);

/* Begins to read. */
static inline kilni_place *kilni_section_enter(kiln_cache *cache)
{
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(reader && kilni_place_is_free(&reader->places[0]), 1)) {
        kilni_place_take(&reader->places[0], cache);
        return &reader->places[0];
    }
    return kilni_section_enter_slowly(cache);
}

static inline void kilni_section_leave(kiln_cache *cache, kilni_place *place)
{
    if (__builtin_expect(!kilni_place_is_first_of(place, kilni_reader_own), 0)) {
        kilni_section_leave_slowly(cache, place);
    } else if (kilni_place_leave(place, cache)) {
        kilni_section_collect(cache);
    }
}
