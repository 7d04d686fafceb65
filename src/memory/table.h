/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of keys, found by digest and confirmed by comparison. Open addressing over one array of
 * cells. A cell is the address of a slot with 15 bits of its key's digest above it, so that a
 * search touches no slot except the right one.
 *
 * The owner of a table guards all calls except kilni_table_find. That one takes no lock, provided
 * that slots and replaced cells are kept until no thread can be searching them: a slot never moves
 * within its cells, and cells that were replaced stay as they were.
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

/* What a table holds for a key; the beginning of a larger structure. */
typedef struct kilni_slot {
    kiln_key *key;  /* a reference; set once */
    uint64_t group; /* 0: none; set before the slot can be found by it */
    kilni_slot_state state;
    bool can_have_group; /* of an object: it is followed by links for a group; set once */
    bool is_candidate;   /* of an object: in cache->candidates */
    bool was_visible;    /* of an object: it was in the cache, where sections could see it */
} kilni_slot;

/* 0 if it is empty; KILNI_CELL_REMOVED if its slot was removed: a search does not end there. */
typedef _Atomic uint64_t kilni_cell;

#define KILNI_CELL_ADDRESS_BITS 48
#define KILNI_CELL_ADDRESS (((uint64_t)1 << KILNI_CELL_ADDRESS_BITS) - 1)
#define KILNI_CELL_REMOVED ((uint64_t)1)

typedef struct kilni_cells {
    struct kilni_cells *next; /* of those that were replaced */
    uint64_t retired_at;      /* likewise */
    size_t mask;              /* the number of cells, a power of two, less 1 */
    /* In a process with LeakSanitizer: the address of the slot in each cell, after the cells;
     * otherwise NULL. LeakSanitizer reports memory to which it finds no pointer, and does not take
     * a tagged address for one. Nothing here reads them. */
    kilni_slot **references;
    kilni_cell cells[];
} kilni_cells;

typedef struct kilni_table {
    /* Stored with release by kilni_table_reserve, once everything in the cells is written; loaded
     * with acquire by kilni_table_find. */
    _Atomic(kilni_cells *) cells;
    size_t slot_count;
    size_t used_count;  /* cells that are not empty */
    size_t least_count; /* of cells */
} kilni_table;

/* @least_count  of cells, a power of two: more cells make searches shorter
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_table_init(kilni_table *ret_table, size_t least_count);

/* Frees the table, which must be empty. */
void kilni_table_fini(kilni_table *table);

/* Returns zeroed memory for a structure that begins with a slot; NULL if there is none with an
 * address that fits a cell. Freed with free. */
void *kilni_slot_calloc(size_t size);

/* Gives a slot its key, to which it adds a reference. */
void kilni_slot_init(kilni_slot *slot, const kiln_key *key, uint64_t group, kilni_slot_state state);

/* Ensures that a table can hold @count slots.
 *
 * @ret_replaced  [out] cells that no new search will use, which the caller must free; otherwise
 * NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY, which leaves the table as it is. */
kiln_status kilni_table_reserve(kilni_table *table, size_t count, kilni_cells **ret_replaced);

/* Inserts a slot. Its key must not be in the table, and room must have been reserved. */
void kilni_table_insert(kilni_table *table, kilni_slot *slot);

/* Removes a slot, which must be in the table. */
void kilni_table_remove(kilni_table *table, const kilni_slot *slot);

/* Returns a position to walk from, as random as @random is. */
size_t kilni_table_position(const kilni_table *table, uint64_t random);

/* The first bytes of the digest. Their low bits say where a search begins; the high ones make the
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

/* Walks all slots, in no order. Returns the first one at or after @position, which moves past it;
 * NULL at the end. Slots may be removed during the walk. */
static inline kilni_slot *kilni_table_walk(const kilni_table *table, size_t *position)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_relaxed);
    while (*position <= cells->mask) {
        uint64_t cell = atomic_load_explicit(&cells->cells[(*position)++], memory_order_relaxed);
        if (cell > KILNI_CELL_REMOVED) {
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

/* What is above the address in the cells of a key. Its highest bit is set; it is clear in a cell
 * without a slot. */
static inline uint64_t kilni_cell_tag(uint64_t hash)
{
    return (hash | (uint64_t)1 << 63) & ~KILNI_CELL_ADDRESS;
}

/* Whether a cell with a key's tag taken off is the address of a slot, maybe the key's. */
static inline bool kilni_cell_is_address(uint64_t untagged)
{
    return untagged <= KILNI_CELL_ADDRESS;
}

/* Returns the slot of a key, or NULL. */
static inline kilni_slot *kilni_table_find(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    uint64_t hash = kilni_table_hash(key);
    /* Bounded, since there may be no empty cell. */
    for (size_t i = 0; i <= cells->mask; i++) {
        uint64_t cell = kilni_cell_at(cells, hash + i);
        if (cell == 0) {
            break;
        }
        uint64_t untagged = cell ^ kilni_cell_tag(hash);
        if (kilni_cell_is_address(untagged) &&
            kiln_key_equals(kilni_cell_slot(untagged)->key, key)) {
            return kilni_cell_slot(untagged);
        }
    }
    return NULL;
}

/* The same, if it is quick: the slot was given this very key, as it is if the caller prepares its
 * keys, and is in one of the first two cells of its search, as nearly all are. NULL says nothing.
 */
static inline kilni_slot *kilni_table_find_same(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    uint64_t hash = kilni_table_hash(key);
    uint64_t first = kilni_cell_at(cells, hash) ^ kilni_cell_tag(hash);
    uint64_t second = kilni_cell_at(cells, hash + 1) ^ kilni_cell_tag(hash);
    /* The smaller one is the address, if either is. No branch, since a processor could not predict
     * which. */
    uint64_t untagged = first < second ? first : second;
    if (!kilni_cell_is_address(untagged)) {
        return NULL;
    }
    kilni_slot *slot = kilni_cell_slot(untagged);
    return slot->key == key ? slot : NULL;
}
