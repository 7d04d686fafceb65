/* SPDX-License-Identifier: Apache-2.0
 *
 * Read sections, and retired objects. A retired object can't be destroyed while a section might see
 * it. An object is retired when nothing holds it any longer. A shared object is retired as soon as
 * it is removed from the cache, even if it is pinned. A thread that collects destroys a retired
 * object when no section can see it and nothing holds it.
 *
 * A departure is the work of a call that reports the eviction of objects or destroys objects. A
 * departure begins when the call takes the first of these objects, and ends when the last of the
 * user's functions has returned. Other threads can wait until a departure is over.
 */
#pragma once

#include "memory/memory.h"
#include "memory/reader.h"

/* The departure of one call. The structure is on the stack of the call's thread. The thread adds it
 * to the cache's list when it takes the first object, under the lock. The thread removes it when
 * the last of the user's functions has returned. In between, the thread can't be cancelled. If one
 * of these functions ends the thread or throws an exception, a cleanup handler ends the departure.
 * The next thread that collects then takes the objects that were not destroyed. */
struct kilni_departure {
    kilni_departure *next;
    kiln_cache *cache;
    uint64_t number; /* in the order in which departures began; 0: not under way */
    uint64_t thread;
    int cancelable; /* the thread's cancelability before the departure */
};

/* Begins a departure, unless it has already begun. If a thread has several departures, it ends the
 * newest one first. */
void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure);

/* Ends a departure. Does nothing if it has not begun. */
void kilni_departure_end_locked(kilni_departure *departure);

/* Returns true if this thread is inside a listener or a destroy function of this cache. Called with
 * no lock held. */
bool kilni_cache_is_departing(kiln_cache *cache);

/* Waits until the departures that other threads have begun are over. The objects that those threads
 * were destroying are destroyed by then. Does not wait if this thread is inside a departure of any
 * cache, because two such threads could wait for each other forever. Called with no lock held. */
void kilni_departures_wait(kiln_cache *cache);

/* Waits for the destruction of all objects that were removed from the cache before this call, by
 * any thread, and that no pin holds. Does not wait for sections if nothing can be reclaimed (see
 * reclaims_nothing). Must not be called in a section of this cache or with a lock held. Must not be
 * called in a listener or a destroy function of a cache if this call might wait for a thread that
 * settles the same cache. Otherwise, the two threads could wait for each other forever. */
void kilni_cache_settle(kiln_cache *cache);

/* Retires an object that nothing holds any longer, or a shared object that was removed from the
 * cache. */
void kilni_section_retire_locked(kilni_object *object);

/* Releases a hold. If it was the last one, retires the object. */
void kilni_object_release_locked(kilni_object *object);

/* Releases the cache's hold on an object that was removed. If the object is shared, the call
 * retires it immediately. Its pins are counted later, when no section sees it. */
void kilni_object_release_removed_locked(kilni_object *object);

/* Retires cells of cache->ready that were replaced. @cells can be NULL. */
void kilni_section_retire_cells_locked(kiln_cache *cache, kilni_cells *cells);

/* Gives up the lock and frees the cells that no section can see any longer. Then destroys the
 * objects that no section can see any longer, unless only kiln_cache_collect destroys objects of
 * this cache. */
void kilni_section_collect_and_unlock(kiln_cache *cache);

/* Wakes the threads in kilni_cache_settle. Called by a thread that has left a section for which
 * other threads wait. */
void kilni_section_wake_settlers(kiln_cache *cache);

/* Called in a forked child. Leaves the sections and ends the departures of the parent's other
 * threads. */
void kilni_section_forget_threads_locked(kiln_cache *cache);

/* These functions enter and leave a section in the cases that the two functions below do not
 * handle. kilni_section_enter_slowly returns the place of the section. If the cache only counts a
 * section, the section gets a place that belongs to no thread. */
kilni_place *kilni_section_enter_slowly(kiln_cache *cache);
void kilni_section_leave_slowly(kiln_cache *cache, kilni_place *place);

/* These functions enter and leave a section. */
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
