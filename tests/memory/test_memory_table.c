/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal tests of the table of keys, in states that public calls can't produce.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>

#include "memory/table.h"
#include "support/colliding_keys.h"
#include "support/failing_malloc.h"
#include "support/memory_objects.h"

enum { SLOT_COUNT = 500 };

static void init_slot(kilni_slot *slot, uint32_t number)
{
    kiln_key *key = make_key(number);
    kilni_slot_init(slot, key, KILNI_SLOT_READY);
    kiln_key_release(&key);
}

static void reserve(kilni_table *table, size_t count)
{
    kilni_cells *replaced;
    assert_int_equal(kilni_table_reserve(table, count, &replaced), KILN_OK);
    free(replaced);
}

static size_t cell_count(kilni_table *table)
{
    return atomic_load(&table->cells)->mask + 1;
}

static void test_equal_digests_do_not_make_equal_keys(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    kilni_slot first, second;
    init_slot(&first, 1);
    init_slot(&second, 2);
    first.key->digest = second.key->digest;
    first.key->hash = second.key->hash;
    kilni_table_insert(&table, &first);
    assert_null(kilni_table_find(&table, second.key));
    kilni_table_insert(&table, &second);
    assert_ptr_equal(kilni_table_find(&table, second.key), &second);
    kilni_table_remove(&table, &first);
    assert_ptr_equal(kilni_table_find(&table, second.key), &second);
    assert_null(kilni_table_find(&table, first.key));
    kilni_table_remove(&table, &second);
    assert_null(kilni_table_find(&table, second.key));
    kiln_key_release(&first.key);
    kiln_key_release(&second.key);
    kilni_table_fini(&table);
}

/* Returns the length of the longest run of cells that a search must pass. */
static size_t longest_run(kilni_table *table)
{
    const kilni_cells *cells = atomic_load(&table->cells);
    size_t longest = 0, run = 0;
    for (size_t i = 0; i <= cells->mask; i++) {
        run = atomic_load(&cells->cells[i]) != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void test_keys_of_one_digest_are_spread(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    static kilni_slot slots[SLOT_COUNT];
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        kiln_key *key = make_colliding_key(i);
        kilni_slot_init(&slots[i], key, KILNI_SLOT_READY);
        assert_memory_equal(&key->digest, &slots[0].key->digest, sizeof key->digest);
        assert_true(i == 0 || !kiln_key_equals(key, slots[0].key));
        kiln_key_release(&key);
        reserve(&table, i + 1);
        kilni_table_insert(&table, &slots[i]);
    }
    /* In a table that is a third full, a run of 64 is less likely than one in a billion. */
    assert_in_range(longest_run(&table), 1, 64);
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        assert_ptr_equal(kilni_table_find(&table, slots[i].key), &slots[i]);
        kilni_table_remove(&table, &slots[i]);
        kiln_key_release(&slots[i].key);
    }
    kilni_table_fini(&table);
}

static void test_a_walk_sees_each_slot_once(void **state)
{
    (void)state;
    kilni_table table;
    static kilni_slot slots[SLOT_COUNT];
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    size_t position = 0;
    assert_null(kilni_table_walk(&table, &position));
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        init_slot(&slots[i], i);
        reserve(&table, i + 1);
        kilni_table_insert(&table, &slots[i]);
    }
    assert_int_equal(table.slot_count, SLOT_COUNT);
    assert_true(cell_count(&table) > SLOT_COUNT);
    bool seen[SLOT_COUNT] = {false};
    position = 0;
    kilni_slot *slot;
    while ((slot = kilni_table_walk(&table, &position))) {
        assert_false(seen[slot - slots]);
        seen[slot - slots] = true;
        assert_ptr_equal(kilni_table_find(&table, slot->key), slot);
        kilni_table_remove(&table, slot);
        kiln_key_release(&slot->key);
    }
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(table.slot_count, 0);
    assert_int_equal(table.used_count, 0);
    kilni_table_fini(&table);
}

/* Adds and removes many keys in turn. One key is never removed, and must always be found. */
static void test_abandoned_cells_do_not_fill_a_table(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    kilni_slot staying, slot;
    size_t first_count = cell_count(&table);
    init_slot(&staying, 0);
    kilni_table_insert(&table, &staying);
    for (uint32_t i = 1; i < 20 * SLOT_COUNT; i++) {
        init_slot(&slot, i);
        reserve(&table, 2);
        kilni_table_insert(&table, &slot);
        assert_ptr_equal(kilni_table_find(&table, slot.key), &slot);
        assert_ptr_equal(kilni_table_find(&table, staying.key), &staying);
        kilni_table_remove(&table, &slot);
        assert_null(kilni_table_find(&table, slot.key));
        kiln_key_release(&slot.key);
    }
    assert_int_equal(cell_count(&table), first_count);
    kilni_table_remove(&table, &staying);
    kiln_key_release(&staying.key);
    kilni_table_fini(&table);
}

