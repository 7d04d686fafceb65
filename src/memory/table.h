/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of keys: found by digest, believed by comparison. Open addressing over one array of
 * cells; a cell is the address of a slot with 15 bits of its key's digest above it, so that a
 * search touches no slot but the right one.
 *
 * Whoever owns a table guards all calls but kilni_table_find. That one takes no lock where slots
 * and outgrown cells are kept until none can be searching them: a slot never moves within its
 * cells, and cells that were replaced are left as they were.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <kiln/key.h>

#include "key/encoding.h"

typedef enum kilni_slot_state {
    KILNI_SLOT_NONE = 0,     /* of an object that is in no table */
    KILNI_SLOT_BUILDING = 1, /* the slot begins a kilni_flight */
    KILNI_SLOT_FAILED = 2,   /* likewise: a failure that is kept */
    KILNI_SLOT_READY = 3     /* the slot begins a kilni_object */
} kilni_slot_state;

/* What a key has in a table; the beginning of a larger structure. */
typedef struct kilni_slot {
    kiln_key *key;  /* a reference; set once */
    uint64_t group; /* 0: none; set before it can be found by it */
    kilni_slot_state state;
    bool can_have_group; /* of an object: with links for that behind it, set once */
    bool is_candidate;   /* of an object: in cache->candidates */
    bool was_visible;    /* of an object: it was in the cache, where sections could see it */
} kilni_slot;

/* Empty: 0. Of a slot that left: KILNI_CELL_LEFT, which a search goes on behind. */
typedef _Atomic uint64_t kilni_cell;

#define KILNI_CELL_ADDRESS_BITS 48
#define KILNI_CELL_ADDRESS (((uint64_t)1 << KILNI_CELL_ADDRESS_BITS) - 1)
#define KILNI_CELL_LEFT ((uint64_t)1)

typedef struct kilni_cells {
    struct kilni_cells *next; /* of those that were replaced */
    uint64_t retired_at;      /* likewise */
    size_t mask;              /* their number, a power of two, less 1 */
    /* In a process with LeakSanitizer: the address of the slot that each cell names, behind the
     * cells, else NULL. LeakSanitizer reports memory to which it finds no pointer, and a tagged
     * address is none. Nothing reads them here. */
    kilni_slot **references;
    kilni_cell cells[];
} kilni_cells;

typedef struct kilni_table {
    /* Stored with release by kilni_table_reserve, when all that is in them was written; loaded with
     * acquire by kilni_table_find. */
    _Atomic(kilni_cells *) cells;
    size_t slot_count;
    size_t used_count;  /* cells that are not empty */
    size_t least_count; /* of cells */
} kilni_table;

/* @least_count  of cells, a power of two: emptier ones have more keys in the first of their search
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_table_init(kilni_table *ret_table, size_t least_count);

/* Frees the table, which is to be empty. */
void kilni_table_fini(kilni_table *table);

/* Zeroed memory for something that begins with a slot; NULL where there is none that a cell can
 * name. To be given back with free. */
void *kilni_slot_calloc(size_t size);

/* Gives a slot its key, of which it takes a reference. */
void kilni_slot_init(kilni_slot *slot, const kiln_key *key, uint64_t group, kilni_slot_state state);

/* Makes sure that a table can hold @count slots.
 *
 * @ret_replaced  [out] cells that nobody new will search, for the caller to free; else NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY, which leaves the table as it is. */
kiln_status kilni_table_reserve(kilni_table *table, size_t count, kilni_cells **ret_replaced);

/* Puts a slot in. Its key must not be there, and room must have been reserved. */
void kilni_table_insert(kilni_table *table, kilni_slot *slot);

/* Takes a slot out, which must be there. */
void kilni_table_remove(kilni_table *table, const kilni_slot *slot);

/* A position to walk from, as good as random where @random is. */
size_t kilni_table_position(const kilni_table *table, uint64_t random);

/* The first bytes of the digest: its low bits say where a search begins, its high ones make the
 * tag. */
static inline uint64_t kilni_table_hash(const kiln_key *key)
{
    uint64_t hash;
    memcpy(&hash, key->digest.bytes, sizeof hash);
    return hash;
}

static inline kilni_slot *kilni_cell_slot(uint64_t cell)
{
    return (kilni_slot *)(uintptr_t)(cell & KILNI_CELL_ADDRESS);
}

/* Walks all slots, in no order: the first at @position or behind it, which moves behind what was
 * found; NULL at the end. Slots may be removed on the way. */
static inline kilni_slot *kilni_table_walk(const kilni_table *table, size_t *position)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_relaxed);
    while (*position <= cells->mask) {
        uint64_t cell = atomic_load_explicit(&cells->cells[(*position)++], memory_order_relaxed);
        if (cell > KILNI_CELL_LEFT) {
            return kilni_cell_slot(cell);
        }
    }
    return NULL;
}

/* Pairs with the release store in kilni_table_insert. */
static inline uint64_t kilni_cell_at(const kilni_cells *cells, uint64_t i)
{
    return atomic_load_explicit(&cells->cells[i & cells->mask], memory_order_acquire);
}

/* What stands above the address in the cells of a key. Its highest bit is set, as in no cell that
 * names no slot. */
static inline uint64_t kilni_cell_tag(uint64_t hash)
{
    return (hash | (uint64_t)1 << 63) & ~KILNI_CELL_ADDRESS;
}

/* Whether what is left of a cell without a key's tag is the address of a slot, maybe the key's. */
static inline bool kilni_cell_is_address(uint64_t rest)
{
    return rest <= KILNI_CELL_ADDRESS;
}

/* The slot of a key, or NULL. */
static inline kilni_slot *kilni_table_find(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    uint64_t hash = kilni_table_hash(key);
    /* Bounded, since no cell needs to be empty. */
    for (size_t i = 0; i <= cells->mask; i++) {
        uint64_t cell = kilni_cell_at(cells, hash + i);
        if (cell == 0) {
            break;
        }
        uint64_t rest = cell ^ kilni_cell_tag(hash);
        if (kilni_cell_is_address(rest) && kiln_key_equals(kilni_cell_slot(rest)->key, key)) {
            return kilni_cell_slot(rest);
        }
    }
    return NULL;
}

/* The same where it is quick: the slot was given this very key, as those who prepare their keys do,
 * and is in one of the first two cells of its search, as nearly all are. NULL says nothing. */
static inline kilni_slot *kilni_table_find_same(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    uint64_t hash = kilni_table_hash(key);
    uint64_t first = kilni_cell_at(cells, hash) ^ kilni_cell_tag(hash);
    uint64_t second = kilni_cell_at(cells, hash + 1) ^ kilni_cell_tag(hash);
    /* The lesser is the address, if one is: no branch, since a processor could not guess which. */
    uint64_t rest = first < second ? first : second;
    if (!kilni_cell_is_address(rest)) {
        return NULL;
    }
    kilni_slot *slot = kilni_cell_slot(rest);
    return slot->key == key ? slot : NULL;
}
