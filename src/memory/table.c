/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Defined by the library of LeakSanitizer, which is also part of AddressSanitizer. */
void __lsan_do_leak_check(void) __attribute__((weak));

/* Returns cells that are not cleared, or NULL if there is no memory. calloc is not used, because it
 * would clear all cells of a large table in one step, which would cause a pause. */
static kilni_cells *cells_new(size_t count)
{
    const bool has_references = __lsan_do_leak_check != NULL;
    const size_t cell_size = sizeof(kilni_cell) + (has_references ? sizeof(kilni_slot *) : 0);
    size_t size;
    if (!kilni_size_multiply(count, cell_size, &size) ||
        !kilni_size_add(size, sizeof(kilni_cells), &size)) {
        return NULL;
    }
    kilni_cells *cells = malloc(size);
    if (cells) {
        char *behind = (char *)(cells + 1) + count * sizeof(kilni_cell);
        *cells = (kilni_cells){.mask = count - 1};
        cells->references = has_references ? (kilni_slot **)(void *)behind : NULL;
    }
    return cells;
}

/* Clears @count more cells, or all that are left if there are fewer. Returns true if all cells are
 * clear. */
static bool clear_cells(kilni_cells *cells, size_t count)
{
    const size_t left = cells->mask + 1 - cells->done;
    count = count < left ? count : left;
    memset((char *)(cells + 1) + cells->done * sizeof(kilni_cell), 0, count * sizeof(kilni_cell));
    if (cells->references) {
        memset(&cells->references[cells->done], 0, count * sizeof(kilni_slot *)); /* NOLINT */
    }
    cells->done += count;
    return count == left;
}

/* Called only by the table's owner. No other thread stores this pointer. */
static kilni_cells *cells_of(const kilni_table *table)
{
    return atomic_load_explicit(&table->cells, memory_order_relaxed);
}

/* Also called only by the owner. */
static kilni_cells *former_of(const kilni_cells *cells)
{
    return atomic_load_explicit(&cells->former, memory_order_relaxed);
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
    clear_cells(cells, least_count);
    cells->done = 0;
    *ret_table = (kilni_table){.least_count = least_count};
    atomic_init(&ret_table->cells, cells);
    return KILN_OK;
}

void kilni_table_fini(kilni_table *table)
{
    kilni_cells *cells = cells_of(table);
    if (cells) {
        free(former_of(cells));
    }
    free(cells);
    free(table->next);
    *table = (kilni_table){.slot_count = 0};
}

/* Linux returns addresses of more than 47 bits only to processes that ask for them, but some
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

void kilni_slot_init(kilni_slot *slot, const kiln_key *key, kilni_slot_state state)
{
    *slot = (kilni_slot){.key = kiln_key_retain(key), .state = (uint8_t)state};
}

/* Returns a word that contains the address of a slot and the tag of the slot's key. */
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
    /* The contents of the slot have been written by now. This store pairs with the acquire load in
     * kilni_table_find. */
    atomic_store_explicit(&cells->cells[i], cell_of(slot), memory_order_release);
    return was_empty;
}

/* Returns a suitable number of cells for @count slots. The slots fill at most a third of these
 * cells, so most searches end where they begin. Returns 0 if the number would be too large. */
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

/* Returns true if searches would be long with @count slots, or if there are far too many cells. */
static bool needs_other_cells(const kilni_table *table, size_t count)
{
    size_t cell_count = cells_of(table)->mask + 1;
    size_t removed_count = table->used_count - table->slot_count;
    return count > cell_count / 3 || removed_count > cell_count / 2 - count ||
           (cell_count > table->least_count && count < cell_count / 32);
}

/* Allocates cells for @count slots. A table never shrinks to less than an eighth of its size in one
 * step. Otherwise, it might need more cells again before all slots are copied. */
static kiln_status begin_other_cells(kilni_table *table, size_t count)
{
    const size_t least = (cells_of(table)->mask + 1) / 8;
    size_t cell_count = cell_count_for(table, count);
    if (cell_count > 0) {
        table->next = cells_new(cell_count > least ? cell_count : least);
    }
    return table->next ? KILN_OK : KILN_E_NO_MEMORY;
}

/* Clears some of the next cells. The table uses them once all are clear. */
static void clear_some(kilni_table *table)
{
    kilni_cells *next = table->next;
    if (!clear_cells(next, KILNI_CELLS_CLEARED)) {
        return;
    }
    next->done = 0;
    atomic_store_explicit(&next->former, cells_of(table), memory_order_relaxed);
    atomic_store_explicit(&table->cells, next, memory_order_release);
    table->next = NULL;
    table->used_count = 0;
}

