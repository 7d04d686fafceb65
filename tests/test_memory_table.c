/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of keys, from inside: what can't be brought about by public calls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "memory/table.h"
#include "support/memory_objects.h"

enum { SLOT_COUNT = 500 };

static kilni_slot slot_of(uint32_t number)
{
    kilni_slot slot;
    kiln_key *key = make_key(number);
    kilni_slot_init(&slot, key, 0, KILNI_SLOT_READY);
    kiln_key_release(&key);
    return slot;
}

static void test_equal_digests_do_not_make_equal_keys(void **state)
{
    (void)state;
    kilni_table table;
    assert_int_equal(kilni_table_init(&table), KILN_OK);
    kilni_slot first = slot_of(1);
    kilni_slot second = slot_of(2);
    first.hash = second.hash;
    kilni_table_insert(&table, &first);
    assert_null(kilni_table_find(&table, second.key));
    kilni_table_insert(&table, &second);
    assert_ptr_equal(kilni_table_find(&table, second.key), &second);
    kilni_table_remove(&table, &second);
    assert_null(kilni_table_find(&table, second.key));
    kilni_table_remove(&table, &first);
    kiln_key_release(&first.key);
    kiln_key_release(&second.key);
    kilni_table_fini(&table);
}

static void test_a_walk_sees_each_slot_once(void **state)
{
    (void)state;
    kilni_table table;
    static kilni_slot slots[SLOT_COUNT];
    assert_int_equal(kilni_table_init(&table), KILN_OK);
    assert_null(kilni_table_next(&table, NULL));
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        slots[i] = slot_of(i);
        kilni_table_insert(&table, &slots[i]);
    }
    assert_int_equal(table.slot_count, SLOT_COUNT);
    assert_true(table.bucket_count >= SLOT_COUNT);
    bool seen[SLOT_COUNT] = {false};
    kilni_slot *slot = kilni_table_next(&table, NULL);
    while (slot) {
        kilni_slot *next = kilni_table_next(&table, slot);
        assert_false(seen[slot - slots]);
        seen[slot - slots] = true;
        assert_ptr_equal(kilni_table_find(&table, slot->key), slot);
        kilni_table_remove(&table, slot);
        kiln_key_release(&slot->key);
        slot = next;
    }
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        assert_true(seen[i]);
    }
    assert_int_equal(table.slot_count, 0);
    kilni_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_digests_do_not_make_equal_keys),
        cmocka_unit_test(test_a_walk_sees_each_slot_once),
    };
    return cmocka_run_group_tests_name("memory table", tests, NULL, NULL);
}
