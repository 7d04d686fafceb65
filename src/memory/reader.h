/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers. The reader of a thread shows which caches the thread is reading, and since when. Threads
 * that reclaim memory examine all readers.
 *
 * A thread gets a reader on first use. When the thread ends, it leaves its open sections and
 * releases its reader, and other threads can take over its tickets. Readers are reused, and never
 * move.
 *
 * Readers issue fences often. Threads that reclaim do so seldom. Each of these two sides stores a
 * value, issues a fence, and then loads the value that the other side stores:
 *
 *     a reader:                        a thread that reclaims:
 *     kilni_fence_is_asymmetric
 *     store R                          store W
 *     kilni_fence_light                the heavy fence, in reader.c
 *     load W                           load R
 *
 * At least one of the two sides sees the value that the other side has stored. If the system can
 * issue the heavy fence on all running threads of the process, the light fence costs nothing. Such
 * fences are called asymmetric. Otherwise, both fences are ordinary fences.
 *
 * A request to the system for asymmetric fences delays a multithreaded process by about 10 ms. So
 * such a process begins with ordinary fences. It switches to asymmetric fences when its ordinary
 * fences have cost one thread about the same time. The switch is safe on two conditions (see
 * reader.c). First, if a thread reclaimed before the switch, a reader that sees the switch must
 * also see what this thread had stored. Second, no switch may happen between the fence of such a
 * thread and its loads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "memory/memory.h"
#include "memory/pin_tally.h"

#if defined(__SANITIZE_THREAD__)
#define KILNI_FENCE_IS_COUNTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KILNI_FENCE_IS_COUNTED 1
#endif
#endif

#ifdef KILNI_FENCE_IS_COUNTED
/* ThreadSanitizer does not understand fences. So an addition to one shared word replaces each
 * fence. Of two additions, the later one acquires what the earlier one released. ThreadSanitizer
 * understands that this orders the two threads in the same way as fences. */
extern _Atomic unsigned kilni_fence_word;

static inline bool kilni_fence_is_asymmetric(void)
{
    return false;
}

static inline unsigned kilni_fence_state(void)
{
    return 0;
}

static inline void kilni_fence_light(bool asymmetric)
{
    (void)asymmetric;
    atomic_fetch_add_explicit(&kilni_fence_word, 1, memory_order_acq_rel);
}
#else
/* The lowest bit is set if fences are asymmetric. The other bits are the number of switches.
 * fence_switch in reader.c stores this word with release. */
extern _Atomic unsigned kilni_fence_state_word;

static inline unsigned kilni_fence_state(void)
{
    return atomic_load_explicit(&kilni_fence_state_word, memory_order_acquire);
}

/* Issues an ordinary fence, and acknowledges the last switch. Once in very many calls by the same
 * thread, it also asks the system for asymmetric fences. */
void kilni_fence_ordinary(void);

/* Returns true if fences are asymmetric. Readers call this function before the store that precedes
 * their fence. If the load in this function came after that store, it would wait for the store on
 * some processors. If a reader sees a switch here, its later loads see everything that threads with
 * ordinary fences stored before the switch in order to reclaim. Threads that reclaim after the
 * switch issue the system's fence. */
static inline bool kilni_fence_is_asymmetric(void)
{
    return kilni_fence_state() & 1;
}

static inline void kilni_fence_light(bool asymmetric)
{
    if (__builtin_expect(asymmetric, 1)) {
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        kilni_fence_ordinary();
    }
}
#endif

enum { KILNI_READER_PLACES = 8 };

/* The place of one open section. */
typedef struct kilni_place {
    /* To enter a section, a thread stores @epoch and then @cache with release, and issues a light
     * fence. When it has left the section, it stores NULL in @cache. After a heavy fence,
     * kilni_reader_oldest loads @cache and then @epoch with acquire. The loaded epoch belongs to
     * the section for which @cache was stored, or to a later section, possibly of a different
     * cache. */
    _Atomic(kiln_cache *) cache; /* or, at the end of a section, KILNI_PLACE_LEAVING(cache) */
    _Atomic uint64_t epoch; /* the epoch of the cache when the section began, or an earlier one */
} kilni_place;