/* Copies some slots from the former cells. Returns the former cells if all slots have been copied,
 * and otherwise NULL. */
static kilni_cells *copy_some(kilni_table *table)
{
    kilni_cells *cells = cells_of(table);
    kilni_cells *former = former_of(cells);
    size_t copied = 0;
    for (size_t seen = 0; seen < KILNI_CELLS_SEEN && copied < KILNI_CELLS_COPIED; seen++) {
        uint64_t cell = load(former, former->done++);
        if (cell > KILNI_CELL_REMOVED) {
            table->used_count += put(cells, kilni_cell_slot(cell));
            copied++;
        }
        if (former->done > former->mask) {
            atomic_store_explicit(&cells->former, NULL, memory_order_release);
            return former;
        }
    }
    return NULL;
}

kiln_status kilni_table_reserve(kilni_table *table, size_t count, kilni_cells **ret_replaced)
{
    *ret_replaced = NULL;
    kiln_status status = KILN_OK;
    do {
        if (former_of(cells_of(table))) {
            *ret_replaced = copy_some(table);
        } else if (table->next || needs_other_cells(table, count)) {
            status = table->next ? KILN_OK : begin_other_cells(table, count);
            if (status == KILN_OK) {
                clear_some(table);
            }
        }
        /* Usually there is room already, and the loop ends here. If there is no room, the loop does
         * all the work now. It replaces the cells at most once, because the next cells have room.
         */
    } while (count > cells_of(table)->mask && status == KILN_OK);
    return count <= cells_of(table)->mask ? KILN_OK : status;
}

void kilni_table_insert(kilni_table *table, kilni_slot *slot)
{
    kilni_cells *cells = cells_of(table);
    assert(table->slot_count <= cells->mask);
    table->used_count += put(cells, slot);
    table->slot_count++;
}

/* Removes a slot from an array of cells, if the array contains it. Returns how many of the cells
 * became empty. */
static size_t erase(kilni_cells *cells, const kilni_slot *slot)
{
    size_t i = kilni_table_hash(slot->key) & cells->mask;
    for (size_t seen = 0; kilni_cell_slot(load(cells, i)) != slot; seen++) {
        if (load(cells, i) == 0 || seen == cells->mask) {
            return 0;
        }
        i = (i + 1) & cells->mask;
    }
    set_reference(cells, i, NULL);
    atomic_store_explicit(&cells->cells[i], KILNI_CELL_REMOVED, memory_order_relaxed);
    /* If the next cell is empty, no search needs to go past this cell. A search that is under way
     * might end one cell earlier or later. */
    if (load(cells, (i + 1) & cells->mask) != 0) {
        return 0;
    }
    size_t emptied = 0;
    while (load(cells, i) == KILNI_CELL_REMOVED) {
        atomic_store_explicit(&cells->cells[i], 0, memory_order_relaxed);
        emptied++;
        i = (i - 1) & cells->mask;
    }
    return emptied;
}

void kilni_table_remove(kilni_table *table, const kilni_slot *slot)
{
    kilni_cells *cells = cells_of(table);
    kilni_cells *former = former_of(cells);
    table->slot_count--;
    table->used_count -= erase(cells, slot);
    if (former) {
        erase(former, slot);
    }
}

/* Returns the slot in a cell, or NULL. */
static kilni_slot *slot_at(const kilni_cells *cells, size_t i)
{
    uint64_t cell = load(cells, i);
    return cell > KILNI_CELL_REMOVED ? kilni_cell_slot(cell) : NULL;
}

/* The walk visits the cells of the table first, and then the former cells that have not been
 * copied. */
kilni_slot *kilni_table_walk(const kilni_table *table, size_t *position)
{
    const kilni_cells *cells = cells_of(table);
    const kilni_cells *former = former_of(cells);
    kilni_slot *slot = NULL;
    while (!slot && *position <= cells->mask) {
        slot = slot_at(cells, (*position)++);
    }
    if (slot || !former) {
        return slot;
    }
    const size_t first = cells->mask + 1;
    *position = *position > first + former->done ? *position : first + former->done;
    while (!slot && *position - first <= former->mask) {
        slot = slot_at(former, (*position)++ - first);
    }
    return slot;
}
