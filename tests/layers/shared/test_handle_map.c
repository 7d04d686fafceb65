/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the map with a plain array of the same pairs. The map's source is included, so that the
 * test can choose handles that collide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "../../../layers/shared/handle_map.c"
#include "support/failing_malloc.h"

/* ---- the model ---- */

#define MODEL_ROOM 600

typedef struct model {
    const void *handles[MODEL_ROOM];
    void *values[MODEL_ROOM];
    size_t count;
} model;

static void *model_get(const model *m, const void *handle)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->handles[i] == handle) {
            return m->values[i];
        }
    }
    return NULL;
}

static void model_put(model *m, const void *handle, void *value)
{
    assert_true(m->count < MODEL_ROOM);
    m->handles[m->count] = handle;
    m->values[m->count++] = value;
}

static void model_remove(model *m, const void *handle)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->handles[i] == handle) {
            m->count--;
            m->handles[i] = m->handles[m->count];
            m->values[i] = m->values[m->count];
            return;
        }
    }
}

typedef struct visit_count {
    const model *expected;
    size_t visits;
    bool seen[MODEL_ROOM];
    bool is_wrong;
} visit_count;

static void visit(void *user, void *value)
{
    visit_count *count = user;
    count->visits++;
    for (size_t i = 0; i < count->expected->count; i++) {
        if (count->expected->values[i] == value) {
            count->is_wrong |= count->seen[i];
            count->seen[i] = true;
            return;
        }
    }
    count->is_wrong = true;
}

static void assert_same(const handle_map *map, const model *expected)
{
    assert_int_equal(map->count, expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        assert_ptr_equal(handle_map_get(map, expected->handles[i]), expected->values[i]);
    }
    visit_count count = {.expected = expected};
    handle_map_each(map, visit, &count);
    assert_int_equal(count.visits, expected->count);
    assert_false(count.is_wrong);
}

/* ---- handles ---- */

/* Returns the n-th of some handles that look like addresses from an allocator. */
static const void *plain_handle(size_t number)
{
    return (const void *)(uintptr_t)(0x7f0000001000 + 64 * number);
}

/* Returns the n-th handle whose hash selects the given slot in a map of this capacity, and so in
 * all smaller maps. */
static const void *colliding_handle(size_t capacity, size_t place, size_t number)
{
    const handle_map shape = {.capacity = capacity};
    uintptr_t candidate = 0x10000;
    for (;; candidate += 16) {
        if (home_of(&shape, (const void *)candidate) == place && number-- == 0) {
            return (const void *)candidate;
        }
    }
}

static void *value_of(size_t number)
{
    return (void *)(uintptr_t)(number + 1);
}

/* Returns the same numbers on every machine. */
static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- tests ---- */

static void test_empty(void **state)
{
    (void)state;
    handle_map map = {0};
    const model nothing = {0};
    assert_null(handle_map_get(&map, plain_handle(1)));
    handle_map_remove(&map, plain_handle(1));
    assert_same(&map, &nothing);
    assert_int_equal(handle_map_put(&map, plain_handle(1), value_of(1)), KILN_OK);
    handle_map_remove(&map, plain_handle(2));
    handle_map_remove(&map, plain_handle(1));
    handle_map_remove(&map, plain_handle(1));
    assert_null(handle_map_get(&map, plain_handle(1)));
    assert_same(&map, &nothing);
    free(map.slots);
}

static void test_grows(void **state)
{
    (void)state;
    handle_map map = {0};
    static model expected;
    expected.count = 0;
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal(handle_map_put(&map, plain_handle(i), value_of(i)), KILN_OK);
        model_put(&expected, plain_handle(i), value_of(i));
        assert_null(handle_map_get(&map, plain_handle(i + 1)));
    }
    assert_same(&map, &expected);
    free(map.slots);
}

/* Handles with the same slot form a run that wraps around the end of the table and displaces other
 * handles. Whichever handle is removed, the map must still find all others. */
static void test_removal_from_a_run(void **state)
{
    (void)state;
    enum { RUN = 20, CAPACITY = FIRST_CAPACITY };
    const void *handles[RUN];
    for (size_t i = 0; i < RUN; i++) {
        const size_t home = i % 3 == 2 ? i / 3 : CAPACITY - 5;
        handles[i] = colliding_handle(CAPACITY, home, i);
    }
    for (size_t first = 0; first < RUN; first++) {
        handle_map map = {0};
        model expected = {.count = 0};
        for (size_t i = 0; i < RUN; i++) {
            assert_int_equal(handle_map_put(&map, handles[i], value_of(i)), KILN_OK);
            model_put(&expected, handles[i], value_of(i));
        }
        assert_int_equal(map.capacity, CAPACITY);
        for (size_t i = 0; i < RUN; i++) {
            const void *removed = handles[(first + 7 * i) % RUN];
            handle_map_remove(&map, removed);
            model_remove(&expected, removed);
            assert_null(handle_map_get(&map, removed));
            assert_same(&map, &expected);
        }
        free(map.slots);
    }
}

/* Puts and removes at random, among few handles, so that most of them are put and removed often. */
static void check_at_random(const void *const *handles, size_t handle_count, uint32_t seed)
{
    handle_map map = {0};
    static model expected;
    expected.count = 0;
    for (size_t step = 0; step < 20000; step++) {
        const void *handle = handles[next_random(&seed) % handle_count];
        if (model_get(&expected, handle)) {
            handle_map_remove(&map, handle);
            model_remove(&expected, handle);
        } else if (next_random(&seed) % 4 != 0) {
            assert_int_equal(handle_map_put(&map, handle, value_of(step)), KILN_OK);
            model_put(&expected, handle, value_of(step));
        }
        assert_ptr_equal(handle_map_get(&map, handle), model_get(&expected, handle));
        if (step % 500 == 0) {
            assert_same(&map, &expected);
        }
    }
    assert_same(&map, &expected);
    free(map.slots);
}

static void test_at_random(void **state)
{
    (void)state;
    const void *handles[MODEL_ROOM];
    for (size_t i = 0; i < MODEL_ROOM; i++) {
        handles[i] = plain_handle(i);
    }
    check_at_random(handles, 20, 1);
    check_at_random(handles, MODEL_ROOM, 2);
}

static void test_at_random_with_collisions(void **state)
{
    (void)state;
    enum { HOMES = 4, EACH = 12 };
    static const size_t homes[HOMES] = {0, 1, 62, 63};
    const void *handles[HOMES * EACH];
    for (size_t i = 0; i < HOMES * EACH; i++) {
        handles[i] = colliding_handle(FIRST_CAPACITY, homes[i % HOMES], i / HOMES);
    }
    check_at_random(handles, HOMES * EACH, 3);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    handle_map map = {0};
    static model expected;
    expected.count = 0;
    size_t refusals = 0;
    for (size_t i = 0; i < 200; i++) {
        failing_malloc_arm(1);
        const kiln_status status = handle_map_put(&map, plain_handle(i), value_of(i));
        failing_malloc_disarm();
        if (status != KILN_OK) {
            assert_int_equal(status, KILN_E_NO_MEMORY);
            assert_same(&map, &expected);
            assert_null(handle_map_get(&map, plain_handle(i)));
            assert_int_equal(handle_map_put(&map, plain_handle(i), value_of(i)), KILN_OK);
            refusals++;
        }
        model_put(&expected, plain_handle(i), value_of(i));
    }
    assert_true(refusals > 1);
    assert_same(&map, &expected);
    free(map.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_removal_from_a_run),
        cmocka_unit_test(test_at_random),
        cmocka_unit_test(test_at_random_with_collisions),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
