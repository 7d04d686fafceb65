/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the documents' statements about constant tensors, for users and backends. Then come the
 * cases of the tests of the cache that oneDNN shipped, and cases that those tests lack.
 * docs/seeds.md lists the statements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/constant.h>
#include <kiln/constant_backend.h>

#include "face/onednn/constant_environment.h"
#include "support/child.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"

enum { DNNL_BACKEND = 1, OTHER_BACKEND = 2 };

static backend b;

static int set_up(void **state)
{
    (void)state;
    backend_init(&b);
    return 0;
}

/* Restores the defaults, and removes everything that a test cached. */
static int tear_down(void **state)
{
    (void)state;
    const uint32_t kinds[] = {KILN_ENGINE_CPU, KILN_ENGINE_GPU};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(constant_set_kind(kinds[i], KILN_UNLIMITED, KILN_POLICY_NO_EVICT),
                         KILN_OK);
    }
    assert_int_equal(backend_live(&b), 0);
    return 0;
}

static void set(uint32_t kind, uint64_t capacity_mib)
{
    assert_int_equal(constant_set_kind(kind, capacity_mib, KILN_POLICY_UNCHANGED), KILN_OK);
}

static uint64_t capacity_of(uint32_t kind)
{
    uint64_t capacity = 0;
    assert_int_equal(constant_get_kind(kind, &capacity, NULL), KILN_OK);
    return capacity;
}

static uint32_t policy_of(uint32_t kind)
{
    uint32_t policy = UINT32_MAX;
    assert_int_equal(constant_get_kind(kind, NULL, &policy), KILN_OK);
    return policy;
}

static int flag(void)
{
    int found = -1;
    assert_int_equal(kiln_constant_get_enabled(&found), KILN_OK);
    return found;
}

/* ---- a compiled partition ---- */

/* A partition's weights, and the context and device that it was compiled for. */
typedef struct partition {
    kiln_constant_cache *cache;
    kiln_key *key;
    uint64_t number;
    size_t size;
    int computations;
} partition;

static partition compile_for(kiln_constant_cache *cache, uint64_t context, const char *weights,
                             size_t size)
{
    return (partition){.cache = cache,
                       .key = key_with(context, DNNL_BACKEND, weights, 1),
                       .number = kiln_constant_unique_number(),
                       .size = size};
}

static partition compile(kiln_constant_cache *cache, const char *weights, size_t size)
{
    return compile_for(cache, 1, weights, size);
}

/* Finds the processed weights, or computes them. If the cache can't take them, they belong to the
 * partition. Returns whether they were found. */
static bool execute(partition *p)
{
    kiln_reservation answer = ask_as(p->cache, p->key, p->size, p->number);
    kiln_constant_buffer *own = NULL;
    if (answer.outcome == KILN_OWNER) {
        p->computations++;
        answer.pin = fulfil(&b, answer.ticket, p->size, 1000);
    } else if (answer.outcome == KILN_BYPASS) {
        p->computations++;
        own = buffer_of(&b, p->size);
    }
    const kiln_constant_buffer *used = own ? own : kiln_constant_buffer_of(answer.pin);
    assert_non_null(kiln_constant_buffer_data(used));
    assert_int_equal(kiln_constant_buffer_size(used), p->size);
    kiln_constant_buffer_free(&own);
    kiln_pin_release(&answer.pin);
    return answer.outcome == KILN_HIT;
}

static void end(partition *p)
{
    kiln_constant_remove_owner(p->number);
    kiln_key_release(&p->key);
}

/* ---- 002: the cache ---- */

static void seed_002_the_first_iteration_computes_and_the_next_reuse(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    assert_false(execute(&p));
    for (int i = 0; i < 3; i++) {
        assert_true(execute(&p));
    }
    assert_int_equal(p.computations, 1);
    assert_int_equal(atomic_load(&b.allocations), 1);
    end(&p);
}

static void seed_002_other_threads_wait_for_the_one_that_computes(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    kiln_ticket *ticket = own(p.cache, p.key, 100);
    asker others[3];
    for (int i = 0; i < 3; i++) {
        start_asker(&others[i], p.cache, p.key, 100);
    }
    kiln_pin *pin = fulfil(&b, ticket, 100, 1);
    for (int i = 0; i < 3; i++) {
        join_asker(&others[i]);
        assert_int_equal(others[i].answer.outcome, KILN_HIT);
        assert_ptr_equal(kiln_constant_buffer_of(others[i].answer.pin),
                         kiln_constant_buffer_of(pin));
        kiln_pin_release(&others[i].answer.pin);
    }
    kiln_pin_release(&pin);
    end(&p);
}