static void test_a_table_shrinks_when_it_is_used_again(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    size_t first_count = cell_count(&table);
    reserve(&table, 10000);
    assert_true(cell_count(&table) >= 10000);
    for (int i = 0; i < 100; i++) {
        reserve(&table, 10);
    }
    assert_int_equal(cell_count(&table), first_count);
    kilni_table_fini(&table);
}

/* ---- growing and shrinking in steps ---- */

enum { MANY = 50000 };

static kilni_slot *many_slots(void)
{
    kilni_slot *slots = calloc(MANY, sizeof *slots);
    for (uint32_t i = 0; i < MANY; i++) {
        init_slot(&slots[i], i);
    }
    return slots;
}

static void free_slots(kilni_slot *slots)
{
    for (uint32_t i = 0; i < MANY; i++) {
        kiln_key_release(&slots[i].key);
    }
    free(slots);
}

static bool is_copying(kilni_table *table)
{
    return atomic_load(&atomic_load(&table->cells)->former) != NULL;
}

/* Reserves room for a key, and checks that this copied or cleared no more cells than one step
 * may. */
static void reserve_one_step(kilni_table *table, size_t count)
{
    const kilni_cells *next = table->next, *cells = atomic_load(&table->cells);
    const kilni_cells *former = atomic_load(&cells->former);
    const size_t cleared = next ? next->done : 0, seen = former ? former->done : 0;
    const size_t used = table->used_count;
    kilni_cells *replaced;
    assert_int_equal(kilni_table_reserve(table, count, &replaced), KILN_OK);
    if (table->next) {
        assert_in_range(table->next->done - cleared, 1, KILNI_CELLS_CLEARED);
    }
    if (former) {
        assert_in_range(former->done - seen, 1, KILNI_CELLS_SEEN);
        assert_in_range(table->used_count - used, 0, KILNI_CELLS_COPIED);
        assert_ptr_equal(atomic_load(&table->cells), cells);
        assert_true(replaced == NULL || replaced == former);
    } else {
        assert_null(replaced);
    }
    free(replaced);
}

static void check_range(kilni_table *table, const kilni_slot *slots, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < MANY; i++) {
        const kilni_slot *found = kilni_table_find(table, slots[i].key);
        assert_ptr_equal(found, i >= first && i < end ? &slots[i] : NULL);
    }
    size_t position = 0, walked = 0;
    const kilni_slot *slot;
    while ((slot = kilni_table_walk(table, &position))) {
        assert_in_range(slot - slots, first, end - 1);
        walked++;
    }
    assert_int_equal(walked, end - first);
    assert_int_equal(table->slot_count, end - first);
}

/* Slots are removed from the front while the table grows: some before they are copied, and some
 * after. */
static void test_a_table_grows_in_steps(void **state)
{
    (void)state;
    kilni_slot *slots = many_slots();
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    uint32_t removed = 0;
    size_t copying = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        reserve_one_step(&table, table.slot_count + 1);
        kilni_table_insert(&table, &slots[i]);
        assert_ptr_equal(kilni_table_find(&table, slots[i].key), &slots[i]);
        if (!is_copying(&table)) {
            continue;
        }
        kilni_table_remove(&table, &slots[removed]);
        assert_null(kilni_table_find(&table, slots[removed].key));
        removed++;
        if (++copying % 64 == 0) {
            check_range(&table, slots, removed, i + 1);
        }
    }
    assert_true(copying > MANY / 1000);
    assert_true(cell_count(&table) >= MANY);
    /* The table shrinks in equally small steps. */
    while (removed < MANY - 10) {
        kilni_table_remove(&table, &slots[removed++]);
    }
    for (int i = 0; i < 1000; i++) {
        reserve_one_step(&table, table.slot_count + 1);
        if (i % 8 == 0) {
            check_range(&table, slots, MANY - 10, MANY);
        }
    }
    assert_int_equal(cell_count(&table), 64);
    while (removed < MANY) {
        kilni_table_remove(&table, &slots[removed++]);
    }
    kilni_table_fini(&table);
    free_slots(slots);
}

