/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/pin.h"

#include "memory/lifetime.h"
#include "memory/notify.h"
#include "memory/policy.h"
#include "memory/read_section.h"

/* ---- hits ---- */

static void note_use(kilni_object *object)
{
    bool first = kilni_policy_use(object);
    if (kilni_policy_reports_hits(object->cache)) {
        kilni_followup_report_hit(object, first);
    }
}

void kilni_object_note_hit(kilni_object *object)
{
    kiln_cache *cache = object->cache;
    kilni_count(cache, KILNI_COUNTER_HITS);
    if (!kilni_policy_is_settled(cache, object)) {
        note_use(object);
    }
}

/* Called in a section that saw the object in the cache. Returns true if this pin makes the object
 * shared. An object that is seldom pinned is not shared. When such an object is removed, it would
 * cost more to read all tallies than sharing saves. */
static bool becomes_shared(kilni_object *object, int64_t holds)
{
    enum { FEW_PINS = 8 };
    if (holds < KILNI_HOLD_RESIDENT || holds >= 2 * KILNI_HOLD_RESIDENT) {
        return false;
    }
    const uint8_t pins = atomic_load_explicit(&object->slot.early_pins, memory_order_relaxed);
    if (pins < FEW_PINS) {
        atomic_store_explicit(&object->slot.early_pins, pins + 1, memory_order_relaxed);
    }
    return pins == FEW_PINS;
}

/* Adds a hold in the object's own count. The object was not shared, and this thread's section sees
 * it. Returns false if the last hold on the object has been released by now. */
static bool hold_exactly(kilni_object *object)
{
    int64_t holds = atomic_load_explicit(&object->holds, memory_order_relaxed);
    int64_t next;
    do {
        if (holds == 0) {
            return false;
        }
        next = holds + 1 + (becomes_shared(object, holds) ? KILNI_HOLD_SHARED : 0);
    } while (!atomic_compare_exchange_weak_explicit(&object->holds, &holds, next,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Gives this thread a tally, if it has none and there is memory. */
static void ensure_tally(void)
{
    kilni_reader *reader = kilni_reader_own ? kilni_reader_own : kilni_reader_claim();
    if (reader && !reader->tally) {
        kilni_reader_new_tally(reader);
    }
}

/* Adds 1 or -1 to this thread's count of an object, in a section of the object's cache. Returns
 * false if the object is not shared, or if the thread has no tally or no room in it. */
static inline bool count_here(kilni_reader *reader, kilni_object *object, int change)
{
    return kilni_object_is_shared(object) && reader && reader->tally &&
           kilni_tally_add(reader->tally, object, change);
}

/* Called in a section. Finds the object of a key, and holds it. Counts the hold in this thread's
 * tally if possible, and otherwise in the object's own count. */
__attribute__((noinline)) static kilni_object *hold_slowly(const kiln_cache *cache,
                                                           const kiln_key *key)
{
    kilni_object *object = kilni_cache_find(cache, key);
    if (!object) {
        return NULL;
    }
    if (!kilni_object_is_shared(object)) {
        return hold_exactly(object) ? object : NULL;
    }
    ensure_tally();
    if (!count_here(kilni_reader_own, object, 1)) {
        kilni_object_hold(object);
    }
    return object;
}

kilni_object *kilni_object_pin(kiln_cache *cache, const kiln_key *key)
{
    kilni_place *place = kilni_section_enter(cache);
    kilni_object *object = kilni_cache_find_same(cache, key);
    if (!object || !count_here(kilni_reader_own, object, 1)) {
        object = hold_slowly(cache, key);
    }
    kilni_section_leave(cache, place);
    if (object) {
        kilni_object_note_hit(object);
    }
    return object;
}

/* ---- peeks ---- */

/* Records a use that changes something or must be reported. */
__attribute__((noinline)) static void *use(kilni_object *object)
{
    note_use(object);
    return object->object;
}

/* Finds an object that a quick search does not find, and records its use. The object's key is equal
 * to @key but not the same structure, or its cell is far from the beginning of the search. */
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

/* ---- pins ---- */

kiln_status kiln_cache_pin(kiln_cache *cache, const kiln_key *key, kiln_pin **ret_pin)
{
    if (!cache || !key || !ret_pin) {
        return KILN_E_INVALID;
    }
    kilni_object *object = kilni_object_pin(cache, key);
    if (!object) {
        kilni_count(cache, KILNI_COUNTER_MISSES);
        return KILN_MISS;
    }
    *ret_pin = object;
    return KILN_OK;
}

void *kiln_pin_object(const kiln_pin *pin)
{
    return pin ? pin->object : NULL;
}

/* Called by a thread that changed its count of an object, in a section for which other threads
 * wait. After this call, the cache might no longer exist. */
__attribute__((noinline)) static void wake_after_release(kilni_place *place, kiln_cache *cache)
{
    const bool exists = kilni_cache_try_retain(cache);
    kilni_place_free(place);
    if (exists) {
        kilni_section_wake_settlers(cache);
        kilni_cache_release(cache);
    }
}

/* Does the same as count, below. Called by a thread that has no tally yet or that is already in a
 * section. If this is a section of the same cache, the thread needs no second section. */
__attribute__((noinline)) static bool count_slowly(kilni_object *object, int change)
{
    ensure_tally();
    kilni_reader *reader = kilni_reader_own;
    return reader &&
           atomic_load_explicit(&reader->places[0].cache, memory_order_relaxed) == object->cache &&
           count_here(reader, object, change);
}

/* Adds 1 or -1 to this thread's count of an object that the thread holds. Returns false if the
 * caller must change the object's own count instead. */
static inline bool count(kilni_object *object, int change)
{
    if (!kilni_object_is_shared(object)) {
        return false;
    }
    kilni_reader *reader = kilni_reader_own;
    if (__builtin_expect(!reader || !reader->tally || !kilni_place_is_free(&reader->places[0]),
                         0)) {
        return count_slowly(object, change);
    }
    kiln_cache *cache = object->cache;
    kilni_place *place = &reader->places[0];
    kilni_place_take(place, cache);
    const bool is_counted = count_here(reader, object, change);
    if (kilni_place_leave_released(place, cache)) {
        wake_after_release(place, cache);
    } else {
        kilni_place_free(place);
    }
    return is_counted;
}

kiln_pin *kiln_pin_retain(kiln_pin *pin)
{
    if (pin && !count(pin, 1)) {
        kilni_object_hold(pin);
    }
    return pin;
}

/* Releases a hold in the object's own count. */
__attribute__((noinline)) static void release_exactly(kilni_object *object)
{
    if (!kilni_object_drop_hold(object)) {
        return;
    }
    /* This thread must retire the object, which exists until then. The cache needs a reference,
     * because it might be freed together with the object. */
    kiln_cache *cache = kilni_cache_retain(object->cache);
    kilni_cache_lock(cache);
    kilni_section_retire_locked(object);
    kilni_section_collect_and_unlock(cache);
    kilni_cache_release(cache);
}

void kiln_pin_release(kiln_pin **pin)
{
    if (!pin || !*pin) {
        return;
    }
    kilni_object *object = *pin;
    *pin = NULL;
    if (!count(object, -1)) {
        release_exactly(object);
    }
}
