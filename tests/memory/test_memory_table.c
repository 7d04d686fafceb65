/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of keys, from inside: states that public calls can't produce.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "memory/table.h"
#include "support/failing_malloc.h"
#include "support/memory_objects.h"

enum { SLOT_COUNT = 500 };

static void init_slot(kilni_slot *slot, uint32_t number)
{
    kiln_key *key = make_key(number);
    kilni_slot_init(slot, key, 0, KILNI_SLOT_READY);
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

/* One key after the other, and one that stays and must always be found. */
static void test_cells_that_were_left_do_not_fill_a_table(void **state)
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
    reserve(&table, 10);
    assert_int_equal(cell_count(&table), first_count);
    kilni_table_fini(&table);
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
        cmocka_unit_test(test_a_walk_sees_each_slot_once),
        cmocka_unit_test(test_cells_that_were_left_do_not_fill_a_table),
        cmocka_unit_test(test_a_table_shrinks_when_it_is_used_again),
        cmocka_unit_test(test_a_table_can_be_full),
    };
    return cmocka_run_group_tests_name("memory table", tests, NULL, NULL);
}
