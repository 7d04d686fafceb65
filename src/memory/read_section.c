/* SPDX-License-Identifier: Apache-2.0
 *
 * A section belongs to the epoch that its thread saw when it entered the section. An object that is
 * retired in an epoch is taken out of the table before the next epoch begins. So only sections of
 * that epoch and of earlier epochs can see the object. It is reclaimed when all these sections have
 * been left.
 *
 * A thread that collects ends the epoch, issues a heavy fence, and then looks at all readers'
 * places. A thread that enters a section takes a place and issues a light fence before it looks at
 * the table. So either the thread that collects sees the place, or the thread that enters sees a
 * table without the retired objects.
 *
 * A thread that leaves a section destroys nothing. The next thread that collects destroys the
 * objects that only this section could see. A thread that settles the cache first stores an epoch
 * in cache->awaited, and then collects. It waits for the sections of all earlier epochs. A thread
 * that leaves a section frees its place and issues a light fence before it reads cache->awaited. So
 * at least one of these is true: the thread that collects no longer sees the place, or the thread
 * that leaves sees that its section was awaited, and wakes the thread that waits.
 */
#include "memory/read_section.h"

#include "memory/lifetime.h"

/* Counts this thread's sections that have no place, separately for each of up to UNLISTED_CACHES
 * caches. */
enum { UNLISTED_CACHES = 8 };
static _Thread_local struct {
    const kiln_cache *cache;
    size_t count;
} own_unlisted[UNLISTED_CACHES];

/* The number of this thread's sections, in all caches, for which own_unlisted had no room. */
static _Thread_local size_t own_uncounted;

/* Serves as the place of each section that has no place of its own. */
static kilni_place unlisted;

static uint64_t epoch_of(const kiln_cache *cache)
{
    return atomic_load_explicit(&cache->epoch, memory_order_relaxed);
}

/* ---- departures ---- */

/* The number of departures that this thread is inside, in all caches. */
static _Thread_local size_t own_departures;

void kilni_departure_begin_locked(kiln_cache *cache, kilni_departure *departure)
{
    if (departure->number > 0) {
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &departure->cancelable);
    own_departures++;
    departure->cache = cache;
    departure->number = ++cache->last_departure;
    departure->thread = kilni_thread_number();
    departure->next = cache->departures;
    cache->departures = departure;
}

void kilni_departure_end_locked(kilni_departure *departure)
{
    if (departure->number == 0) {
        return;
    }
    kiln_cache *cache = departure->cache;
    kilni_departure **link = &cache->departures;
    while (*link != departure) {
        link = &(*link)->next;
    }
    *link = departure->next;
    own_departures--;
    departure->number = 0;
    pthread_cond_broadcast(&cache->departed);
    pthread_setcancelstate(departure->cancelable, NULL);
}

bool kilni_cache_is_departing(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    const kilni_departure *departure = cache->departures;
    while (departure && departure->thread != kilni_thread_number()) {
        departure = departure->next;
    }
    pthread_mutex_unlock(&cache->lock);
    return departure != NULL;
}

/* ---- retirement ---- */

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

void kilni_object_release_locked(kilni_object *object)
{
    if (kilni_object_drop_hold(object)) {
        kilni_section_retire_locked(object);
    }
}