static void begin_with_defaults(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    int found = 0;
    uint64_t capacity = 0;
    uint32_t policy = UINT32_MAX;
    CHECK(kiln_constant_get_enabled(&found) == KILN_OK && found == 1);
    const uint32_t kinds[] = {KILN_ENGINE_CPU, KILN_ENGINE_GPU};
    for (int i = 0; i < 2; i++) {
        CHECK(constant_get_kind(kinds[i], &capacity, &policy) == KILN_OK);
        CHECK(capacity == KILN_UNLIMITED && policy == KILN_POLICY_NO_EVICT);
    }
}

static void seed_002_it_is_on_and_unlimited_on_cpu_and_gpu(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(begin_with_defaults), 0);
}

/* ---- 002: kinds and backends ---- */

static void seed_002_kinds_of_engines_have_separate_capacities(void **state)
{
    (void)state;
    set(KILN_ENGINE_CPU, 10240);
    set(KILN_ENGINE_GPU, 2048);
    assert_int_equal(capacity_of(KILN_ENGINE_CPU), 10240);
    assert_int_equal(capacity_of(KILN_ENGINE_GPU), 2048);
    uint32_t index = new_index();
    kiln_key *key = key_of("weights");
    put(&b, cache_at(KILN_ENGINE_CPU, index), key, 100, 1);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_GPU, index), key, 100), KILN_OWNER);
    set(KILN_ENGINE_GPU, 2048);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_CPU, index), key, 100), KILN_HIT);
    kiln_key_release(&key);
}

static void seed_002_backends_share_a_budget_and_no_keys(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_key *keys[] = {key_with(1, DNNL_BACKEND, "weights", 1),
                        key_with(1, OTHER_BACKEND, "weights", 1)};
    put(&b, cache, keys[0], 3 * MIB / 4, 1);
    assert_int_equal(outcome_of(cache, keys[1], MIB / 2), KILN_BYPASS);
    assert_int_equal(outcome_of(cache, keys[1], MIB / 4), KILN_OWNER);
    put(&b, cache, keys[1], MIB / 4, 1);
    assert_int_equal(stats_of(cache).entries, 2);
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

/* ---- 002: capacity ---- */

static void seed_002_a_full_cache_evicts_nothing_and_takes_nothing(void **state)
{
    (void)state;
    set(KILN_ENGINE_GPU, 2);
    kiln_constant_cache *cache = new_device();
    partition kept[] = {compile(cache, "a", MIB), compile(cache, "b", MIB)};
    partition late = compile(cache, "c", 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(execute(&kept[0]), i > 0);
        assert_int_equal(execute(&kept[1]), i > 0);
        assert_false(execute(&late));
    }
    /* The partition that did not fit computes its weights each time, correctly. */
    assert_int_equal(late.computations, 3);
    assert_int_equal(kiln_constant_get_size(cache), 2 * MIB);
    assert_int_equal(stats_of(cache).evictions, 0);
    end(&kept[0]);
    end(&kept[1]);
    end(&late);
}

static void seed_002_what_is_cached_need_not_reach_the_capacity(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    partition p[] = {compile(cache, "a", MIB - 10), compile(cache, "b", 11)};
    execute(&p[0]);
    assert_false(execute(&p[1]));
    assert_false(execute(&p[1]));
    assert_int_equal(kiln_constant_get_size(cache), MIB - 10);
    end(&p[0]);
    end(&p[1]);
}

static void seed_002_any_number_that_is_set_empties_the_cache(void **state)
{
    (void)state;
    const uint64_t capacities[] = {10, 10, 5, 20, KILN_UNLIMITED, KILN_UNLIMITED, 1};
    kiln_constant_cache *cache = new_device();
    partition p = compile(cache, "weights", 100);
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        assert_false(execute(&p));
        assert_true(execute(&p));
        set(KILN_ENGINE_GPU, capacities[i]);
        assert_int_equal(kiln_constant_get_size(cache), 0);
        assert_int_equal(capacity_of(KILN_ENGINE_GPU), capacities[i]);
    }
    end(&p);
}

