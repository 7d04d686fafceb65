/* SPDX-License-Identifier: Apache-2.0
 *
 * Each thread's own counts of pins, so that threads that pin the same objects do not write to the
 * same word.
 *
 * While an object is shared (kiln_pin.holds), each thread adds its pins on it to a word of its own
 * and subtracts its releases there. A thread may release a pin that another thread has taken, so a
 * word can be negative. Only the sum of the object's holds and all threads' words matters, and no
 * thread needs that sum while the cache holds the object.
 *
 * A word contains the object's address, and the count in the bits above it. While the object is
 * shared, only the thread that owns the word writes it, and only in a section of the object's
 * cache. Once the object is no longer shared and all these sections have been left, a thread that
 * collects takes the count (read_section.c). From then on, the owner can use the word for other
 * objects. The owner itself never reuses a word that has a count: if neither word for an object is
 * free, the thread changes the object's holds, as if the object were not shared.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"

/* A tally has 16 KiB. Each object can be in one of two words. */
enum { KILNI_TALLY_PAIR_BITS = 10, KILNI_TALLY_WORDS = 2 << KILNI_TALLY_PAIR_BITS };

typedef struct kilni_tally {
    /* Stored relaxed by the thread that owns the tally, inside a section. The end of the section is
     * a release store, which a collecting thread acquires before it reads these words. */
    _Alignas(64) _Atomic uint64_t words[KILNI_TALLY_WORDS];
} kilni_tally;

/* Returns NULL if there is no memory. Freed with free, after kilni_tally_settle. */
kilni_tally *kilni_tally_new(void);

/* Adds @change and the count in a word, which is full, to the holds of a shared object. Clears the
 * count in the word. */
void kilni_tally_overflow(_Atomic uint64_t *word, kilni_object *object, int change);

/* Returns a tally's count for an object. */
int64_t kilni_tally_of(const kilni_tally *tally, const kilni_object *object);

/* As kilni_tally_of, but also removes the count. No thread may change the object's words any
 * longer. */
int64_t kilni_tally_take(kilni_tally *tally, const kilni_object *object);

/* Adds all counts to the holds of their objects. Called for a thread that ends. An object that has
 * a count here exists, and no thread may take the count during the call. */
void kilni_tally_settle(kilni_tally *tally);

static inline int kilni_tally_count(uint64_t word)
{
    return (int16_t)(word >> KILNI_CELL_ADDRESS_BITS);
}

static inline uint64_t kilni_tally_word(const kilni_object *object, int count)
{
    return (uint64_t)(uint16_t)count << KILNI_CELL_ADDRESS_BITS | (uintptr_t)object;
}

/* Returns the position of the first of an object's two words. */
static inline size_t kilni_tally_position(const kilni_object *object)
{
    const uint64_t product = ((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(product >> (64 - KILNI_TALLY_PAIR_BITS)) * 2;
}

static inline bool kilni_tally_is_of(uint64_t word, const kilni_object *object)
{
    return (word & KILNI_CELL_ADDRESS) == (uintptr_t)object;
}

/* Returns the word of an object that is not in its first word; NULL if there is no room. */
_Atomic uint64_t *kilni_tally_find(kilni_tally *tally, const kilni_object *object);

/* Adds 1 or -1 to this thread's count of a shared object, in a section of its cache. A count is
 * between -INT16_MAX and INT16_MAX. Returns false if there is no room. */
static inline bool kilni_tally_add(kilni_tally *tally, kilni_object *object, int change)
{
    _Atomic uint64_t *word = &tally->words[kilni_tally_position(object)];
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    if (__builtin_expect(!kilni_tally_is_of(old, object), 0)) {
        word = kilni_tally_find(tally, object);
        if (!word) {
            return false;
        }
        old = atomic_load_explicit(word, memory_order_relaxed);
    }
    const uint64_t next = old + ((uint64_t)change << KILNI_CELL_ADDRESS_BITS);
    if (__builtin_expect(kilni_tally_count(next) == INT16_MIN, 0)) {
        kilni_tally_overflow(word, object, change);
    } else {
        atomic_store_explicit(word, next, memory_order_relaxed);
    }
    return true;
}
