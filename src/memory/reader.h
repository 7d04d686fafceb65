/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers. A thread's reader tells the threads that reclaim memory which caches the thread is
 * reading, and since when.
 *
 * A thread gets a reader on first use and releases it when it ends. When it ends, the sections that
 * it has open are left, and other threads may take over its tickets. Readers are reused and never
 * moved.
 *
 * Two sides issue fences: readers do so often, threads that reclaim do so seldom. Each side stores
 * a value, issues a fence, and then loads the value that the other side stores:
 *
 *     a reader:                        a thread that reclaims:
 *     kilni_fence_is_asymmetric
 *     store R                          store W
 *     kilni_fence_light                the heavy fence, in reader.c
 *     load W                           load R
 *
 * At least one of the two sees what the other has stored. If the system can issue the heavy fence
 * on all running threads of the process, the light fence costs nothing: the fences are then
 * asymmetric. Otherwise both are ordinary fences.
 *
 * Asking the system for asymmetric fences delays a multithreaded process by some 10 ms. Such a
 * process begins with ordinary fences, and switches to asymmetric ones once ordinary ones have cost
 * one of its threads as much time. The switch is safe on two conditions (see reader.c). A reader
 * that sees the switch must also see what each thread that reclaimed before the switch had stored.
 * And no switch may happen between such a thread's fence and its loads.
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
/* ThreadSanitizer does not understand fences, so each fence is an addition to one word. Of two
 * additions, the later one acquires what the earlier one released. ThreadSanitizer understands that
 * this orders the two threads as fences do. */
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
/* The number of switches, above a bit that is set if fences are asymmetric. Stored with release by
 * fence_switch in reader.c. */
extern _Atomic unsigned kilni_fence_state_word;

static inline unsigned kilni_fence_state(void)
{
    return atomic_load_explicit(&kilni_fence_state_word, memory_order_acquire);
}

/* Issues an ordinary fence, and acknowledges the last switch. One in very many calls of a thread
 * asks the system for asymmetric fences. */
void kilni_fence_ordinary(void);

/* Whether fences are asymmetric. Readers call this function before the store that precedes their
 * fence, since on some processors this load would otherwise wait for that store. If a reader sees a
 * switch here, its later loads see everything that was stored before the switch by threads that
 * reclaimed with ordinary fences. Threads that reclaim after the switch issue the system's fence.
 */
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
    /* The thread that reads stores @epoch and then @cache with release, and issues a light fence.
     * When it has left the section, it stores NULL in @cache. After a heavy fence,
     * kilni_reader_oldest loads @cache and then @epoch with acquire. The epoch that it sees belongs
     * to the section that it saw in @cache, or to a later section, which may be of another cache.
     */
    _Atomic(kiln_cache *) cache; /* or, at the end of a section, KILNI_PLACE_LEAVING(cache) */
    _Atomic uint64_t epoch; /* the cache's at the beginning of the section, or an earlier one */
} kilni_place;

typedef struct kilni_reader {
    /* The first member, so that a reader has the same address as its first place. */
    kilni_place places[KILNI_READER_PLACES]; /* free if @cache is NULL */
    /* The number of the thread's line of counters, which no other thread has at the same time;
     * KILNI_COUNTER_LINES if no line was free. */
    uint32_t number;
    /* The thread's counts of pins; NULL before its first pin on a shared object. The thread changes
     * this pointer under the lock in reader.c. */
    kilni_tally *tally;
    /* The state of the fences that the thread saw at its last ordinary fence. Stored with release,
     * so that a thread that loads it, with acquire, sees the places as they were then. */
    _Atomic unsigned acknowledged;
    struct kilni_reader *next, **from; /* guarded by the lock in reader.c */
    /* Keeps two threads' places off the same cache line of the processor. */
    unsigned char padding[64];
} kilni_reader;

/* Allows threads to have readers. Called once, before all other functions in this file. When a
 * thread that has a reader ends, it first calls @end_thread_of. */
void kilni_reader_begin(void (*end_thread_of)(kilni_reader *reader));

/* Called around a fork. The child's only thread keeps its reader. */
void kilni_reader_before_fork(void);
void kilni_reader_after_fork_in_parent(void);
void kilni_reader_after_fork_in_child(void);

