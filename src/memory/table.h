/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of keys. A search finds a key by its hash and confirms it by comparison. The table uses
 * open addressing in one array of cells. The low bits of a cell are the address of a slot. The high
 * bits are 15 bits of the hash of the slot's key. So a search seldom touches the slot of a
 * different key.
 *
 * A table that needs more or fewer cells gets a new array of cells. Each call of
 * kilni_table_reserve does a part of the work. First the new cells are cleared, while the table
 * still uses the former ones. Then the table uses the new cells, and slots are copied to them.
 * Until all slots are copied, a slot that is not in the new cells can still be in the former cells.
 * kilni_table_remove removes a slot from both.
 *
 * The owner of a table must guard all calls, except those of kilni_table_find and
 * kilni_table_find_same. These two functions need no lock if slots and replaced cells are kept
 * until no thread can be searching them. A slot never moves within an array of cells. When it is
 * copied, it also stays in the former cells.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>

#include "key/encoding.h"

typedef enum kilni_slot_state {
    KILNI_SLOT_NONE = 0,     /* of an object that is in no table */
    KILNI_SLOT_BUILDING = 1, /* the slot begins a kilni_flight */
    KILNI_SLOT_FAILED = 2,   /* the slot begins a kilni_flight whose failure is kept */
    KILNI_SLOT_READY = 3     /* the slot begins a kilni_object */
} kilni_slot_state;

/* A table's element for one key. It is the first member of a larger structure. */
typedef struct kilni_slot {
    kiln_key *key; /* a reference; set once */
    uint8_t state; /* a kilni_slot_state */
    /* How often an object that is not shared yet was pinned. Incremented without a lock, because it
     * does no harm if an increment is lost. */
    _Atomic uint8_t early_pins;
    /* Guarded by the cache's lock. */
    bool can_have_group : 1;    /* of an object: kilni_group_links follow it; set once */
    bool is_candidate : 1;      /* of an object: in cache->candidates */
    bool was_visible : 1;       /* of an object: it is or was in the cache; sections can see it */
    bool is_first_of_group : 1; /* of an object: in cache->groups */
    uint32_t position;          /* of an object: in cache->residents, while it is there */
} kilni_slot;

/* A cell is 0 if it is empty, and KILNI_CELL_REMOVED if its slot was removed. A search does not end
 * at a cell whose slot was removed. */
typedef _Atomic uint64_t kilni_cell;

#define KILNI_CELL_ADDRESS_BITS 48
#define KILNI_CELL_ADDRESS (((uint64_t)1 << KILNI_CELL_ADDRESS_BITS) - 1)
#define KILNI_CELL_REMOVED ((uint64_t)1)

typedef struct kilni_cells {
    struct kilni_cells *next; /* links cells that were replaced */
    uint64_t retired_at;      /* the epoch in which they were replaced */
    size_t mask;              /* the number of cells, a power of two, minus 1 */
    /* The former cells, whose slots are being copied to these cells. NULL after all slots have been
     * copied. kilni_table_reserve stores NULL with release after the last copy. kilni_table_find
     * loads the pointer with acquire before it searches. */
    _Atomic(struct kilni_cells *) former;
    size_t done; /* how many of the next cells are cleared, or how many of the former cells are
                    copied */
    /* NULL, except in a process with LeakSanitizer. There, this array contains the addresses of the
     * slots in the cells. It follows the cells in memory. LeakSanitizer reports memory to which it
     * finds no pointer, and does not recognize a tagged address as a pointer. No code reads this
     * array. */
    kilni_slot **references;
    kilni_cell cells[];
} kilni_cells;

/* The maximum numbers of cells that kilni_table_reserve clears or examines in one step, and of
 * slots that it copies. */
enum { KILNI_CELLS_CLEARED = 4096, KILNI_CELLS_SEEN = 1024, KILNI_CELLS_COPIED = 64 };

typedef struct kilni_table {
    /* kilni_table_reserve stores this pointer with release, after it has written everything in the
     * cells. kilni_table_find loads the pointer with acquire. */
    _Atomic(kilni_cells *) cells;
    kilni_cells *next; /* the cells that are being cleared, or NULL */
    size_t slot_count;
    size_t used_count;  /* cells that are not empty, in @cells alone */
    size_t least_count; /* the minimum number of cells */
} kilni_table;

/* @least_count  the minimum number of cells, a power of two; more cells make searches shorter
 *
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_table_init(kilni_table *ret_table, size_t least_count);

/* Frees the table, which must be empty. */
void kilni_table_fini(kilni_table *table);

/* Returns zeroed memory for a structure that begins with a slot. Returns NULL if there is no memory
 * whose address fits in a cell. The caller frees the memory with free(). */
void *kilni_slot_calloc(size_t size);

