/* SPDX-License-Identifier: Apache-2.0
 *
 * Tallies. Each thread counts pins in a tally of its own, so that threads do not write to the same
 * word when they pin the same objects.
 *
 * While an object is shared (kiln_pin.holds), each thread has a word of its own for the object. The
 * thread adds 1 for each pin that it takes, and subtracts 1 for each pin that it releases. A thread
 * can release a pin that another thread has taken, so the count in a word can be negative. Only the
 * sum of the object's holds and all threads' counts matters. While the cache holds the object, no
 * thread needs the exact sum.
 *
 * The low bits of a word are the object's address, and the high bits are the count. While the
 * object is shared, only the thread that owns the word writes it, and only in a section of the
 * object's cache. Once the object is no longer shared and all these sections have been left, a
 * thread that collects takes the count (read_section.c). From then on, the owner can use the word
 * for other objects. The owner never reuses a word that has a count. Each object can use two words.
 * If neither of them is free, the thread changes the object's holds, as if the object were not
 * shared.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"

/* A tally has 16 KiB. There are two words in which the count of an object can be. */
enum { KILNI_TALLY_PAIR_BITS = 10, KILNI_TALLY_WORDS = 2 << KILNI_TALLY_PAIR_BITS };

typedef struct kilni_tally {
    /* The thread that owns the tally stores these words inside a section, with relaxed order. It
     * ends the section with a release store. A collecting thread loads that value with acquire
     * before it reads these words. */
    _Alignas(64) _Atomic uint64_t words[KILNI_TALLY_WORDS];
} kilni_tally;

/* Makes a tally. Returns NULL if there is no memory. The caller frees the tally with free(), after
 * kilni_tally_settle. */
kilni_tally *kilni_tally_new(void);

/* Called if a word is full. Adds @change and the count in the word to the holds of a shared object.
 * Then clears the count in the word. */
void kilni_tally_overflow(_Atomic uint64_t *word, kilni_object *object, int change);

/* Returns a tally's count for an object. */
int64_t kilni_tally_of(const kilni_tally *tally, const kilni_object *object);

/* Does the same as kilni_tally_of, and also removes the count. Called when no thread can change the
 * object's words any longer. */
int64_t kilni_tally_take(kilni_tally *tally, const kilni_object *object);

/* Adds all counts to the holds of their objects. Called when the tally's thread ends. Every object
 * that has a count in the tally must still exist, and no other thread is allowed to take the count
 * during the call. */
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

/* Returns the word of an object, or NULL if there is no room. Called if the object's first word
 * belongs to a different object. */
_Atomic uint64_t *kilni_tally_find(kilni_tally *tally, const kilni_object *object);

/* Adds 1 or -1 to this thread's count of a shared object. The thread must be in a section of the
 * object's cache. A count is between -INT16_MAX and INT16_MAX. Returns false if the tally has no
 * room for the object. */
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
