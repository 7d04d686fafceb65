/* SPDX-License-Identifier: Apache-2.0
 *
 * A section belongs to the epoch that it saw when it was entered. The rule: what is retired in an
 * epoch was taken out of the table before the next epoch begins. So only sections of that epoch and
 * earlier ones can see it, and it is reclaimed once all of these have been left.
 *
 * A thread that collects ends the epoch, stores in cache->awaited the epoch below which it waits
 * for sections, passes a heavy fence, and then looks at all readers' places. A thread that enters a
 * section takes a place and passes a light fence before it looks at the table: either its place is
 * seen, or it sees a table without what was retired. A thread that leaves a section frees its place
 * and passes a light fence before it looks at cache->awaited: either its place is no longer seen,
 * or it sees that it was awaited, and collects itself.
 */
#include "memory/section.h"

#include <stdlib.h>

#include "memory/departure.h"
#include "memory/followup.h"
#include "memory/object.h"
#include "memory/policy.h"

/* This thread's sections without a place, by cache, as far as there is room. */
enum { UNLISTED_CACHES = 8 };
static _Thread_local struct {
    const kiln_cache *cache;
    size_t count;
} own_unlisted[UNLISTED_CACHES];

/* Those for which there was no room, in all caches. */
static _Thread_local size_t own_uncounted;

/* Stands for the place of each section that has none. */
static kilni_place unlisted;

static uint64_t epoch_of(const kiln_cache *cache)
{
    return atomic_load_explicit(&cache->epoch, memory_order_relaxed);
}

void kilni_section_retire_locked(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    if (!object->slot.was_visible) {
        object->retired_at = 0;
        kilni_queue_push(&cache->retired_unseen, object);
        return;
    }
    object->retired_at = cache->last_retirement = epoch_of(cache);
    kilni_queue_push(&cache->retired, object);
}

void kilni_section_retire_cells_locked(kiln_cache *cache, kilni_cells *cells)
{
    if (!cells) {
        return;
    }
    cells->retired_at = cache->last_retirement = epoch_of(cache);
    kilni_cells **end = &cache->retired_cells;
    while (*end) {
        end = &(*end)->next;
    }
    *end = cells;
}

/* What one call reclaims. */
typedef struct collection {
    kilni_departure departure; /* of the objects */
    kilni_queue doomed;
    kilni_cells *cells;
} collection;

/* Gives up the lock for a while after many objects. */
static void take_objects_before_locked(kiln_cache *cache, kilni_queue *retired, uint64_t epoch,
                                       collection *taken)
{
    size_t step = 0;
    while (retired->first && retired->first->retired_at < epoch) {
        kilni_departure_begin_locked(cache, &taken->departure);
        kilni_object *object = kilni_queue_pop(retired);
        cache->lingering_entries--;
        cache->lingering_bytes -= object->bytes;
        kilni_queue_push(&taken->doomed, object);
        kilni_cache_step_locked(cache, &step);
    }
}

/* Takes what was retired before an epoch. */
static void take_before_locked(kiln_cache *cache, uint64_t epoch, collection *taken)
{
    while (cache->retired_cells && cache->retired_cells->retired_at < epoch) {
        kilni_cells *cells = cache->retired_cells;
        cache->retired_cells = cells->next;
        cells->next = taken->cells;
        taken->cells = cells;
    }
    take_objects_before_locked(cache, &cache->retired, epoch, taken);
}

static void collect_locked(kiln_cache *cache, collection *taken)
{
    take_objects_before_locked(cache, &cache->retired_unseen, UINT64_MAX, taken);
    if (!cache->retired.first && !cache->retired_cells) {
        return;
    }
    /* A new epoch begins only if something was retired in the current one. So while an old section
     * stays open, newer sections, for which nothing waits, do not come here when they are left. */
    uint64_t epoch = cache->last_retirement + 1;
    if (epoch_of(cache) < epoch) {
        /* Pairs with the acquire load in kilni_place_take. */
        atomic_store_explicit(&cache->epoch, epoch, memory_order_release);
    }
    /* Pairs with the load in kilni_place_leave, by the fences. */
    atomic_store_explicit(&cache->awaited, epoch, memory_order_relaxed);
    uint64_t oldest = kilni_reader_oldest(cache);
    cache->reclaims_nothing = oldest == 0;
    if (cache->reclaims_nothing) {
        pthread_cond_broadcast(&cache->departed);
    }
    if (cache->unlisted_sections > 0 && cache->unlisted_since < oldest) {
        oldest = cache->unlisted_since;
    }
    /* What is retired while the lock is given up may be seen by sections that begin then. */
    take_before_locked(cache, oldest < epoch ? oldest : epoch, taken);
    if (!cache->retired.first && !cache->retired_cells) {
        atomic_store_explicit(&cache->awaited, 0, memory_order_relaxed);
    }
}

static void free_cells(kilni_cells *cells)
{
    while (cells) {
        kilni_cells *next = cells->next;
        free(cells);
        cells = next;
    }
}

/* Undoes take_before_locked, for the objects. */
static void put_back_locked(kiln_cache *cache, kilni_queue *left)
{
    if (!left->first) {
        return;
    }
    for (const kilni_object *object = left->first; object; object = object->link) {
        cache->lingering_entries++;
        cache->lingering_bytes += object->bytes;
    }
    left->last->link = cache->retired.first;
    cache->retired.first = left->first;
    cache->retired.last = cache->retired.last ? cache->retired.last : left->last;
    kilni_section_defer_locked(cache);
}