typedef struct kilni_reader {
    /* This is the first member, so that a reader has the same address as its first place. */
    kilni_place places[KILNI_READER_PLACES]; /* free if @cache is NULL */
    /* The number of the thread's line of counters, or KILNI_COUNTER_LINES if no line was free. No
     * other thread has the same line at the same time. */
    uint32_t number;
    /* The thread's counts of pins, or NULL before the thread's first pin on a shared object. The
     * thread changes this pointer under the lock in reader.c. */
    kilni_tally *tally;
    /* The state of the fences that the thread saw at its last ordinary fence. Stored with release.
     * A thread that loads it with acquire sees the places as they were at that fence. */
    _Atomic unsigned acknowledged;
    struct kilni_reader *next, **from; /* guarded by the lock in reader.c */
    /* Ensures that places of two threads are never in the same cache line of the processor. */
    unsigned char padding[64];
} kilni_reader;

/* Allows threads to have readers. Called once, before all other functions in this file. When a
 * thread that has a reader ends, it first calls @end_thread_of. */
void kilni_reader_begin(void (*end_thread_of)(kilni_reader *reader));

/* These functions are called before and after a fork. The child's only thread keeps its reader. */
void kilni_reader_before_fork(void);
void kilni_reader_after_fork_in_parent(void);
void kilni_reader_after_fork_in_child(void);

/* Claims a reader for this thread, which must not have one yet. Returns NULL if there is no memory,
 * or if threads can't have readers. */
kilni_reader *kilni_reader_claim(void);

/* Makes sure that Kiln will notice the end of this thread, if threads can have readers. Returns
 * false if there is no memory. */
bool kilni_reader_ensure(void);

/* Issues a heavy fence, and returns the epoch of the oldest open section of a cache. Returns
 * UINT64_MAX if no section is open. Returns 0 if a section might not have been seen. This happens
 * if the system refused its fence and the section's reader has issued no ordinary fence yet, or if
 * the fences became asymmetric during the call. */
uint64_t kilni_reader_oldest(const kiln_cache *cache);

/* Gives this thread's reader a tally, if there is memory. */
void kilni_reader_new_tally(kilni_reader *reader);

/* Returns the sum of all threads' counts of an object. The sum might not include a pin or release
 * that is under way. */
int64_t kilni_reader_tallied(const kilni_object *object);

/* Does the same as kilni_reader_tallied, and also removes the counts. The object must no longer be
 * shared, and no section may see it. */
int64_t kilni_reader_take_tallied(const kilni_object *object);

/* Waits until every thread that left a section of the cache with kilni_place_leave_released no
 * longer reads the cache. Called after all objects of the cache have been destroyed. */
void kilni_reader_wait_for_leaving(const kiln_cache *cache);

/* Returns this thread's number. No other thread of this process has or had the same number. */
uint64_t kilni_thread_number(void);

/* This thread's reader, or NULL. It is one word of static thread-local storage, so that one
 * instruction can load it. */
extern _Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Returns the number of this thread's line of counters, or UINT32_MAX if the thread has no reader.
 */
static inline uint32_t kilni_reader_number(void)
{
    return kilni_reader_own ? kilni_reader_own->number : UINT32_MAX;
}

/* Returns true if the place is free. Called only by the thread that owns the place. */
static inline bool kilni_place_is_free(const kilni_place *place)
{
    return atomic_load_explicit(&place->cache, memory_order_relaxed) == NULL;
}

/* Shows other threads that this thread begins to read a cache. @asymmetric is what
 * kilni_fence_is_asymmetric has just returned. */