static void seed_002_zero_clears_and_disables_and_another_number_enables(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    partition p = compile(cache, "weights", 100);
    execute(&p);
    set(KILN_ENGINE_GPU, 0);
    assert_int_equal(backend_live(&b), 0);
    assert_false(execute(&p));
    assert_false(execute(&p));
    assert_int_equal(flag(), 1);
    set(KILN_ENGINE_CPU, 0);
    assert_int_equal(flag(), 0);
    set(KILN_ENGINE_GPU, 1);
    assert_int_equal(flag(), 1);
    assert_false(execute(&p));
    assert_true(execute(&p));
    end(&p);
}

static void seed_002_the_flag_sets_all_kinds_to_default_or_zero(void **state)
{
    (void)state;
    const uint64_t expected[] = {0, KILN_UNLIMITED};
    for (int i = 0; i < 2; i++) {
        set(KILN_ENGINE_CPU, 7);
        assert_int_equal(kiln_constant_set_enabled(i), KILN_OK);
        assert_int_equal(flag(), i);
        assert_int_equal(capacity_of(KILN_ENGINE_CPU), expected[i]);
        assert_int_equal(capacity_of(KILN_ENGINE_GPU), expected[i]);
    }
}

/* ---- 002: the variable ---- */

static void begin_with_the_example(void)
{
    uint64_t capacity = 0;
    CHECK(setenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY", "cpu:10240;gpu:2048", 1) == 0);
    CHECK(constant_get_kind(KILN_ENGINE_CPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 10240);
    /* The variable was read before, and is not read again. */
    CHECK(setenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY", "cpu:1;gpu:1", 1) == 0);
    CHECK(constant_get_kind(KILN_ENGINE_GPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 2048);
    kiln_constant_cache *cache = NULL;
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    CHECK(kiln_constant_cache_of(KILN_ENGINE_CPU, 0, &cache) == KILN_OK);
    CHECK(kiln_constant_get_stats(cache, &stats) == KILN_OK);
    CHECK(stats.max_bytes == (uint64_t)10 << 30);
    /* A call takes precedence over the variable, for its kind. */
    CHECK(constant_set_kind(KILN_ENGINE_CPU, 3, KILN_POLICY_UNCHANGED) == KILN_OK);
    CHECK(constant_get_kind(KILN_ENGINE_CPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 3);
    CHECK(constant_get_kind(KILN_ENGINE_GPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 2048);
}

static void seed_002_the_variable_is_read_once_and_calls_override_it(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(begin_with_the_example), 0);
}

/* ---- 002: the interface for backends ---- */

static void seed_002_what_is_removed_in_use_stays_with_its_users(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    execute(&p);
    kiln_reservation used = ask_as(p.cache, p.key, 100, 0);
    assert_int_equal(kiln_constant_remove_if_exist(p.cache, p.key), KILN_OK);
    assert_int_equal(kiln_constant_remove_if_exist(p.cache, p.key), KILN_MISS);
    assert_int_equal(kiln_constant_get_size(p.cache), 0);
    assert_non_null(kiln_constant_buffer_data(kiln_constant_buffer_of(used.pin)));
    assert_int_equal(backend_live(&b), 1);
    kiln_pin_release(&used.pin);
    assert_int_equal(backend_live(&b), 0);
    end(&p);
}

static void seed_002_get_size_reports_what_is_cached(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    partition p[] = {compile(cache, "a", 100), compile(cache, "b", 23)};
    assert_int_equal(kiln_constant_get_size(cache), 0);
    execute(&p[0]);
    execute(&p[1]);
    assert_int_equal(kiln_constant_get_size(cache), 123);
    end(&p[0]);
    assert_int_equal(kiln_constant_get_size(cache), 23);
    end(&p[1]);
}

static void seed_002_what_is_evicted_in_use_serves_to_the_end_of_the_execution(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_LRU);
    partition p[] = {compile(cache, "a", MIB), compile(cache, "b", MIB)};
    execute(&p[0]);
    kiln_reservation used = ask_as(cache, p[0].key, MIB, 0);
    execute(&p[1]);
    assert_int_equal(outcome_of(cache, p[0].key, MIB), KILN_OWNER);
    assert_int_equal(stats_of(cache).lingering_bytes, MIB);
    assert_non_null(kiln_constant_buffer_data(kiln_constant_buffer_of(used.pin)));
    kiln_pin_release(&used.pin);
    assert_int_equal(backend_live(&b), 1);
    end(&p[0]);
    end(&p[1]);
}

static void seed_002_a_cache_is_one_for_all_and_stays(void **state)
{
    (void)state;
    uint32_t index = new_index();
    kiln_constant_cache *cache = cache_at(KILN_ENGINE_CPU, index);
    set(KILN_ENGINE_CPU, 0);
    set(KILN_ENGINE_CPU, 5);
    assert_ptr_equal(cache_at(KILN_ENGINE_CPU, index), cache);
    assert_ptr_not_equal(cache_at(KILN_ENGINE_GPU, index), cache);
}

/* ---- 003: policies ---- */

static void seed_003_low_cost_is_evicted_and_high_cost_stays(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_COST);
    kiln_key *keys[] = {key_of("expensive"), key_of("cheap"), key_of("new")};
    put(&b, cache, keys[0], MIB / 2, 1000000);
    put(&b, cache, keys[1], MIB / 2, 10);
    put(&b, cache, keys[2], MIB / 2, 1000);
    assert_int_equal(outcome_of(cache, keys[0], MIB / 2), KILN_HIT);
    assert_int_equal(outcome_of(cache, keys[1], MIB / 2), KILN_OWNER);
    for (int i = 0; i < 3; i++) {
        kiln_key_release(&keys[i]);
    }
}

static void seed_003_policies_are_set_and_got_with_the_capacity(void **state)
{
    (void)state;
    const uint32_t policies[] = {KILN_POLICY_NO_EVICT, KILN_POLICY_COST, KILN_POLICY_LRU,
                                 KILN_POLICY_FIFO, KILN_POLICY_AUTO};
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, i + 1, policies[i]), KILN_OK);
        assert_int_equal(capacity_of(KILN_ENGINE_GPU), i + 1);
        assert_int_equal(policy_of(KILN_ENGINE_GPU), policies[i]);
    }
    assert_int_equal(policy_of(KILN_ENGINE_CPU), KILN_POLICY_NO_EVICT);
}