/* Initializes a slot, and adds a reference to its key. */
void kilni_slot_init(kilni_slot *slot, const kiln_key *key, kilni_slot_state state);

/* Ensures that a table can hold @count slots. If @count grows by only a few slots from one call to
 * the next, the duration of a call does not depend on the size of the table.
 *
 * @ret_replaced  [out] the cells that were replaced, or NULL; also set if the call fails. No new
 *                search uses these cells. The caller must free them when no earlier search uses
 *                them any longer
 * Returns KILN_OK; KILN_E_NO_MEMORY: the table can hold as many slots as before. */
kiln_status kilni_table_reserve(kilni_table *table, size_t count, kilni_cells **ret_replaced);

/* Inserts a slot. Its key must not be in the table, and room must have been reserved. */
void kilni_table_insert(kilni_table *table, kilni_slot *slot);

/* Removes a slot, which must be in the table. */
void kilni_table_remove(kilni_table *table, const kilni_slot *slot);

/* Returns the next slot of a walk over all slots, in no particular order. Returns NULL at the end.
 * The caller sets *@position to 0 before the walk. During the walk, the caller may remove and
 * insert slots, but must not call kilni_table_reserve. */
kilni_slot *kilni_table_walk(const kilni_table *table, size_t *position);

/* Returns the hash of a key. The low bits of the hash determine where a search begins. The tag is
 * made from its high bits. */
static inline uint64_t kilni_table_hash(const kiln_key *key)
{
    return key->hash;
}

static inline kilni_slot *kilni_cell_slot(uint64_t cell)
{
    return (kilni_slot *)(uintptr_t)(cell & KILNI_CELL_ADDRESS);
}

/* Loads a cell. Pairs with the release store in kilni_table_insert. */
static inline uint64_t kilni_cell_at(const kilni_cells *cells, uint64_t i)
{
    return atomic_load_explicit(&cells->cells[i & cells->mask], memory_order_acquire);
}

/* Returns the tag of the key with this hash. In the key's cell, the tag is in the bits above the
 * address of the slot. The highest bit of every tag is set. In a cell without a slot, that bit is
 * clear. */
static inline uint64_t kilni_cell_tag(uint64_t hash)
{
    return (hash | (uint64_t)1 << 63) & ~KILNI_CELL_ADDRESS;
}

/* @untagged is the exclusive or of a cell and a key's tag. Returns true if the cell has this tag.
 * In that case, @untagged is the address of a slot, which might be the slot of the key. */
static inline bool kilni_cell_is_address(uint64_t untagged)
{
    return untagged <= KILNI_CELL_ADDRESS;
}

/* Searches one array of cells. Returns the slot of a key, or NULL. */
static inline kilni_slot *kilni_cells_find(const kilni_cells *cells, const kiln_key *key)
{
    uint64_t hash = kilni_table_hash(key);
    /* The loop is bounded, because there might be no empty cell. */
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

/* Returns the slot of a key, or NULL. */
static inline kilni_slot *kilni_table_find(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    /* The pointer to the former cells is loaded first. If it is NULL, all slots were copied, and
     * the search below sees the copies. Otherwise, a slot that the search below does not see was
     * not copied before this load. So it is still in the former cells, unless it was removed. */
    const kilni_cells *former = atomic_load_explicit(&cells->former, memory_order_acquire);
    kilni_slot *slot = kilni_cells_find(cells, key);
    return slot || !former ? slot : kilni_cells_find(former, key);
}

/* Looks only at the first two cells of a key's search. Nearly every slot is in one of these two
 * cells. Returns a slot that might be the key's, or NULL if neither cell has the key's tag. */
static inline kilni_slot *kilni_cells_guess(const kilni_cells *cells, const kiln_key *key)
{
    uint64_t hash = kilni_table_hash(key);
    uint64_t first = kilni_cell_at(cells, hash) ^ kilni_cell_tag(hash);
    uint64_t second = kilni_cell_at(cells, hash + 1) ^ kilni_cell_tag(hash);
    /* If one of the two values is an address, it is the smaller value. This code avoids a branch,
     * because the processor could not predict it. */
    uint64_t untagged = first < second ? first : second;
    return kilni_cell_is_address(untagged) ? kilni_cell_slot(untagged) : NULL;
}

/* Returns the slot of a key if it can be found quickly. The slot must have @key itself as its key,
 * and not only an equal key. This is so if the caller reuses its keys. The slot must also be in one
 * of the first two cells of its search, and if there are former cells, it must have been copied
 * from them. If the result is NULL, the key might still have a slot. */
static inline kilni_slot *kilni_table_find_same(const kilni_table *table, const kiln_key *key)
{
    const kilni_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    kilni_slot *slot = kilni_cells_guess(cells, key);
    return slot && slot->key == key ? slot : NULL;
}
