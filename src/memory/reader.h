/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread that reads shows to those who reclaim: which caches it reads, and since when.
 *
 * A thread gets a reader on first use and gives it back when it ends; sections that it left open
 * are left then, and what it owns is left to others. Readers are used again and never moved.
 */
#pragma once

#include "memory/fence.h"
#include "memory/memory.h"

enum { KILNI_READER_PLACES = 8 };

/* One open section. */
typedef struct kilni_place {
    /* Stored with release by the thread that reads: @epoch, then @cache, then a light fence; NULL
     * when it has left. Loaded with acquire by kilni_reader_oldest, behind a heavy fence, @cache
     * first: the epoch it then sees is that of the section seen, or of a later one, maybe of
     * another cache. */
    _Atomic(kiln_cache *) cache;
    _Atomic uint64_t epoch; /* the cache's, when the section was entered, or an earlier one */
} kilni_place;

typedef struct kilni_reader {
    /* First, so that a reader is where its first place is. */
    kilni_place places[KILNI_READER_PLACES]; /* free where no cache is named */
    /* Of the thread's line of counters; of all threads at a time, only this one has it. Without a
     * free line: KILNI_COUNTER_LINES. */
    uint32_t number;
    /* The state of the fences that the thread saw at its last ordinary one. Stored with release, so
     * that a thread that loads it, with acquire, sees the places as they were then. */
    _Atomic unsigned acknowledged;
    struct kilni_reader *next, **from; /* guarded by the lock in reader.c */
    /* Two threads' places are never on one line. */
    unsigned char distance[64];
} kilni_reader;

/* Makes threads able to have readers. Once, before all other calls here. */
void kilni_reader_begin(void);

/* Around a fork. The child's only thread keeps its reader. */
void kilni_reader_before_fork(void);
void kilni_reader_after_fork_in_parent(void);
void kilni_reader_after_fork_in_child(void);

/* A reader for this thread, which has none; NULL for want of memory. */
kilni_reader *kilni_reader_claim(void);

/* Makes sure that the end of this thread will be seen. False for want of memory. */
bool kilni_reader_ensure(void);

/* Passes a heavy fence and gives the epoch of the oldest section of a cache that is open;
 * UINT64_MAX if none is. 0 if some reader may not be seen, because the system refused its fence and
 * that reader has passed no ordinary one yet. */
uint64_t kilni_reader_oldest(const kiln_cache *cache);

/* Makes light fences cost nothing from now on, where the system can and nobody holds the readers'
 * lock right now. */
void kilni_reader_improve_fences(void);

/* One word of static thread-local storage, so that reaching it is one instruction. */
extern _Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* Notes, before an ordinary fence of this thread, that all its later ones are ordinary too, until
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

/* For the thread whose place it is. */
static inline bool kilni_place_is_free(const kilni_place *place)
{
    return atomic_load_explicit(&place->cache, memory_order_relaxed) == NULL;
}

/* Shows that this thread begins to read a cache. */
static inline void kilni_place_take(kilni_place *place, kiln_cache *cache)
{
    /* Pairs with the release store in collect_locked, of section.c: who sees an epoch sees all that
     * was taken out before it began. */
    uint64_t epoch = atomic_load_explicit(&cache->epoch, memory_order_acquire);
    bool asymmetric = kilni_fence_is_asymmetric();
    atomic_store_explicit(&place->epoch, epoch, memory_order_release);
    atomic_store_explicit(&place->cache, cache, memory_order_release);
    kilni_fence_light(asymmetric);
}

/* Shows that it has ended. True where someone may have waited for that. */
static inline bool kilni_place_leave(kilni_place *place, kiln_cache *cache)
{
    bool asymmetric = kilni_fence_is_asymmetric();
    atomic_store_explicit(&place->cache, NULL, memory_order_release);
    kilni_fence_light(asymmetric);
    /* Pairs with the store in collect_locked, of section.c. */
    uint64_t awaited = atomic_load_explicit(&cache->awaited, memory_order_relaxed);
    return __builtin_expect(awaited != 0, 0) &&
           atomic_load_explicit(&place->epoch, memory_order_relaxed) < awaited;
}

/* Whether a place is this reader's: not where the thread has ended, and left its sections so. */
static inline bool kilni_reader_has(const kilni_reader *reader, const kilni_place *place)
{
    uintptr_t distance = (uintptr_t)place - (uintptr_t)reader;
    return reader && distance < sizeof reader->places;
}

/* The same of the place that most sections get. @place is not NULL, @reader may be. */
static inline bool kilni_place_is_first_of(const kilni_place *place, const kilni_reader *reader)
{
    return (const void *)place == (const void *)reader;
}