static void begin_with_policies(void)
{
    uint64_t capacity = 0;
    uint32_t policy = UINT32_MAX;
    CHECK(setenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY", "cpu:10240:NO_EVICT;gpu:2048:COST",
                 1) == 0);
    CHECK(constant_get_kind(KILN_ENGINE_GPU, &capacity, &policy) == KILN_OK);
    CHECK(capacity == 2048 && policy == KILN_POLICY_COST);
    CHECK(constant_get_kind(KILN_ENGINE_CPU, &capacity, &policy) == KILN_OK);
    CHECK(capacity == 10240 && policy == KILN_POLICY_NO_EVICT);
    CHECK(!kiln_constant_warning(0));
}

static void seed_003_the_variable_may_name_policies(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(begin_with_policies), 0);
}

static void seed_003_the_library_may_choose_the_policy(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_AUTO);
    partition p[] = {compile(cache, "a", MIB), compile(cache, "b", MIB)};
    execute(&p[0]);
    execute(&p[1]);
    assert_int_not_equal(stats_of(cache).policy, KILN_POLICY_AUTO);
    assert_true(execute(&p[1]));
    end(&p[0]);
    end(&p[1]);
}

/* ---- 003: held handles ---- */

static void seed_003_a_held_handle_is_used_without_asking_until_it_is_evicted(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    kiln_reservation first = ask_as(p.cache, p.key, 100, p.number);
    kiln_pin *pin = fulfil(&b, first.ticket, 100, 1);
    kiln_watch *watch = NULL;
    assert_int_equal(kiln_pin_watch(pin, &watch), KILN_OK);
    kiln_cache_stats before = stats_of(p.cache);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(kiln_watch_is_live(watch), 1);
        assert_non_null(kiln_constant_buffer_data(kiln_constant_buffer_of(pin)));
    }
    assert_int_equal(stats_of(p.cache).hits, before.hits);
    assert_int_equal(atomic_load(&b.evictions), 0);
    set(KILN_ENGINE_GPU, 10);
    assert_int_equal(kiln_watch_is_live(watch), 0);
    assert_int_equal(atomic_load(&b.evictions), 1);
    kiln_watch_free(&watch);
    kiln_pin_release(&pin);
    end(&p);
}

/* ---- 003: devices ---- */

