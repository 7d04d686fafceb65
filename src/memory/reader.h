/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread that reads shows to those who reclaim: which caches it reads, and since when.
 *
 * A thread gets a reader on first use and gives it back when it ends; sections that it left open
 * are left then. Readers are used again and never moved.
 */
#pragma once

#include "memory/fence.h"
#include "memory/memory.h"

enum { KILNI_READER_PLACES = 8 };

/* One open section. */
typedef struct kilni_place {
    /* Stored with release by the thread that reads: @epoch, then @cache, then a light fence; NULL
     * when it has left. Loaded with acquire by kilni_reader_oldest, behind a heavy fence, @cache
     * first: the epoch it then sees is that of the section seen, or of a later one. */
    _Atomic(kiln_cache *) cache;
    _Atomic uint64_t epoch; /* the cache's, when the section was entered, or an earlier one */
} kilni_place;

typedef struct kilni_reader {
    kilni_place places[KILNI_READER_PLACES];
    uint32_t free_places; /* by bits; the thread's own */
    uint32_t number;      /* no other reader has it */
    bool owned;           /* guarded by the lock in reader.c, as is @next; set once */
    struct kilni_reader *next;
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

/* The epoch of the oldest section of a cache that is open; UINT64_MAX where none is. To be called
 * behind a heavy fence. */
uint64_t kilni_reader_oldest(const kiln_cache *cache);

/* One word of static thread-local storage, so that reaching it is one instruction. */
extern _Thread_local kilni_reader *kilni_reader_own __attribute__((tls_model("initial-exec")));

/* This thread's reader, or NULL. */
static inline kilni_reader *kilni_reader_get(void)
{
    kilni_reader *reader = kilni_reader_own;
    return __builtin_expect(reader != NULL, 1) ? reader : kilni_reader_claim();
}

/* This thread's number for counters. */
static inline uint32_t kilni_reader_number(void)
{
    return kilni_reader_own ? kilni_reader_own->number : UINT32_MAX;
}

/* Shows that this thread begins to read a cache. NULL where it has no place left. */
static inline kilni_place *kilni_reader_enter(kilni_reader *reader, kiln_cache *cache)
{
    if (__builtin_expect(!reader || reader->free_places == 0, 0)) {
        return NULL;
    }
    kilni_place *place = &reader->places[__builtin_ctz(reader->free_places)];
    reader->free_places &= reader->free_places - 1;
    /* Pairs with the release store in kilni_section_collect_locked: who sees an epoch sees all that
     * was taken out before it began. */
    uint64_t epoch = atomic_load_explicit(&cache->epoch, memory_order_acquire);
    atomic_store_explicit(&place->epoch, epoch, memory_order_release);
    atomic_store_explicit(&place->cache, cache, memory_order_release);
    kilni_fence_light();
    return place;
}

/* Whether a place is this reader's: not where the thread has ended, and left its sections so. */
static inline bool kilni_reader_has(const kilni_reader *reader, const kilni_place *place)
{
    uintptr_t distance = (uintptr_t)place - (uintptr_t)reader;
    return reader && distance < sizeof reader->places;
}

/* Shows that it has ended. True where someone may have waited for that. */
static inline bool kilni_reader_leave(kilni_reader *reader, kilni_place *place, kiln_cache *cache)
{
    uint64_t epoch = atomic_load_explicit(&place->epoch, memory_order_relaxed);
    atomic_store_explicit(&place->cache, NULL, memory_order_release);
    reader->free_places |= 1u << (place - reader->places);
    kilni_fence_light();
    /* Pairs with the store in kilni_section_collect_locked. */
    return __builtin_expect(epoch < atomic_load_explicit(&cache->awaited, memory_order_relaxed), 0);
}