void kilni_object_release_removed_locked(kilni_object *object)
{
    int64_t holds = atomic_load_explicit(&object->holds, memory_order_relaxed);
    int64_t next;
    do {
        next = holds - KILNI_HOLD_RESIDENT;
        if (kilni_holds_are_shared(holds)) {
            next += KILNI_HOLD_SETTLING - KILNI_HOLD_SHARED;
        }
    } while (!atomic_compare_exchange_weak_explicit(&object->holds, &holds, next,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (next == 0 || kilni_holds_are_shared(holds)) {
        kilni_section_retire_locked(object);
    }
}

/* ---- collection ---- */

/* Called for a retired object that no section sees. Returns true if something still holds the
 * object. In that case, the thread that releases the last hold retires the object again.
 *
 * No thread counts pins on the object in its tally any longer. A thread uses its tally only in a
 * section that saw the object as shared. All such sections began before the epoch that followed the
 * retirement, and have been left. */
static bool is_held_after_settling_locked(kilni_object *object)
{
    if (atomic_load_explicit(&object->holds, memory_order_acquire) == 0) {
        return false;
    }
    object->slot.was_visible = false;
    const int64_t change = kilni_reader_take_tallied(object) - KILNI_HOLD_SETTLING;
    return atomic_fetch_add_explicit(&object->holds, change, memory_order_acq_rel) + change != 0;
}

/* The objects and cells that one call reclaims. */
typedef struct collection {
    kilni_departure departure; /* of the objects */
    kilni_queue doomed;
    size_t count; /* of objects */
    kilni_cells *cells;
} collection;

/* Takes the objects that were retired before @epoch. Gives up the lock for a while after many
 * objects. */
static void take_objects_before_locked(kiln_cache *cache, kilni_queue *retired, uint64_t epoch,
                                       collection *taken)
{
    size_t step = 0;
    while (retired->first && retired->first->retired_at < epoch) {
        kilni_departure_begin_locked(cache, &taken->departure);
        kilni_object *object = kilni_queue_pop(retired);
        if (!is_held_after_settling_locked(object)) {
            cache->lingering_entries--;
            cache->lingering_bytes -= object->bytes;
            kilni_queue_push(&taken->doomed, object);
            taken->count++;
        }
        kilni_cache_step_locked(cache, &step);
    }
}

static void take_cells_before_locked(kiln_cache *cache, uint64_t epoch, collection *taken)
{
    while (cache->retired_cells && cache->retired_cells->retired_at < epoch) {
        kilni_cells *cells = cache->retired_cells;
        cache->retired_cells = cells->next;
        cells->next = taken->cells;
        taken->cells = cells;
    }
}

/* Returns an epoch. No section can see anything that was retired before that epoch. Gives up the
 * lock for a while, so that other threads need not wait for the system's fence. Anything that other
 * threads retire during that time belongs to the epoch that begins here, or to a later epoch. */
static uint64_t first_visible_locked(kiln_cache *cache)
{
    /* A new epoch begins only if something was retired in the current one. */
    uint64_t epoch = cache->last_retirement + 1;
    if (epoch_of(cache) < epoch) {
        /* Pairs with the acquire load in kilni_place_take. */
        atomic_store_explicit(&cache->epoch, epoch, memory_order_release);
    }
    pthread_mutex_unlock(&cache->lock);
    uint64_t oldest = kilni_reader_oldest(cache);
    kilni_cache_lock(cache);
    cache->reclaims_nothing = oldest == 0;
    if (cache->reclaims_nothing) {
        pthread_cond_broadcast(&cache->departed);
    }
    if (cache->unlisted_sections > 0 && cache->unlisted_since < oldest) {
        oldest = cache->unlisted_since;
    }
    /* A section that begins while the lock is given up might see objects that are retired during
     * that time. */
    return oldest < epoch ? oldest : epoch;
}

/* Takes the cells that no section can see. If @objects is true, also takes the objects that no
 * section can see. */
static void collect_locked(kiln_cache *cache, bool objects, collection *taken)
{
    if (objects) {
        take_objects_before_locked(cache, &cache->retired_unseen, UINT64_MAX, taken);
    }
    if (!cache->retired_cells && !(objects && cache->retired.first)) {
        return;
    }
    const uint64_t epoch = first_visible_locked(cache);
    take_cells_before_locked(cache, epoch, taken);
    if (objects) {
        take_objects_before_locked(cache, &cache->retired, epoch, taken);
    }
}

/* Returns objects to the list of retired objects, after collect_locked has taken them. */
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
}

/* A cleanup handler, called at the end of each collection that destroys objects. If a destroy
 * function has ended its thread or thrown an exception, some objects are not destroyed yet. */
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

/* Gives up the lock and destroys the objects that were taken. Returns how many there were. */
static size_t destroy_and_unlock(kiln_cache *cache, collection *taken)
{
    if (!taken->doomed.first) {
        kilni_departure_end_locked(&taken->departure);
        pthread_mutex_unlock(&cache->lock);
        kilni_cells_free(taken->cells);
        return 0;
    }
    /* The objects' references to the cache are released with the objects, so this call needs a
     * reference of its own. */
    kilni_cache_retain(cache);
    pthread_mutex_unlock(&cache->lock);
    kilni_cells_free(taken->cells);
    pthread_cleanup_push(end_collection, taken);
    kilni_object_destroy_all(&taken->doomed);
    pthread_cleanup_pop(1);
    return taken->count;
}

static size_t collect_and_unlock(kiln_cache *cache, bool objects)
{
    collection taken = {0};
    collect_locked(cache, objects, &taken);
    return destroy_and_unlock(cache, &taken);
}

/* Collects also for the threads that call kilni_section_collect_and_unlock meanwhile, because each
 * collection needs a heavy fence, and the system issues one after the other. While
 * cache->collects_for_others is set, such threads set cache->collects_again and return. The flag is
 * cleared under the lock, either when no thread has done so since the last pass began, or before
 * the last pass begins. So for everything that was retired, a pass begins later. */
static void collect_for_others_locked(kiln_cache *cache, bool objects, collection *taken)
{
    enum { PASSES = 8 };
    if (objects) {
        /* Threads that wait for departures also wait for objects that others leave to this one. */
        kilni_departure_begin_locked(cache, &taken->departure);
    }
    bool leads = true;
    for (int pass = 1; leads; pass++) {
        leads = pass < PASSES;
        cache->collects_for_others = leads;
        cache->collects_again = false;
        collect_locked(cache, objects, taken);
        if (leads && !cache->collects_again) {
            cache->collects_for_others = leads = false;
        }
    }
}

void kilni_section_collect_and_unlock(kiln_cache *cache)
{
    if (cache->collects_for_others) {
        cache->collects_again = true;
        pthread_mutex_unlock(&cache->lock);
        return;
    }
    collection taken = {0};
    collect_for_others_locked(cache, !cache->defers_destruction, &taken);
    destroy_and_unlock(cache, &taken);
}

size_t kiln_cache_collect(kiln_cache *cache)
{
    if (!cache) {
        return 0;
    }
    kilni_cache_lock(cache);
    return collect_and_unlock(cache, true);
}

/* ---- waiting until objects are destroyed ---- */

/* Returns true if departure @last, or an earlier one, is under way. The newest departure is the
 * first in the list. */
static bool is_under_way_locked(const kiln_cache *cache, uint64_t last)
{
    const kilni_departure *departure = cache->departures;
    while (departure && departure->number > last) {
        departure = departure->next;
    }
    return departure != NULL;
}

/* Waits until one of these happens: a departure ends; a thread leaves a section that was awaited or
 * had no place; or nothing is reclaimed any longer. */
static void wait_locked(kiln_cache *cache)
{
    int cancelable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    pthread_cond_wait(&cache->departed, &cache->lock);
    pthread_setcancelstate(cancelable, NULL);
}

/* Waits until the departures that began before this call are over. */
static void wait_for_departures_locked(kiln_cache *cache)
{
    uint64_t last = cache->last_departure;
    while (is_under_way_locked(cache, last)) {
        wait_locked(cache);
    }
}

void kilni_departures_wait(kiln_cache *cache)
{
    if (own_departures == 0) {
        kilni_cache_lock(cache);
        wait_for_departures_locked(cache);
        /* In its last pass, a thread that collects for others can lose objects to a thread whose
         * departure began after this call. Both departures were then under way at once. */
        wait_for_departures_locked(cache);
        pthread_mutex_unlock(&cache->lock);
    }
}

/* Returns true if a section still prevents the destruction of an object that was retired in epoch
 * @last or earlier. Returns false if nothing is reclaimed any longer, so that no thread waits in
 * vain. */
static bool waits_for_sections_locked(const kiln_cache *cache, uint64_t last)
{
    return !cache->reclaims_nothing && cache->retired.first &&
           cache->retired.first->retired_at <= last;
}

/* Ensures that a thread wakes this thread when it leaves a section of epoch @last or of an earlier
 * epoch. */
static void await_sections_locked(kiln_cache *cache, uint64_t last)
{
    /* The value never decreases, because another thread might be waiting for sections of a later
     * epoch. The store does not slow down later sections, because an awaited epoch is over before
     * this thread waits. The fences pair the store with the load in kilni_place_leave. */
    if (atomic_load_explicit(&cache->awaited, memory_order_relaxed) <= last) {
        atomic_store_explicit(&cache->awaited, last + 1, memory_order_relaxed);
    }
}

void kilni_cache_settle(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    /* Objects that are being reported are retired, or destroyed, before their departures end. */
    wait_for_departures_locked(cache);
    uint64_t last = cache->last_retirement;
    await_sections_locked(cache, last);
    for (;;) {
        const uint64_t left = cache->sections_left;
        collect_and_unlock(cache, true);
        kilni_cache_lock(cache);
        if (!waits_for_sections_locked(cache, last)) {
            break;
        }
        if (cache->sections_left == left) {
            wait_locked(cache);
        }
    }
    wait_for_departures_locked(cache);
    pthread_mutex_unlock(&cache->lock);
}

/* ---- sections ---- */

static void wake_settlers_locked(kiln_cache *cache)
{
    cache->sections_left++;
    pthread_cond_broadcast(&cache->departed);
}

__attribute__((noinline)) void kilni_section_wake_settlers(kiln_cache *cache)
{
    kilni_cache_lock(cache);
    wake_settlers_locked(cache);
    pthread_mutex_unlock(&cache->lock);
}

/* Returns a pointer to this thread's count of the sections of a cache that have no place. If the
 * thread has no such count, returns a new one, but only if @or_new is true and there is room.
 * Otherwise, returns NULL. */
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
            kilni_section_wake_settlers(cache);
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
    wake_settlers_locked(cache);
    pthread_mutex_unlock(&cache->lock);
}