static inline void kilni_place_take_with(kilni_place *place, kiln_cache *cache, bool asymmetric)
{
    /* Pairs with the release store in first_visible_locked, in read_section.c. So a thread that
     * sees an epoch also sees all removals that were made before the epoch began. */
    uint64_t epoch = atomic_load_explicit(&cache->epoch, memory_order_acquire);
    atomic_store_explicit(&place->epoch, epoch, memory_order_release);
    atomic_store_explicit(&place->cache, cache, memory_order_release);
    kilni_fence_light(asymmetric);
}

static inline void kilni_place_take(kilni_place *place, kiln_cache *cache)
{
    kilni_place_take_with(place, cache, kilni_fence_is_asymmetric());
}

/* Shows other threads that this thread no longer reads a cache. @asymmetric is what
 * kilni_fence_is_asymmetric has just returned. Returns true if a thread might be waiting for this
 * section. */
static inline bool kilni_place_leave_with(kilni_place *place, kiln_cache *cache, bool asymmetric)
{
    atomic_store_explicit(&place->cache, NULL, memory_order_release);
    kilni_fence_light(asymmetric);
    /* Pairs with the store in await_sections_locked, in read_section.c. */
    uint64_t awaited = atomic_load_explicit(&cache->awaited, memory_order_relaxed);
    return __builtin_expect(awaited != 0, 0) &&
           atomic_load_explicit(&place->epoch, memory_order_relaxed) < awaited;
}

static inline bool kilni_place_leave(kilni_place *place, kiln_cache *cache)
{
    return kilni_place_leave_with(place, cache, kilni_fence_is_asymmetric());
}

/* The value of a place whose section has been left, as long as its thread still needs the cache. */
#define KILNI_PLACE_LEAVING(cache) ((kiln_cache *)((uintptr_t)(cache) | 1))

/* Does the same as kilni_place_leave, but the place keeps the cache alive until the caller frees
 * the place, which it must do next. Called by a thread that has changed its count of an object. The
 * thread might have released its last pin, so nothing else keeps the cache alive after the section.
 */
static inline bool kilni_place_leave_released(kilni_place *place, kiln_cache *cache)
{
    bool asymmetric = kilni_fence_is_asymmetric();
    /* kilni_reader_wait_for_leaving loads this value. The thread that frees the cache collects the
     * last object only after it has seen that this section was left. So that thread sees this store
     * or a later one. */
    atomic_store_explicit(&place->cache, KILNI_PLACE_LEAVING(cache), memory_order_release);
    kilni_fence_light(asymmetric);
    /* Pairs with the store in await_sections_locked, in read_section.c. */
    uint64_t awaited = atomic_load_explicit(&cache->awaited, memory_order_relaxed);
    return __builtin_expect(awaited != 0, 0) &&
           atomic_load_explicit(&place->epoch, memory_order_relaxed) < awaited;
}

static inline void kilni_place_free(kilni_place *place)
{
    atomic_store_explicit(&place->cache, NULL, memory_order_release);
}

/* Returns true if a place belongs to this reader. Returns false if the thread that entered the
 * section has ended. In this case, the section has already been left. */
static inline bool kilni_reader_has(const kilni_reader *reader, const kilni_place *place)
{
    uintptr_t offset = (uintptr_t)place - (uintptr_t)reader;
    return reader && offset < sizeof reader->places;
}

/* Returns true if a place is the first place of this reader. Most sections get the first place.
 * @place must not be NULL, but @reader can be NULL. */
static inline bool kilni_place_is_first_of(const kilni_place *place, const kilni_reader *reader)
{
    return (const void *)place == (const void *)reader;
}

/* Adds 1 to one of a cache's counters. */
static inline void kilni_count(kiln_cache *cache, kilni_counter counter)
{
    kilni_counters *counters = &cache->counters;
    const uint32_t number = kilni_reader_number();
    if (number < KILNI_COUNTER_LINES) {
        _Atomic uint64_t *count = &counters->lines[number].counts[counter];
        uint64_t value = atomic_load_explicit(count, memory_order_relaxed);
        atomic_store_explicit(count, value + 1, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&counters->lines[KILNI_COUNTER_LINES].counts[counter], 1,
                                  memory_order_relaxed);
    }
}