/* A cleanup handler. Objects are left if a destroy function ended its thread or threw. */
static void end_collection(void *argument)
{
    collection *ending = argument;
    kiln_cache *cache = ending->departure.cache;
    kilni_cache_lock(cache);
    put_back_locked(cache, &ending->doomed);
    kilni_departure_end_locked(&ending->departure);
    pthread_mutex_unlock(&cache->lock);
    kilni_cache_release(cache);
}

void kilni_section_collect_and_unlock(kiln_cache *cache)
{
    collection taken = {0};
    collect_locked(cache, &taken);
    if (!taken.doomed.first) {
        pthread_mutex_unlock(&cache->lock);
        free_cells(taken.cells);
        return;
    }
    /* The objects' references to the cache go with the objects. */
    kilni_cache_retain(cache);
    pthread_mutex_unlock(&cache->lock);
    free_cells(taken.cells);
    pthread_cleanup_push(end_collection, &taken);
    kilni_object_destroy_all(&taken.doomed);
    pthread_cleanup_pop(1);
}

void kilni_section_defer_locked(kiln_cache *cache)
{
    if (cache->retired.first || cache->retired_cells) {
        atomic_store_explicit(&cache->awaited, UINT64_MAX, memory_order_relaxed);
    }
}

/* Returns the count of this thread's sections of a cache; NULL if it has none, and @or_new is false
 * or there is no room for a new count. */
static size_t *own_unlisted_of(const kiln_cache *cache, bool or_new)
{
    int unused = -1;
    for (int i = 0; i < UNLISTED_CACHES; i++) {
        if (own_unlisted[i].count == 0) {
            unused = i;
        } else if (own_unlisted[i].cache == cache) {
            return &own_unlisted[i].count;
        }
    }
    if (!or_new || unused < 0) {
        return NULL;
    }
    own_unlisted[unused].cache = cache;
    return &own_unlisted[unused].count;
}

void kilni_section_forget_threads_locked(kiln_cache *cache)
{
    const size_t *own = own_unlisted_of(cache, false);
    if (own_uncounted == 0) {
        cache->unlisted_sections = own ? *own : 0;
    }
    /* The next thread that leaves a section looks at what the other threads left. */
    kilni_section_defer_locked(cache);
}

/* A function of its own, since it is rare. */
__attribute__((noinline)) void kilni_section_collect(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    kilni_section_collect_and_unlock(cache);
}

/* ---- sections ---- */

static kilni_place *free_place(kilni_reader *reader)
{
    for (int i = 0; reader && i < KILNI_READER_PLACES; i++) {
        if (kilni_place_is_free(&reader->places[i])) {
            return &reader->places[i];
        }
    }
    return NULL;
}

__attribute__((noinline)) kilni_place *kilni_section_enter_slowly(kiln_cache *cache)
{
    kilni_place *place = free_place(kilni_reader_own ? kilni_reader_own : kilni_reader_claim());
    if (place) {
        kilni_place_take(place, cache);
        return place;
    }
    size_t *own = own_unlisted_of(cache, true);
    ++*(own ? own : &own_uncounted);
    kilni_cache_lock(cache);
    if (cache->unlisted_sections++ == 0) {
        cache->unlisted_since = epoch_of(cache);
    }
    pthread_mutex_unlock(&cache->lock);
    return &unlisted;
}

__attribute__((noinline)) void kilni_section_leave_slowly(kiln_cache *cache, kilni_place *place)
{
    if (kilni_reader_has(kilni_reader_own, place)) {
        if (kilni_place_leave(place, cache)) {
            kilni_section_collect(cache);
        }
        return;
    }
    if (place != &unlisted) {
        return; /* left when its thread ended */
    }
    size_t *own = own_unlisted_of(cache, false);
    --*(own ? own : &own_uncounted);
    kilni_cache_lock(cache);
    cache->unlisted_sections--;
    kilni_section_collect_and_unlock(cache);
}

__attribute__((noinline)) static void enter_slowly(kiln_cache *cache, kiln_section *ret_section)
{
    ret_section->cache = cache;
    ret_section->slot = cache ? kilni_section_enter_slowly(cache) : NULL;
}

/* Below, the rare cases are functions of their own, called last: the usual path then saves no
 * registers. */
void kiln_section_enter(kiln_cache *cache, kiln_section *ret_section)
{
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(!cache || !reader || !kilni_place_is_free(&reader->places[0]), 0)) {
        enter_slowly(cache, ret_section);
        return;
    }
    kilni_place_take(&reader->places[0], cache);
    ret_section->cache = cache;
    ret_section->slot = &reader->places[0];
}

void kiln_section_leave(kiln_section *section)
{
    if (!section || !section->cache) {
        return;
    }
    kiln_cache *cache = section->cache;
    kilni_place *place = section->slot;
    section->cache = NULL;
    kilni_section_leave(cache, place);
}

/* For a use that changes something or must be reported. */
__attribute__((noinline)) static void *use(kilni_object *object)
{
    kilni_object_note_use(object);
    return object->object;
}

/* For a key that is equal but not identical to the object's, or that is far from the beginning of
 * its search. */
__attribute__((noinline)) static void *peek_slowly(const kiln_cache *cache, const kiln_key *key)
{
    kilni_object *object = kilni_cache_find(cache, key);
    return object ? use(object) : NULL;
}

void *kiln_cache_peek(const kiln_section *section, const kiln_key *key)
{
    if (!section || !section->cache || !key) {
        return NULL;
    }
    const kiln_cache *cache = section->cache;
    kilni_object *object = kilni_cache_find_same(cache, key);
    if (!object) {
        return peek_slowly(cache, key);
    }
    return kilni_policy_is_settled(cache, object) ? object->object : use(object);
}