static void seed_003_a_kinds_capacity_is_each_devices_budget(void **state)
{
    (void)state;
    set(KILN_ENGINE_GPU, 1);
    kiln_constant_cache *devices[] = {new_device(), new_device(), new_device()};
    kiln_key *keys[] = {key_of("a"), key_of("b")};
    for (int i = 0; i < 3; i++) {
        put(&b, devices[i], keys[0], MIB, 1);
        assert_int_equal(outcome_of(devices[i], keys[1], 1), KILN_BYPASS);
        assert_int_equal(kiln_constant_get_size(devices[i]), MIB);
    }
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

static void seed_003_single_devices_are_set_by_index_or_handle(void **state)
{
    (void)state;
    static const int handle = 0;
    uint32_t index[] = {new_index(), new_index()};
    assert_int_equal(kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, index[1]), KILN_OK);
    set(KILN_ENGINE_GPU, 100);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index[0], 10, KILN_POLICY_UNCHANGED),
                     KILN_OK);
    assert_int_equal(constant_set_device(&handle, 20, KILN_POLICY_UNCHANGED), KILN_OK);
    uint64_t found[4];
    assert_int_equal(constant_get_index(KILN_ENGINE_GPU, index[0], &found[0], NULL), KILN_OK);
    assert_int_equal(constant_get_device(&handle, &found[1], NULL), KILN_OK);
    assert_int_equal(constant_get_index(KILN_ENGINE_GPU, index[1], &found[2], NULL), KILN_OK);
    assert_int_equal(constant_get_index(KILN_ENGINE_GPU, new_index(), &found[3], NULL), KILN_OK);
    assert_int_equal(found[0], 10);
    assert_int_equal(found[1], 20);
    assert_int_equal(found[2], 20);
    assert_int_equal(found[3], 100);
    kiln_constant_unbind_device(&handle);
}

static void seed_003_weights_are_shared_on_one_device_in_one_context_alone(void **state)
{
    (void)state;
    kiln_constant_cache *devices[] = {new_device(), new_device()};
    for (int device = 0; device < 2; device++) {
        for (uint64_t context = 1; context <= 2; context++) {
            partition first = compile_for(devices[device], context, "weights", 100);
            partition second = compile_for(devices[device], context, "weights", 100);
            assert_false(execute(&first));
            assert_true(execute(&second));
            kiln_key_release(&first.key);
            kiln_key_release(&second.key);
        }
    }
    assert_int_equal(atomic_load(&b.allocations), 4);
    assert_int_equal(kiln_constant_get_size(devices[0]), 200);
}

/* ---- 002: the cases of the shipped cache ---- */

static void seed_002_case_a_disabled_cache_promises_nothing(void **state)
{
    (void)state;
    uint32_t index = new_index();
    kiln_key *key = key_of("a");
    const uint32_t unchanged = KILN_POLICY_UNCHANGED;
    assert_int_equal(constant_set_index(KILN_ENGINE_CPU, index, 100, unchanged), KILN_OK);
    assert_int_equal(constant_set_index(KILN_ENGINE_CPU, index, 0, unchanged), KILN_OK);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_CPU, index), key, 1024), KILN_BYPASS);
    kiln_key_release(&key);
}

static void seed_002_case_keys_combine_backend_and_key(void **state)
{
    (void)state;
    kiln_key *keys[] = {key_with(1, 1, "1", 1), key_with(1, 1, "2", 1), key_with(1, 2, "1", 1),
                        key_with(1, 1, "1", 1)};
    kiln_digest digests[4];
    for (int i = 0; i < 4; i++) {
        digests[i] = kiln_key_digest(keys[i]);
    }
    assert_memory_not_equal(&digests[0], &digests[1], sizeof digests[0]);
    assert_memory_not_equal(&digests[0], &digests[2], sizeof digests[0]);
    assert_memory_equal(&digests[0], &digests[3], sizeof digests[0]);
    for (int i = 0; i < 4; i++) {
        kiln_key_release(&keys[i]);
    }
}

/* The cache has room for five units. Constants of one and two units fit; one of three units does
 * not, and changes nothing. */
