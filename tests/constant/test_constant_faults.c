/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of the constant tensor cache that oneDNN shipped. For each of them a test shows that
 * Kiln's cache does not have it. In the comments, "there" means in oneDNN's cache.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include <kiln/constant.h>

#include "face/onednn/constant_environment.h"
#include "key/encoding.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"

static backend b;

static int set_up(void **state)
{
    (void)state;
    backend_init(&b);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(backend_live(&b), 0);
    return 0;
}

/* ---- keys ---- */

/* There: 60 bits of the backend's hash and 4 of its number are the key, and keys are not compared.
 */
static void test_keys_that_collide_are_two_constants(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *keys[] = {key_with(1, 0, "w", 1), key_with(1, 16, "w", 1)};
    keys[1]->digest = keys[0]->digest;
    put(&b, cache, keys[0], 10, 1);
    assert_int_equal(outcome_of(cache, keys[1], 10), KILN_OWNER);
    put(&b, cache, keys[1], 10, 1);
    assert_int_equal(stats_of(cache).entries, 2);
    kiln_reservation hits[] = {ask_as(cache, keys[0], 10, 0), ask_as(cache, keys[1], 10, 0)};
    assert_ptr_not_equal(hits[0].pin, hits[1].pin);
    for (int i = 0; i < 2; i++) {
        kiln_pin_release(&hits[i].pin);
        kiln_key_release(&keys[i]);
    }
}

/* There: only the address of their weights distinguishes constants. */
static void test_new_weights_at_an_old_address_are_computed_anew(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *before = key_with(1, 1, "0x7f0012345678", kiln_constant_unique_number());
    kiln_key *after = key_with(1, 1, "0x7f0012345678", kiln_constant_unique_number());
    put(&b, cache, before, 10, 1);
    assert_int_equal(outcome_of(cache, after, 10), KILN_OWNER);
    kiln_key_release(&before);
    kiln_key_release(&after);
}

/* There: contexts are distinguished by handles, which are reused. */
static void test_a_new_context_at_an_old_address_gets_nothing_of_the_old(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_with(0x7f00, 1, "w", 1);
    put(&b, cache, key, 10, 1);
    assert_int_equal(kiln_constant_remove_context(0x7f00), 1);
    assert_int_equal(outcome_of(cache, key, 10), KILN_OWNER);
    kiln_key_release(&key);
}

/* ---- answers ---- */

/* There: an accepted promise and a full cache cause the same answer. */
static void test_owner_and_bypass_are_distinguished(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_key *keys[] = {key_of("a"), key_of("b")};
    assert_int_equal(outcome_of(cache, keys[0], MIB), KILN_OWNER);
    put(&b, cache, keys[0], MIB, 1);
    /* There: no counter shows how often a full cache makes callers compute again. */
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(outcome_of(cache, keys[1], 1), KILN_BYPASS);
        assert_int_equal(stats_of(cache).bypasses, i);
    }
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

/* There: the sum of sizes may overflow. */
static void test_no_size_is_too_large_to_be_refused(void **state)
{
    (void)state;
    const uint64_t capacities[] = {1, KILN_UNLIMITED};
    for (int i = 0; i < 2; i++) {
        kiln_constant_cache *cache = new_device_with(capacities[i], KILN_POLICY_NO_EVICT);
        kiln_key *keys[] = {key_of("a"), key_of("b"), key_of("c")};
        put(&b, cache, keys[0], 100, 1);
        assert_int_equal(outcome_of(cache, keys[1], SIZE_MAX), KILN_BYPASS);
        kiln_ticket *ticket = own(cache, keys[1], MIB - 100);
        assert_int_equal(outcome_of(cache, keys[2], SIZE_MAX - MIB + 1), KILN_BYPASS);
        kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
        for (int j = 0; j < 3; j++) {
            kiln_key_release(&keys[j]);
        }
    }
}

/* There: the announced size decides whether a constant fits, but the allocated size is counted. */
static void test_understated_size_does_not_exceed_the_budget(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_key *key = key_of("a");
    kiln_pin *pin = fulfil(&b, own(cache, key, 1), 2 * MIB, 1);
    assert_int_equal(kiln_constant_get_size(cache), 0);
    kiln_pin_release(&pin);
    kiln_key_release(&key);
}

/* ---- producers ---- */

/* There: get_size, and with it each insertion and each set, waits for all producers under the
 * cache's lock; hits stall, and a producer that uses the cache deadlocks. */
