/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread that reads shows to the threads that reclaim: which caches it reads, and since
 * when.
 *
 * A thread gets a reader on first use and releases it when it ends. Sections that the thread has
 * open are then left, and its tickets are left to others. Readers are used again and never moved.
 */
#pragma once

#include "memory/fence.h"
#include "memory/memory.h"

enum { KILNI_READER_PLACES = 8 };

/* One open section. */
typedef struct kilni_place {
    /* Stored with release by the thread that reads: @epoch, then @cache, then a light fence; NULL
     * when it has left. Loaded with acquire by kilni_reader_oldest, after a heavy fence, @cache
     * first: the epoch that it then sees is that of the section seen, or of a later one, maybe of
     * another cache. */
    _Atomic(kiln_cache *) cache;
    _Atomic uint64_t epoch; /* the cache's, when the section was entered, or an earlier one */
} kilni_place;

typedef struct kilni_reader {
    /* First, so that a reader has the same address as its first place. */
    kilni_place places[KILNI_READER_PLACES]; /* free if @cache is NULL */
    /* The number of the thread's line of counters, which no other thread has at the same time. If
     * no line was free: KILNI_COUNTER_LINES. */
    uint32_t number;
    /* The state of the fences that the thread saw at its last ordinary fence. Stored with release,
     * so that a thread that loads it, with acquire, sees the places as they were then. */
    _Atomic unsigned acknowledged;
    struct kilni_reader *next, **from; /* guarded by the lock in reader.c */
    /* Keeps two threads' places off the same cache line of the processor. */
    unsigned char padding[64];
} kilni_reader;

/* Lets threads have readers. Called once, before all other functions here. */
void kilni_reader_begin(void);

/* Called around a fork. The child's only thread keeps its reader. */
void kilni_reader_before_fork(void);
void kilni_reader_after_fork_in_parent(void);
void kilni_reader_after_fork_in_child(void);

/* Claims a reader for this thread, which has none. Returns NULL if there is no memory. */
kilni_reader *kilni_reader_claim(void);

/* Ensures that the end of this thread will be noticed. Returns false if there is no memory. */
bool kilni_reader_ensure(void);

/* Passes a heavy fence and returns the epoch of the oldest open section of a cache; UINT64_MAX if
 * none is open. Returns 0 if a reader may go unseen, because the system refused its fence and that
 * reader has passed no ordinary one yet. */
uint64_t kilni_reader_oldest(const kiln_cache *cache);

/* Makes light fences cost nothing from now on, if the system can and no thread holds the readers'
 * lock at this moment. */
void kilni_reader_improve_fences(void);

/* One word of static thread-local storage, so that reaching it takes one instruction. */
extern _Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Notes, before an ordinary fence of this thread, that all its later fences are ordinary too, until
 * the next switch. */
static inline void kilni_reader_acknowledge_fences(void)
{
    kilni_reader *reader = kilni_reader_own;
    unsigned state = kilni_fence_state();
    if (reader && atomic_load_explicit(&reader->acknowledged, memory_order_relaxed) != state) {
        atomic_store_explicit(&reader->acknowledged, state, memory_order_release);
    }
}

/* This thread's number for counters. */
static inline uint32_t kilni_reader_number(void)
{
    return kilni_reader_own ? kilni_reader_own->number : UINT32_MAX;
}

/* For the thread that owns the place. */
static inline bool kilni_place_is_free(const kilni_place *place)
{
    return atomic_load_explicit(&place->cache, memory_order_relaxed) == NULL;
}

/* Shows that this thread begins to read a cache. */
static inline void kilni_place_take(kilni_place *place, kiln_cache *cache)
{
    /* Pairs with the release store in collect_locked, in section.c: a thread that sees an epoch
     * sees all removals that were made before it began. */
    uint64_t epoch = atomic_load_explicit(&cache->epoch, memory_order_acquire);
    bool asymmetric = kilni_fence_is_asymmetric();
    atomic_store_explicit(&place->epoch, epoch, memory_order_release);
    atomic_store_explicit(&place->cache, cache, memory_order_release);
    kilni_fence_light(asymmetric);
}

/* Shows that this thread has ended reading. Returns true if a thread may have waited for that. */
static inline bool kilni_place_leave(kilni_place *place, kiln_cache *cache)
{
    bool asymmetric = kilni_fence_is_asymmetric();
    atomic_store_explicit(&place->cache, NULL, memory_order_release);
    kilni_fence_light(asymmetric);
    /* Pairs with the store in collect_locked, in section.c. */
    uint64_t awaited = atomic_load_explicit(&cache->awaited, memory_order_relaxed);
    return __builtin_expect(awaited != 0, 0) &&
           atomic_load_explicit(&place->epoch, memory_order_relaxed) < awaited;
}

/* Whether a place is this reader's. It is not if the thread has ended, which left its sections. */
static inline bool kilni_reader_has(const kilni_reader *reader, const kilni_place *place)
{
    uintptr_t offset = (uintptr_t)place - (uintptr_t)reader;
    return reader && offset < sizeof reader->places;
}

/* The same, for the place that most sections get. @place is not NULL; @reader may be. */
static inline bool kilni_place_is_first_of(const kilni_place *place, const kilni_reader *reader)
{
    return (const void *)place == (const void *)reader;
}