/* Claims a reader for this thread, which has none. Returns NULL if there is no memory, or if
 * threads can have no readers. */
kilni_reader *kilni_reader_claim(void);

/* Ensures that the end of this thread will be noticed, if threads can have readers. Returns false
 * if there is no memory. */
bool kilni_reader_ensure(void);

/* Issues a heavy fence and returns the epoch of the oldest open section of a cache; UINT64_MAX if
 * none is open. Returns 0 if the section of a reader may have gone unseen: because the system
 * refused its fence and that reader has issued no ordinary one yet, or because the fences became
 * asymmetric meanwhile. */
uint64_t kilni_reader_oldest(const kiln_cache *cache);

/* Gives this thread's reader a tally, if there is memory. */
void kilni_reader_new_tally(kilni_reader *reader);

/* Returns the sum of all threads' counts of an object. A pin or release that is under way may be
 * missed. */
int64_t kilni_reader_tallied(const kilni_object *object);

/* As kilni_reader_tallied, but also removes the counts. Called for an object that is no longer
 * shared and that no section sees. */
int64_t kilni_reader_take_tallied(const kilni_object *object);

/* Waits until no thread that leaves a section with kilni_place_leave_released still reads the
 * cache. Called once all objects of the cache have been destroyed. */
void kilni_reader_wait_for_leaving(const kiln_cache *cache);

/* Returns this thread's number, which no other thread of this process has or had. */
uint64_t kilni_thread_number(void);

/* This thread's reader, or NULL. It is one word of static thread-local storage, so that reaching it
 * takes one instruction. */
extern _Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Returns the number of this thread's line of counters; UINT32_MAX if it has no reader. */
static inline uint32_t kilni_reader_number(void)
{
    return kilni_reader_own ? kilni_reader_own->number : UINT32_MAX;
}

/* Called by the thread that owns the place. */
static inline bool kilni_place_is_free(const kilni_place *place)
{
    return atomic_load_explicit(&place->cache, memory_order_relaxed) == NULL;
}

/* Makes visible that this thread begins to read a cache. @asymmetric is what
 * kilni_fence_is_asymmetric has just returned. */
static inline void kilni_place_take_with(kilni_place *place, kiln_cache *cache, bool asymmetric)
{
    /* Pairs with the release store in first_visible_locked, in read_section.c: a thread that sees
     * an epoch sees all removals that were made before the epoch began. */
    uint64_t epoch = atomic_load_explicit(&cache->epoch, memory_order_acquire);
    atomic_store_explicit(&place->epoch, epoch, memory_order_release);
    atomic_store_explicit(&place->cache, cache, memory_order_release);
    kilni_fence_light(asymmetric);
}

static inline void kilni_place_take(kilni_place *place, kiln_cache *cache)
{
    kilni_place_take_with(place, cache, kilni_fence_is_asymmetric());
}

/* Makes visible that this thread no longer reads a cache. @asymmetric is what
 * kilni_fence_is_asymmetric has just returned. Returns true if a thread may be waiting for this
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

/* A place's value after its section has been left, as long as the thread still needs the cache. */
#define KILNI_PLACE_LEAVING(cache) ((kiln_cache *)((uintptr_t)(cache) | 1))

/* As kilni_place_leave, for a thread that has changed its count of an object, and may have released
 * its last pin. After the section, nothing else keeps the cache alive. So the place does, until the
 * caller frees the place, which it must do next. */
static inline bool kilni_place_leave_released(kilni_place *place, kiln_cache *cache)
{
    bool asymmetric = kilni_fence_is_asymmetric();
    /* Loaded by kilni_reader_wait_for_leaving. The thread that frees the cache collects the last
     * object only after it has seen that this section was left. So it sees this store, or a later
     * one. */
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

/* Whether a place belongs to this reader. It does not if the thread that entered the section has
 * ended; the section was then left already. */
static inline bool kilni_reader_has(const kilni_reader *reader, const kilni_place *place)
{
    uintptr_t offset = (uintptr_t)place - (uintptr_t)reader;
    return reader && offset < sizeof reader->places;
}

/* Whether a place is the first one of this reader, which most sections get. @place must not be
 * NULL; @reader may be NULL. */
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