static void test_producer_delays_no_thread(void **state)
{
    (void)state;
    uint32_t index = new_index();
    kiln_constant_cache *cache = cache_at(KILN_ENGINE_GPU, index);
    kiln_key *keys[] = {key_of("a"), key_of("b"), key_of("c")};
    put(&b, cache, keys[0], 10, 1);
    kiln_ticket *ticket = own(cache, keys[1], 10);
    assert_int_equal(kiln_constant_get_size(cache), 10);
    assert_int_equal(outcome_of(cache, keys[0], 10), KILN_HIT);
    put(&b, cache, keys[2], 10, 1);
    assert_int_equal(kiln_constant_remove_if_exist(cache, keys[2]), KILN_OK);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 5, KILN_POLICY_UNCHANGED), KILN_OK);
    put(&b, cache, keys[0], 10, 1);
    kiln_pin *pin = fulfil(&b, ticket, 10, 1);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_constant_get_size(cache), 10);
    for (int i = 0; i < 3; i++) {
        kiln_key_release(&keys[i]);
    }
}

/* There: the broken promise of a producer that failed stays in the map for ever. */
static void test_a_failed_producer_leaves_nothing(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    kiln_ticket *ticket = own(cache, key, 10);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "no reorder");
    assert_int_equal(outcome_of(cache, key, 10), KILN_OWNER);
    assert_int_equal(stats_of(cache).failures, 1);
    put(&b, cache, key, 10, 1);
    assert_int_equal(outcome_of(cache, key, 10), KILN_HIT);
    kiln_key_release(&key);
}

static void *own_and_end(void *argument)
{
    asker *a = argument;
    return asker_ask(a);
}

static void test_a_producer_whose_thread_ended_is_replaced(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    asker a = {.cache = cache, .key = key, .size = 10};
    assert_int_equal(pthread_create(&a.thread, NULL, own_and_end, &a), 0);
    join_asker(&a);
    assert_int_equal(a.answer.outcome, KILN_OWNER);
    put(&b, cache, key, 10, 1);
    assert_int_equal(outcome_of(cache, key, 10), KILN_HIT);
    kiln_ticket_abandon(&a.answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    kiln_key_release(&key);
}

/* There: the result of an allocation is used without a check. */
static void test_failed_allocations_are_statuses(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    kiln_ticket *ticket = own(cache, key, 10);
    kiln_constant_buffer *buffer = NULL;
    atomic_store(&b.refused, 2);
    assert_int_equal(kiln_constant_buffer_new(&b.memory, 10, cache, &buffer), KILN_E_RESOURCES);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    put(&b, cache, key, 10, 1);
    kiln_key_release(&key);
}

/* There: a hit can't wait for commands that the producer enqueued, and memory is freed while they
 * run. */
static void wait_for_device(void *event)
{
    assert_int_equal(atomic_load(&b.frees), 0);
    atomic_store((atomic_int *)event, 1);
}

static void test_memory_still_written_is_waited_for(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    atomic_int done = 0;
    kiln_constant_fence fence = {
        .struct_size = sizeof fence, .event = &done, .wait = wait_for_device};
    kiln_ticket *ticket = own(cache, key, 10);
    kiln_constant_buffer *buffer = buffer_of(&b, 10);
    assert_int_equal(kiln_constant_buffer_set_fence(buffer, &fence), KILN_OK);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 1, NULL), KILN_OK);
    kiln_reservation hit = ask_as(cache, key, 10, 0);
    assert_ptr_equal(kiln_constant_buffer_event(kiln_constant_buffer_of(hit.pin)), &done);
    kiln_pin_release(&hit.pin);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(atomic_load(&done), 1);
    assert_int_equal(atomic_load(&b.frees), 1);
    kiln_key_release(&key);
}

/* ---- removal ---- */

/* There: holders of handles are notified of a removal, but not of a flush. */
static void test_flush_notifies_too(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *keys[] = {key_of("a"), key_of("b")};
    put(&b, cache, keys[0], 10, 1);
    put(&b, cache, keys[1], 10, 1);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(atomic_load(&b.evictions), 2);
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

/* There: nothing is removed when a compiled partition ends. */
static void test_constants_of_a_partition_are_removed_with_it(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    uint64_t partition = kiln_constant_unique_number();
    kiln_pin *pin = put_as(&b, cache, key, 10, 1, partition);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_constant_remove_owner(partition), 1);
    assert_int_equal(backend_live(&b), 0);
    kiln_key_release(&key);
}

/* There, in an earlier backend: a partition that ends removes its constant even if another
 * partition has replaced it meanwhile. */