typedef struct search {
    kilni_table table;
    kilni_slot *slots;
    atomic_bool over;
    atomic_size_t missed, searched;
} search;

enum { STAYING = 100 };

static void *search_for_staying(void *argument)
{
    search *s = argument;
    uint32_t i = 0;
    while (!atomic_load(&s->over)) {
        i = (i + 1) % STAYING;
        if (kilni_table_find(&s->table, s->slots[i].key) != &s->slots[i]) {
            atomic_fetch_add(&s->missed, 1);
        }
        atomic_fetch_add(&s->searched, 1);
    }
    return NULL;
}

/* Reserves room, and keeps cells that were replaced until the searches are over. */
static void reserve_and_keep(search *s, kilni_cells **kept)
{
    kilni_cells *replaced;
    assert_int_equal(kilni_table_reserve(&s->table, s->table.slot_count + 1, &replaced), KILN_OK);
    if (replaced) {
        replaced->next = *kept;
        *kept = replaced;
    }
}

static void test_what_stays_is_found_while_a_table_grows_and_shrinks(void **state)
{
    (void)state;
    enum { ROUNDS = 4, SEARCHERS = 2 };
    search s = {.slots = many_slots()};
    kilni_cells *kept = NULL;
    assert_int_equal(kilni_table_init(&s.table, 64), KILN_OK);
    for (uint32_t i = 0; i < STAYING; i++) {
        reserve_and_keep(&s, &kept);
        kilni_table_insert(&s.table, &s.slots[i]);
    }
    pthread_t threads[SEARCHERS];
    for (int i = 0; i < SEARCHERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, search_for_staying, &s), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = STAYING; i < MANY; i++) {
            reserve_and_keep(&s, &kept);
            kilni_table_insert(&s.table, &s.slots[i]);
        }
        for (uint32_t i = STAYING; i < MANY; i++) {
            kilni_table_remove(&s.table, &s.slots[i]);
        }
        while (cell_count(&s.table) > 512) {
            reserve_and_keep(&s, &kept);
        }
    }
    atomic_store(&s.over, true);
    for (int i = 0; i < SEARCHERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(atomic_load(&s.searched) > 0);
    assert_int_equal(atomic_load(&s.missed), 0);
    for (uint32_t i = 0; i < STAYING; i++) {
        kilni_table_remove(&s.table, &s.slots[i]);
    }
    while (kept) {
        kilni_cells *next = kept->next;
        free(kept);
        kept = next;
    }
    kilni_table_fini(&s.table);
    free_slots(s.slots);
}

/* A table that can't get new cells continues with the old ones, up to the last one. */
static void test_a_table_can_be_full(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table, 64), KILN_OK);
    size_t count = cell_count(&table) - 1;
    kilni_slot *slots = calloc(count, sizeof *slots);
    kilni_slot absent;
    kilni_cells *replaced;
    init_slot(&absent, 1000);
    for (uint32_t i = 0; i < count; i++) {
        init_slot(&slots[i], i);
        failing_malloc_arm(1);
        assert_int_equal(kilni_table_reserve(&table, i + 1, &replaced), KILN_OK);
        failing_malloc_disarm();
        assert_null(replaced);
        kilni_table_insert(&table, &slots[i]);
    }
    failing_malloc_arm(1);
    assert_int_equal(kilni_table_reserve(&table, count + 1, &replaced), KILN_E_NO_MEMORY);
    failing_malloc_disarm();
    assert_null(kilni_table_find(&table, absent.key));
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(kilni_table_find(&table, slots[i].key), &slots[i]);
        kilni_table_remove(&table, &slots[i]);
        kiln_key_release(&slots[i].key);
    }
    kiln_key_release(&absent.key);
    kilni_table_fini(&table);
    free(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_digests_do_not_make_equal_keys),
        cmocka_unit_test(test_keys_of_one_digest_are_spread),
        cmocka_unit_test(test_a_walk_sees_each_slot_once),
        cmocka_unit_test(test_abandoned_cells_do_not_fill_a_table),
        cmocka_unit_test(test_a_table_shrinks_when_it_is_used_again),
        cmocka_unit_test(test_a_table_grows_in_steps),
        cmocka_unit_test(test_what_stays_is_found_while_a_table_grows_and_shrinks),
        cmocka_unit_test(test_a_table_can_be_full),
    };
    return cmocka_run_group_tests_name("memory table", tests, NULL, NULL);
}