static void seed_002_case_nothing_is_evicted_if_it_is_full(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device_with(5, KILN_POLICY_NO_EVICT);
    kiln_key *keys[] = {key_of("1"), key_of("2"), key_of("3")};
    put(&b, cache, keys[0], MIB, 1);
    assert_int_equal(outcome_of(cache, keys[0], MIB), KILN_HIT);
    put(&b, cache, keys[1], 2 * MIB, 1);
    assert_int_equal(kiln_constant_get_size(cache), 3 * MIB);
    assert_int_equal(outcome_of(cache, keys[2], 3 * MIB), KILN_BYPASS);
    assert_int_equal(kiln_constant_get_size(cache), 3 * MIB);
    assert_int_equal(outcome_of(cache, keys[0], MIB), KILN_HIT);
    assert_int_equal(outcome_of(cache, keys[2], 3 * MIB), KILN_BYPASS);
    for (int i = 0; i < 3; i++) {
        kiln_key_release(&keys[i]);
    }
}

static void seed_002_case_calls_in_c(void **state)
{
    (void)state;
    assert_int_equal(flag(), 1);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(flag(), 1);
    assert_int_equal(kiln_constant_get_enabled(NULL), KILN_E_INVALID);
    assert_int_equal(kiln_constant_set_enabled(-1), KILN_E_INVALID);
    const uint32_t no_kinds[] = {0, KILN_ENGINE_CPU + KILN_ENGINE_GPU + 1, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        uint64_t capacity = 7;
        assert_int_equal(constant_set_kind(no_kinds[i], 1, KILN_POLICY_UNCHANGED), KILN_E_INVALID);
        assert_int_equal(constant_get_kind(no_kinds[i], &capacity, NULL), KILN_E_INVALID);
        assert_int_equal(capacity, 7);
    }
    set(KILN_ENGINE_CPU, 1024);
    assert_int_equal(capacity_of(KILN_ENGINE_CPU), 1024);
    /* In oneDNN, the getter returns a number that was not set. */
    set(KILN_ENGINE_CPU, KILN_UNLIMITED);
    assert_int_equal(capacity_of(KILN_ENGINE_CPU), KILN_UNLIMITED);
}

/* Many weights are computed and cached, then found, and then computed without the cache. */
static void seed_002_case_a_large_partition_with_and_without_the_cache(void **state)
{
    (void)state;
    set(KILN_ENGINE_CPU, 1024);
    partition p = compile(cache_at(KILN_ENGINE_CPU, new_index()), "block", 200 * MIB);
    assert_false(execute(&p));
    assert_true(execute(&p));
    set(KILN_ENGINE_CPU, 0);
    assert_false(execute(&p));
    assert_int_equal(p.computations, 2);
    end(&p);
}

static void seed_002_case_partitions_share_weights_at_one_address_alone(void **state)
{
    (void)state;
    kiln_constant_cache *cache = new_device();
    partition first = compile(cache, "at 0x1000", 100);
    partition same = compile(cache, "at 0x1000", 100);
    partition other = compile(cache, "at 0x2000", 100);
    execute(&first);
    uint64_t size = kiln_constant_get_size(cache);
    assert_true(execute(&same));
    assert_int_equal(kiln_constant_get_size(cache), size);
    assert_false(execute(&other));
    assert_int_not_equal(kiln_constant_get_size(cache), size);
    end(&first);
    end(&same);
    end(&other);
}

/* ---- 002: cases that these leave out ---- */

static void seed_002_gap_a_failure_reaches_all_waiters_and_is_not_kept(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    kiln_ticket *ticket = own(p.cache, p.key, 100);
    asker waiting;
    start_asker(&waiting, p.cache, p.key, 100);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "the reorder failed");
    join_asker(&waiting);
    assert_int_equal(waiting.status, KILN_E_BUILD);
    assert_string_equal(waiting.error.text, "the reorder failed");
    assert_int_equal(stats_of(p.cache).reserved_bytes, 0);
    assert_false(execute(&p));
    assert_true(execute(&p));
    end(&p);
}

/* In oneDNN, a set waits for the producer, and holds the lock that the producer's look-up needs. */
static void seed_002_gap_a_flush_beside_a_computation(void **state)
{
    (void)state;
    const uint64_t capacities[] = {0, 5, KILN_UNLIMITED};
    for (int i = 0; i < 3; i++) {
        partition p = compile(new_device(), "weights", 100);
        kiln_ticket *ticket = own(p.cache, p.key, 100);
        asker waiting;
        start_asker(&waiting, p.cache, p.key, 100);
        set(KILN_ENGINE_GPU, capacities[i]);
        kiln_pin *pin = fulfil(&b, ticket, 100, 1);
        join_asker(&waiting);
        assert_int_equal(waiting.answer.outcome, KILN_HIT);
        assert_ptr_equal(waiting.answer.pin, pin);
        assert_int_equal(kiln_constant_get_size(p.cache), 0);
        assert_int_equal(outcome_of(p.cache, p.key, 100),
                         capacities[i] == 0 ? KILN_BYPASS : KILN_OWNER);
        kiln_pin_release(&waiting.answer.pin);
        kiln_pin_release(&pin);
        assert_int_equal(backend_live(&b), 0);
        end(&p);
        set(KILN_ENGINE_GPU, KILN_UNLIMITED);
    }
}

