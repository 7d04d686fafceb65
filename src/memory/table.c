/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/size.h"

/* Defined by the library of LeakSanitizer, which is also part of AddressSanitizer. */
void __lsan_do_leak_check(void) __attribute__((weak));

/* Returns NULL if there is no memory. */
static kilni_cells *cells_new(size_t count)
{
    const bool has_references = __lsan_do_leak_check != NULL;
    const size_t cell_size = sizeof(kilni_cell) + (has_references ? sizeof(kilni_slot *) : 0);
    size_t size;
    if (!kilni_size_multiply(count, cell_size, &size) ||
        !kilni_size_add(size, sizeof(kilni_cells), &size)) {
        return NULL;
    }
    kilni_cells *cells = calloc(1, size);
    if (cells) {
        cells->mask = count - 1;
        char *behind = (char *)(cells + 1) + count * sizeof(kilni_cell);
        cells->references = has_references ? (kilni_slot **)(void *)behind : NULL;
    }
    return cells;
}

/* For the owner, which alone stores it. */
static kilni_cells *cells_of(const kilni_table *table)
{
    return atomic_load_explicit(&table->cells, memory_order_relaxed);
}

static uint64_t load(const kilni_cells *cells, size_t i)
{
    return atomic_load_explicit(&cells->cells[i], memory_order_relaxed);
}

kiln_status kilni_table_init(kilni_table *ret_table, size_t least_count)
{
    kilni_cells *cells = cells_new(least_count);
    if (!cells) {
        return KILN_E_NO_MEMORY;
    }
    *ret_table = (kilni_table){.least_count = least_count};
    atomic_init(&ret_table->cells, cells);
    return KILN_OK;
}

void kilni_table_fini(kilni_table *table)
{
    free(cells_of(table));
    *table = (kilni_table){.slot_count = 0};
}

/* Linux returns addresses above 47 bits only to processes that ask for one there, but some
 * allocators keep a tag in the highest byte. */
void *kilni_slot_calloc(size_t size)
{
    void *memory = calloc(1, size);
    if ((uintptr_t)memory > KILNI_CELL_ADDRESS) {
        free(memory);
        memory = NULL;
    }
    return memory;
}

void kilni_slot_init(kilni_slot *slot, const kiln_key *key, uint64_t group, kilni_slot_state state)
{
    *slot = (kilni_slot){.key = kiln_key_retain(key), .group = group, .state = state};
}

/* A slot's address and its key's tag in one word. */
static uint64_t cell_of(kilni_slot *slot)
{
    uint64_t address = (uintptr_t)slot;
    assert(address <= KILNI_CELL_ADDRESS);
    return kilni_cell_tag(kilni_table_hash(slot->key)) | address;
}

static void set_reference(kilni_cells *cells, size_t i, kilni_slot *slot)
{
    if (cells->references) {
        cells->references[i] = slot;
    }
}

/* Stores a slot in the first free cell of its search. Returns true if that cell was empty. */
static bool put(kilni_cells *cells, kilni_slot *slot)
{
    size_t i = kilni_table_hash(slot->key) & cells->mask;
    while (load(cells, i) > KILNI_CELL_REMOVED) {
        i = (i + 1) & cells->mask;
    }
    bool was_empty = load(cells, i) == 0;
    set_reference(cells, i, slot);
    /* What the slot holds is written by now. Pairs with the acquire load in kilni_table_find. */
    atomic_store_explicit(&cells->cells[i], cell_of(slot), memory_order_release);
    return was_empty;
}

/* Returns a number of cells of which @count slots fill no more than a third, so that most searches
 * end where they begin; 0 if there is no such number. */
static size_t cell_count_for(const kilni_table *table, size_t count)
{
    size_t cell_count = table->least_count;
    while (cell_count / 3 < count) {
        if (!kilni_size_multiply(cell_count, 2, &cell_count)) {
            return 0;
        }
    }
    return cell_count;
}

/* Whether searches would be long, or the cells are far too many. */
static bool needs_other_cells(const kilni_table *table, size_t count)
{
    size_t cell_count = cells_of(table)->mask + 1;
    size_t removed_count = table->used_count - table->slot_count;
    return count > cell_count / 3 || removed_count > cell_count / 2 - count ||
           (cell_count > table->least_count && count < cell_count / 32);
}

static kilni_cells *copy_cells(const kilni_table *table, size_t cell_count)
{
    kilni_cells *copy = cell_count > 0 ? cells_new(cell_count) : NULL;
    if (copy) {
        size_t position = 0;
        kilni_slot *slot;
        while ((slot = kilni_table_walk(table, &position))) {
            put(copy, slot);
        }
    }
    return copy;
}

kiln_status kilni_table_reserve(kilni_table *table, size_t count, kilni_cells **ret_replaced)
{
    *ret_replaced = NULL;
    kilni_cells *cells = cells_of(table);
    if (!needs_other_cells(table, count)) {
        return KILN_OK;
    }
    kilni_cells *other = copy_cells(table, cell_count_for(table, count));
    if (!other) {
        return count <= cells->mask ? KILN_OK : KILN_E_NO_MEMORY;
    }
    atomic_store_explicit(&table->cells, other, memory_order_release);
    table->used_count = table->slot_count;
    *ret_replaced = cells;
    return KILN_OK;
}

void kilni_table_insert(kilni_table *table, kilni_slot *slot)
{
    kilni_cells *cells = cells_of(table);
    assert(table->slot_count <= cells->mask);
    table->used_count += put(cells, slot);
    table->slot_count++;
}

void kilni_table_remove(kilni_table *table, const kilni_slot *slot)
{
    kilni_cells *cells = cells_of(table);
    size_t i = kilni_table_hash(slot->key) & cells->mask;
    while (kilni_cell_slot(load(cells, i)) != slot) {
        i = (i + 1) & cells->mask;
    }
    set_reference(cells, i, NULL);
    atomic_store_explicit(&cells->cells[i], KILNI_CELL_REMOVED, memory_order_relaxed);
    table->slot_count--;
    /* If nothing follows, no search needs to pass here. A search that is under way finds the end
     * one cell earlier or later. */
    if (load(cells, (i + 1) & cells->mask) != 0) {
        return;
    }
    while (load(cells, i) == KILNI_CELL_REMOVED) {
        atomic_store_explicit(&cells->cells[i], 0, memory_order_relaxed);
        table->used_count--;
        i = (i - 1) & cells->mask;
    }
}

size_t kilni_table_position(const kilni_table *table, uint64_t random)
{
    return (size_t)random & cells_of(table)->mask;
}
