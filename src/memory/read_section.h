/* SPDX-License-Identifier: Apache-2.0
 *
 * Read sections, and the objects that cannot be destroyed until sections have been left. An object
 * is retired once nothing holds it any longer; a shared one is retired as soon as it is removed
 * from the cache, even if it is pinned. A thread that collects destroys a retired object once no
 * section can see it and nothing holds it.
 *
 * A departure is the work of a call that reports the eviction of objects or destroys objects: from
 * when it takes the first of them until the last of the user's functions has returned. Other
 * threads can wait until a departure is over.
 */
#pragma once

#include "memory/memory.h"
#include "memory/reader.h"

/* The departure of one call. The structure is on the stack of the call's thread. It enters the
 * cache's list when the thread takes the first object, under the lock, and leaves the list when the
 * last of the user's functions has returned. During that time the thread can't be cancelled. If one
 * of these functions ends the thread or throws, a cleanup handler ends the departure, and leaves
 * the objects that were not destroyed to the next thread that collects. */
struct kilni_departure {
    kilni_departure *next;
    kiln_cache *cache;
    uint64_t number; /* in the order in which departures began; 0: not under way */
    uint64_t thread;
    int cancelable; /* the thread's cancelability before the departure */
};

/* Begins a departure, unless it has begun. A thread ends its departures in the reverse of the order
 * in which they began. */
void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure);

/* Ends a departure, if it has begun. */
void kilni_departure_end_locked(kilni_departure *departure);

/* Whether this thread is in a listener or a destroy function of this cache. Called with no lock
 * held. */
bool kilni_cache_is_departing(kiln_cache *cache);

/* Waits until the departures that other threads have begun are over, so that the objects that they
 * were destroying have been destroyed. Returns at once on a thread that is inside a departure of
 * any cache: two such threads that waited for each other would never return. Called with no lock
 * held. */
void kilni_departures_wait(kiln_cache *cache);

/* Waits until every object that any thread removed from the cache before this call, and that no pin
 * holds, has been destroyed. Does not wait for sections if nothing can be reclaimed (see
 * reclaims_nothing). Must not be called in a section of this cache or with a lock held.
 * Must not be called in a listener or a destroy function of a cache if a thread for which this call
 * waits may itself settle that cache: two threads that waited for each other would never return. */
void kilni_cache_settle(kiln_cache *cache);

/* Retires an object that nothing holds any longer, or a shared one that was removed from the cache.
 */
void kilni_section_retire_locked(kilni_object *object);

/* Releases a hold. If it was the last one, retires the object. */
void kilni_object_release_locked(kilni_object *object);

/* Releases the cache's hold on an object that was removed. If the object is shared, it is retired
 * at once, and its pins are counted when no section sees it. */
void kilni_object_release_removed_locked(kilni_object *object);

/* Retires cells of cache->ready that were replaced. @cells may be NULL. */
void kilni_section_retire_cells_locked(kiln_cache *cache, kilni_cells *cells);

/* Frees the cells that no section can see any longer, gives up the lock, and destroys the objects
 * that no section can see, unless the cache leaves the destruction to kiln_cache_collect. */
void kilni_section_collect_and_unlock(kiln_cache *cache);

/* Wakes the threads in kilni_cache_settle. Called by a thread that has left a section for which
 * other threads wait. */
void kilni_section_wake_settlers(kiln_cache *cache);

/* In a forked child: leaves the sections, and ends the departures, of the parent's other threads.
 */
void kilni_section_forget_threads_locked(kiln_cache *cache);

/* Enter and leave a section in the cases that the two functions below do not handle. The first
 * returns the place of the section. A section that is only counted in the cache gets a place that
 * belongs to no thread. */
kilni_place *kilni_section_enter_slowly(kiln_cache *cache);
void kilni_section_leave_slowly(kiln_cache *cache, kilni_place *place);

/* Enter and leave a section. */
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
        kilni_section_wake_settlers(cache);
    }
}