enum { THREADS = 4, ROUNDS = 200 };

typedef struct crowd {
    kiln_constant_cache *cache;
    kiln_key *keys[2];
    pthread_barrier_t start;
    atomic_int computations[ROUNDS];
    atomic_int wrong;
} crowd;

static void *ask_round_by_round(void *argument)
{
    crowd *c = argument;
    for (int round = 0; round < ROUNDS; round++) {
        const kiln_key *key = c->keys[round % 2];
        /* One thread removes the constant of the previous round. The second barrier holds all
         * threads until that removal is done. */
        if (pthread_barrier_wait(&c->start) == PTHREAD_BARRIER_SERIAL_THREAD) {
            kiln_constant_remove_if_exist(c->cache, key);
        }
        pthread_barrier_wait(&c->start);
        kiln_reservation answer = {0};
        kiln_constant_buffer *buffer = NULL;
        if (kiln_constant_get_or_add(c->cache, key, 10, NULL, &answer, NULL) != KILN_OK) {
            atomic_fetch_add(&c->wrong, 1);
        }
        if (answer.outcome == KILN_OWNER) {
            atomic_fetch_add(&c->computations[round], 1);
            if (kiln_constant_buffer_new(&b.memory, 10, NULL, &buffer) != KILN_OK ||
                kiln_constant_fulfil(&answer.ticket, &buffer, 1, &answer.pin) != KILN_OK) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
        if (!kiln_constant_buffer_of(answer.pin)) {
            atomic_fetch_add(&c->wrong, 1);
        }
        kiln_pin_release(&answer.pin);
    }
    return NULL;
}

static void seed_002_gap_threads_compute_once_however_often_it_is_removed(void **state)
{
    (void)state;
    static crowd c;
    c.cache = new_device();
    c.keys[0] = key_of("a");
    c.keys[1] = key_of("b");
    pthread_barrier_init(&c.start, NULL, THREADS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_round_by_round, &c), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&c.start);
    assert_int_equal(atomic_load(&c.wrong), 0);
    for (int round = 0; round < ROUNDS; round++) {
        assert_int_equal(atomic_load(&c.computations[round]), 1);
    }
    kiln_key_release(&c.keys[0]);
    kiln_key_release(&c.keys[1]);
}

static void seed_002_gap_lru_evicts_in_the_order_of_use(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    kiln_constant_cache *cache = new_device_with(3, KILN_POLICY_LRU);
    kiln_key *keys[5];
    for (int i = 0; i < 5; i++) {
        keys[i] = key_of(names[i]);
    }
    for (int i = 0; i < 3; i++) {
        put(&b, cache, keys[i], MIB, 1);
    }
    assert_int_equal(outcome_of(cache, keys[0], MIB), KILN_HIT);
    put(&b, cache, keys[3], MIB, 1);
    assert_int_equal(outcome_of(cache, keys[2], MIB), KILN_HIT);
    put(&b, cache, keys[4], MIB, 1);
    const kiln_outcome expected[] = {KILN_OWNER, KILN_OWNER, KILN_HIT, KILN_HIT, KILN_HIT};
    for (int i = 4; i >= 0; i--) {
        assert_int_equal(outcome_of(cache, keys[i], MIB), expected[i]);
        kiln_key_release(&keys[i]);
    }
    assert_int_equal(stats_of(cache).evictions, 2);
}

