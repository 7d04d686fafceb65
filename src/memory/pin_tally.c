/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/pin_tally.h"

#include <stdlib.h>
#include <string.h>

kilni_tally *kilni_tally_new(void)
{
    kilni_tally *tally = aligned_alloc(_Alignof(kilni_tally), sizeof *tally);
    if (tally) {
        memset(tally, 0, sizeof *tally);
    }
    return tally;
}

/* A word without a count is free. It becomes the word of this object. */
_Atomic uint64_t *kilni_tally_find(kilni_tally *tally, const kilni_object *object)
{
    _Atomic uint64_t *first = &tally->words[kilni_tally_position(object)];
    _Atomic uint64_t *second = first + 1;
    if (kilni_tally_is_of(atomic_load_explicit(second, memory_order_relaxed), object)) {
        return second;
    }
    for (_Atomic uint64_t *word = first; word <= second; word++) {
        if (kilni_tally_count(atomic_load_explicit(word, memory_order_relaxed)) == 0) {
            atomic_store_explicit(word, kilni_tally_word(object, 0), memory_order_relaxed);
            return word;
        }
    }
    return NULL;
}

/* If the process forks between the two steps, the child has the count twice or not at all. The
 * child must never have a negative count twice, because it would destroy an object that is still
 * pinned. */
void kilni_tally_overflow(_Atomic uint64_t *word, kilni_object *object, int change)
{
    const int count = kilni_tally_count(atomic_load_explicit(word, memory_order_relaxed)) + change;
    if (count > 0) {
        atomic_fetch_add_explicit(&object->holds, count, memory_order_relaxed);
    }
    atomic_store_explicit(word, kilni_tally_word(object, 0), memory_order_relaxed);
    if (count < 0) {
        atomic_fetch_add_explicit(&object->holds, count, memory_order_relaxed);
    }
}

int64_t kilni_tally_of(const kilni_tally *tally, const kilni_object *object)
{
    const _Atomic uint64_t *words = &tally->words[kilni_tally_position(object)];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
        count += kilni_tally_is_of(word, object) ? kilni_tally_count(word) : 0;
    }
    return count;
}

int64_t kilni_tally_take(kilni_tally *tally, const kilni_object *object)
{
    _Atomic uint64_t *words = &tally->words[kilni_tally_position(object)];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
        /* If a word has no count, it might already be in use for a different object. */
        if (kilni_tally_is_of(word, object) && kilni_tally_count(word) != 0) {
            count += kilni_tally_count(word);
            atomic_store_explicit(&words[i], 0, memory_order_relaxed);
        }
    }
    return count;
}

void kilni_tally_settle(kilni_tally *tally)
{
    for (size_t i = 0; i < KILNI_TALLY_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&tally->words[i], memory_order_relaxed);
        if (kilni_tally_count(word) != 0) {
            kilni_object *object = (kilni_object *)(uintptr_t)(word & KILNI_CELL_ADDRESS);
            atomic_fetch_add_explicit(&object->holds, kilni_tally_count(word),
                                      memory_order_relaxed);
            atomic_store_explicit(&tally->words[i], 0, memory_order_relaxed);
        }
    }
}