__attribute__((noinline)) static void enter_slowly(kiln_cache *cache, kiln_section *ret_section)
{
    ret_section->cache = cache;
    ret_section->slot = cache ? kilni_section_enter_slowly(cache) : NULL;
}

/* The following functions handle rare cases, such as ordinary fences, by calling separate functions
 * as their last step. So the usual path need not save registers. */
void kiln_section_enter(kiln_cache *cache, kiln_section *ret_section)
{
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(!cache || !reader || !kilni_place_is_free(&reader->places[0]) ||
                             !kilni_fence_is_asymmetric(),
                         0)) {
        enter_slowly(cache, ret_section);
        return;
    }
    kilni_place_take_with(&reader->places[0], cache, true);
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
    if (__builtin_expect(
            !kilni_place_is_first_of(place, kilni_reader_own) || !kilni_fence_is_asymmetric(), 0)) {
        kilni_section_leave_slowly(cache, place);
    } else if (kilni_place_leave_with(place, cache, true)) {
        kilni_section_wake_settlers(cache);
    }
}

/* ---- forks ---- */

static void forget_departures_locked(kiln_cache *cache)
{
    cache->collects_for_others = false; /* no thread forks while it collects */
    /* The condition variable is initialized again, because its copied state might include waiting
     * threads of the parent. No thread of the child waits. */
    pthread_cond_init(&cache->departed, NULL);
    kilni_departure **link = &cache->departures;
    while (*link) {
        if ((*link)->thread == kilni_thread_number()) {
            link = &(*link)->next;
        } else {
            *link = (*link)->next;
        }
    }
}

void kilni_section_forget_threads_locked(kiln_cache *cache)
{
    forget_departures_locked(cache);
    const size_t *own = own_unlisted_of(cache, false);
    if (own_uncounted == 0) {
        cache->unlisted_sections = own ? *own : 0;
    }
}