static void begin_with_errors(void)
{
    uint64_t capacity = 0;
    CHECK(setenv("ONEDNN_GRAPH_CONSTANT_TENSOR_CACHE_CAPACITY",
                 "cpu:5;tpu:1;cpu:10abc;gpu:-1;gpu:99999999999999999999;cpu:2:mru;gpu:7", 1) == 0);
    CHECK(constant_get_kind(KILN_ENGINE_CPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 5);
    CHECK(constant_get_kind(KILN_ENGINE_GPU, &capacity, NULL) == KILN_OK);
    CHECK(capacity == 7);
    static const char *const pieces[] = {"\"tpu:1\"", "\"cpu:10abc\"", "\"gpu:-1\"",
                                         "\"gpu:99999999999999999999\"", "\"cpu:2:mru\""};
    for (size_t i = 0; i < 5; i++) {
        const char *line = kiln_constant_warning(i);
        CHECK(line && strstr(line, pieces[i]));
    }
    CHECK(!kiln_constant_warning(5));
}

static void seed_002_gap_errors_in_the_variable_are_reported_and_ignored_alone(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(begin_with_errors), 0);
}

static void seed_002_gap_removals_and_flushes_notify(void **state)
{
    (void)state;
    partition p = compile(new_device(), "weights", 100);
    execute(&p);
    assert_int_equal(kiln_constant_remove_if_exist(p.cache, p.key), KILN_OK);
    assert_int_equal(atomic_load(&b.evictions), 1);
    execute(&p);
    set(KILN_ENGINE_GPU, 9);
    assert_int_equal(atomic_load(&b.evictions), 2);
    execute(&p);
    end(&p);
    assert_int_equal(atomic_load(&b.evictions), 3);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        /* These tests fork children, which must start before this process has cached anything. */
        cmocka_unit_test(seed_002_it_is_on_and_unlimited_on_cpu_and_gpu),
        cmocka_unit_test(seed_002_the_variable_is_read_once_and_calls_override_it),
        cmocka_unit_test(seed_003_the_variable_may_name_policies),
        cmocka_unit_test(seed_002_gap_errors_in_the_variable_are_reported_and_ignored_alone),
        IN_SCENE(seed_002_the_first_iteration_computes_and_the_next_reuse),
        IN_SCENE(seed_002_other_threads_wait_for_the_one_that_computes),
        IN_SCENE(seed_002_kinds_of_engines_have_separate_capacities),
        IN_SCENE(seed_002_backends_share_a_budget_and_no_keys),
        IN_SCENE(seed_002_a_full_cache_evicts_nothing_and_takes_nothing),
        IN_SCENE(seed_002_what_is_cached_need_not_reach_the_capacity),
        IN_SCENE(seed_002_any_number_that_is_set_empties_the_cache),
        IN_SCENE(seed_002_zero_clears_and_disables_and_another_number_enables),
        IN_SCENE(seed_002_the_flag_sets_all_kinds_to_default_or_zero),
        IN_SCENE(seed_002_what_is_removed_in_use_stays_with_its_users),
        IN_SCENE(seed_002_get_size_reports_what_is_cached),
        IN_SCENE(seed_002_what_is_evicted_in_use_serves_to_the_end_of_the_execution),
        IN_SCENE(seed_002_a_cache_is_one_for_all_and_stays),
        IN_SCENE(seed_003_low_cost_is_evicted_and_high_cost_stays),
        IN_SCENE(seed_003_policies_are_set_and_got_with_the_capacity),
        IN_SCENE(seed_003_the_library_may_choose_the_policy),
        IN_SCENE(seed_003_a_held_handle_is_used_without_asking_until_it_is_evicted),
        IN_SCENE(seed_003_a_kinds_capacity_is_each_devices_budget),
        IN_SCENE(seed_003_single_devices_are_set_by_index_or_handle),
        IN_SCENE(seed_003_weights_are_shared_on_one_device_in_one_context_alone),
        IN_SCENE(seed_002_case_a_disabled_cache_promises_nothing),
        IN_SCENE(seed_002_case_keys_combine_backend_and_key),
        IN_SCENE(seed_002_case_nothing_is_evicted_if_it_is_full),
        IN_SCENE(seed_002_case_calls_in_c),
        IN_SCENE(seed_002_case_a_large_partition_with_and_without_the_cache),
        IN_SCENE(seed_002_case_partitions_share_weights_at_one_address_alone),
        IN_SCENE(seed_002_gap_a_failure_reaches_all_waiters_and_is_not_kept),
        IN_SCENE(seed_002_gap_a_flush_beside_a_computation),
        IN_SCENE(seed_002_gap_threads_compute_once_however_often_it_is_removed),
        IN_SCENE(seed_002_gap_lru_evicts_in_the_order_of_use),
        IN_SCENE(seed_002_gap_removals_and_flushes_notify),
    };
    return cmocka_run_group_tests_name("seed constants", tests, NULL, NULL);
}
