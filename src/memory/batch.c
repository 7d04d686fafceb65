/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks up several keys in one call. Prefetches what the look-ups will read, for one block of keys
 * at a time. So the processor waits three times for each block (for keys, cells and objects), and
 * not three times for each key.
 */
#include "memory/lifetime.h"
#include "memory/read_section.h"

/* The number of keys in a block: about as many as a processor can fetch at the same time. */
enum { BLOCK = 16 };

/* Prefetches what most look-ups read: the keys, the cells in which their searches begin, and the
 * objects whose addresses are in these cells. Called in a section. Skips keys that are NULL. */
static void fetch(const kilni_table *table, const kiln_key *const *keys, size_t count)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(keys[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (keys[i]) {
            __builtin_prefetch(&cells->cells[kilni_table_hash(keys[i]) & cells->mask]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const kilni_slot *slot = keys[i] ? kilni_cells_guess(cells, keys[i]) : NULL;
        /* An object can begin in the middle of a line of the processor's cache. */
        __builtin_prefetch(slot);
        __builtin_prefetch((const char *)slot + sizeof(kilni_object) / 2);
    }
}

size_t kiln_cache_peek_many(const kiln_section *section, const kiln_key *const *keys, size_t count,
                            void **ret_objects)
{
    if (!section || !section->cache || !keys || !ret_objects) {
        return 0;
    }
    size_t found = 0;
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t end = count - first > BLOCK ? first + BLOCK : count;
        fetch(&section->cache->ready, keys + first, end - first);
        for (size_t i = first; i < end; i++) {
            ret_objects[i] = kiln_cache_peek(section, keys[i]);
            found += ret_objects[i] != NULL;
        }
    }
    return found;
}

kiln_status kiln_cache_pin_many(kiln_cache *cache, const kiln_key *const *keys, size_t count,
                                kiln_pin **ret_pins)
{
    if (!cache || !keys || !ret_pins) {
        return KILN_E_INVALID;
    }
    kiln_status status = KILN_OK;
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t end = count - first > BLOCK ? first + BLOCK : count;
        kilni_place *place = kilni_section_enter(cache);
        fetch(&cache->ready, keys + first, end - first);
        kilni_section_leave(cache, place);
        for (size_t i = first; i < end; i++) {
            ret_pins[i] = NULL;
            if (kiln_cache_pin(cache, keys[i], &ret_pins[i]) != KILN_OK) {
                status = KILN_MISS;
            }
        }
    }
    return status;
}
