/* SPDX-License-Identifier: Apache-2.0
 *
 * Exit and fork of a process that has constants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/constant.h>

#include "support/child.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"

static backend b;
static kiln_constant_cache *cache;
static kiln_key *key;
static kiln_pin *pin;
static atomic_int over; /* the runtime that owns the memory has ended */

/* The exit handler of the runtime that owns the memory. It is registered last, so it is called
 * before every handler of Kiln. */
static void end_of_the_runtime(void)
{
    atomic_store(&over, 1);
}

static void free_in_time(void *data, void *engine, void *allocator)
{
    CHECK(!atomic_load(&over));
    backend_free(data, engine, allocator);
}

static void begin(void)
{
    backend_init(&b);
    b.memory.free = free_in_time;
    kiln_constant_key_params parts = {.struct_size = sizeof parts, .key = "k", .key_size = 1};
    CHECK(kiln_constant_cache_of(KILN_ENGINE_CPU, 0, &cache) == KILN_OK);
    CHECK(kiln_constant_key_new(&parts, &key) == KILN_OK);
}

static void fill(void)
{
    kiln_reservation answer;
    kiln_constant_buffer *buffer;
    CHECK(kiln_constant_get_or_add(cache, key, 10, NULL, &answer, NULL) == KILN_OK);
    CHECK(answer.outcome == KILN_OWNER);
    CHECK(kiln_constant_buffer_new(&b.memory, 10, NULL, &buffer) == KILN_OK);
    CHECK(kiln_constant_fulfil(&answer.ticket, &buffer, 1, &pin) == KILN_OK);
}

static void exit_with_a_pin(void)
{
    begin();
    fill();
    atexit(end_of_the_runtime);
}

static void release_pin(void)
{
    CHECK(kiln_constant_get_size(cache) == 10);
    kiln_pin_release(&pin);
}

static void exit_handler_releases_a_pin(void)
{
    begin();
    fill();
    atexit(release_pin);
    atexit(end_of_the_runtime);
}

static void release_the_last_pin(void)
{
    CHECK(kiln_constant_get_size(cache) == 0);
    CHECK(atomic_load(&b.frees) == 0);
    kiln_pin_release(&pin);
    CHECK(atomic_load(&b.frees) == 1);
}

static void exit_handler_releases_the_last_pin(void)
{
    atexit(end_of_the_runtime);
    begin();
    fill();
    CHECK(kiln_constant_remove_if_exist(cache, key) == KILN_OK);
    atexit(release_the_last_pin);
    kiln_key_release(&key);
}

static void exit_without_a_pin(void)
{
    begin();
    fill();
    kiln_pin_release(&pin);
    kiln_key_release(&key);
    atexit(end_of_the_runtime);
}

static void *use(void *argument)
{
    (void)argument;
    for (;;) {
        kiln_reservation answer;
        CHECK(kiln_constant_get_or_add(cache, key, 10, NULL, &answer, NULL) == KILN_OK);
        CHECK(answer.outcome == KILN_HIT);
        kiln_pin_release(&answer.pin);
    }
    return NULL;
}

static void exit_beside_a_thread(void)
{
    begin();
    fill();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
    pthread_detach(thread);
    atexit(end_of_the_runtime);
}

static void exit_with_an_open_ticket(void)
{
    begin();
    /* Static, so that leak checkers find the ticket reachable. */
    static kiln_reservation answer;
    CHECK(kiln_constant_get_or_add(cache, key, 10, NULL, &answer, NULL) == KILN_OK);
    CHECK(answer.outcome == KILN_OWNER);
    atexit(end_of_the_runtime);
}

static void flush_before_exit(void)
{
    atexit(end_of_the_runtime);
    begin();
    fill();
    kiln_pin_release(&pin);
    CHECK(kiln_constant_set_enabled(0) == KILN_OK);
    CHECK(atomic_load(&b.frees) == 1);
    kiln_key_release(&key);
}

static void test_exit_does_not_free_constants(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(exit_with_a_pin), 0);
    assert_int_equal(run_in_child(exit_without_a_pin), 0);
    assert_int_equal(run_in_child(exit_handler_releases_a_pin), 0);
    assert_int_equal(run_in_child(exit_beside_a_thread), 0);
    assert_int_equal(run_in_child(exit_with_an_open_ticket), 0);
}

static void test_the_last_pin_frees_in_exit_handlers_too(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(exit_handler_releases_the_last_pin), 0);
}

static void test_a_flush_before_exit_frees(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(flush_before_exit), 0);
}

/* ---- forks ---- */

static atomic_int stop;

static void *set(void *argument)
{
    (void)argument;
    for (uint64_t i = 1; !atomic_load(&stop); i++) {
        CHECK(constant_set_kind(KILN_ENGINE_GPU, i, KILN_POLICY_UNCHANGED) == KILN_OK);
    }
    return NULL;
}

static void use_in_child(void)
{
    CHECK(constant_set_kind(KILN_ENGINE_GPU, 3, KILN_POLICY_LRU) == KILN_OK);
    uint64_t capacity = 0;
    CHECK(constant_get_kind(KILN_ENGINE_GPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 3);
    _exit(0);
}

static void fork_beside_setters(void)
{
    begin();
    kiln_constant_cache *other;
    CHECK(kiln_constant_cache_of(KILN_ENGINE_GPU, 0, &other) == KILN_OK);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, set, NULL) == 0);
    }
    for (int i = 0; i < 50; i++) {
        CHECK(run_in_child(use_in_child) == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    kiln_key_release(&key);
}

static void test_a_child_can_continue(void **state)
{
    (void)state;
    SKIP_FORKS_BESIDE_ALLOCATIONS();
    assert_int_equal(run_in_child(fork_beside_setters), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_does_not_free_constants),
        cmocka_unit_test(test_the_last_pin_frees_in_exit_handlers_too),
        cmocka_unit_test(test_a_flush_before_exit_frees),
        cmocka_unit_test(test_a_child_can_continue),
    };
    return cmocka_run_group_tests_name("constant exit", tests, NULL, NULL);
}