static void test_context_end_removes_no_constants_of_later_contexts(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    uint64_t partitions[] = {kiln_constant_unique_number(), kiln_constant_unique_number()};
    for (int i = 0; i < 2; i++) {
        kiln_constant_remove_if_exist(cache, key);
        kiln_pin *pin = put_as(&b, cache, key, 10, 1, partitions[i]);
        kiln_pin_release(&pin);
    }
    assert_int_equal(kiln_constant_remove_owner(partitions[0]), 0);
    assert_int_equal(outcome_of(cache, key, 10), KILN_HIT);
    kiln_key_release(&key);
}

/* There: a partition that was compiled while the cache was on computes wrong results once it is
 * off. Here each answer says what the caller must do. */
static void test_switching_between_uses_is_safe(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    kiln_key *key = key_of("a");
    put(&b, cache, key, 10, 1);
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(outcome_of(cache, key, 10), KILN_BYPASS);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    put(&b, cache, key, 10, 1);
    assert_int_equal(outcome_of(cache, key, 10), KILN_HIT);
    kiln_key_release(&key);
}

/* ---- users' calls ---- */

/* There: an unknown kind ends the process or counts as the GPU, and NULL is dereferenced. */
static void test_wrong_arguments_are_statuses(void **state)
{
    (void)state;
    assert_int_equal(constant_set_kind(7, 1, KILN_POLICY_UNCHANGED), KILN_E_INVALID);
    assert_int_equal(constant_get_kind(7, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_constant_get_enabled(NULL), KILN_E_INVALID);
    kiln_constant_cache *cache;
    assert_int_equal(kiln_constant_cache_of(7, 0, &cache), KILN_E_INVALID);
    /* There: an index that no device has ends the process, too. */
    assert_int_equal(kiln_constant_cache_of(KILN_ENGINE_GPU, 4000000000u, &cache), KILN_OK);
}

/* There: no limit is read back as a different number. */
static void test_settings_are_read_back(void **state)
{
    (void)state;
    const uint64_t capacities[] = {
        0, 1, 1024, UINT64_MAX >> 20, (UINT64_MAX >> 20) + 1, UINT64_MAX - 1, KILN_UNLIMITED};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        uint64_t capacity;
        assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, capacities[i], KILN_POLICY_UNCHANGED),
                         KILN_OK);
        assert_int_equal(constant_get_kind(KILN_ENGINE_CPU, &capacity, NULL), KILN_OK);
        assert_int_equal(capacity, capacities[i]);
        uint64_t bytes = capacities[i] > UINT64_MAX >> 20 ? KILN_UNLIMITED : capacities[i] << 20;
        assert_int_equal(stats_of(cache_at(KILN_ENGINE_CPU, 0)).max_bytes, bytes);
    }
}

/* There: unknown kinds count as the GPU, junk after a number is accepted, a negative number means
 * no limit, and values longer than 127 characters are not read at all. */
static void test_the_variable_is_read_strictly(void **state)
{
    (void)state;
    static kilni_constant_warnings warnings;
    kilni_constant_limits kinds[KILNI_CONSTANT_KINDS] = {{1, 0}, {2, 0}};
    char value[256];
    snprintf(value, sizeof value, "tpu:5;gpu:10abc;gpu:-1;%150s", "cpu:9;");
    for (char *space = value; (space = strchr(space, ' '));) {
        *space = ';';
    }
    kilni_constant_environment_read(value, kinds, &warnings);
    assert_int_equal(warnings.count, 3);
    assert_int_equal(kinds[0].capacity_mib, 9);
    assert_int_equal(kinds[1].capacity_mib, 2);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_keys_that_collide_are_two_constants),
        IN_SCENE(test_new_weights_at_an_old_address_are_computed_anew),
        IN_SCENE(test_a_new_context_at_an_old_address_gets_nothing_of_the_old),
        IN_SCENE(test_owner_and_bypass_are_distinguished),
        IN_SCENE(test_no_size_is_too_large_to_be_refused),
        IN_SCENE(test_understated_size_does_not_exceed_the_budget),
        IN_SCENE(test_producer_delays_no_thread),
        IN_SCENE(test_a_failed_producer_leaves_nothing),
        IN_SCENE(test_a_producer_whose_thread_ended_is_replaced),
        IN_SCENE(test_failed_allocations_are_statuses),
        IN_SCENE(test_memory_still_written_is_waited_for),
        IN_SCENE(test_flush_notifies_too),
        IN_SCENE(test_constants_of_a_partition_are_removed_with_it),
        IN_SCENE(test_context_end_removes_no_constants_of_later_contexts),
        IN_SCENE(test_switching_between_uses_is_safe),
        IN_SCENE(test_wrong_arguments_are_statuses),
        IN_SCENE(test_settings_are_read_back),
        IN_SCENE(test_the_variable_is_read_strictly),
    };
    return cmocka_run_group_tests_name("constant faults", tests, NULL, NULL);
}
