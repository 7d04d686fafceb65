/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/constant.h: how users control the constants of their devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/constant.h>

#include "face/onednn/constant_environment.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"
#include "support/failing_malloc.h"

static backend b;

static int set_up(void **state)
{
    (void)state;
    backend_init(&b);
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT),
                     KILN_OK);
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT),
                     KILN_OK);
    return 0;
}

/* Setting the flag removes all constants, which frees their buffers. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(backend_live(&b), 0);
    return 0;
}

static void assert_capacity(uint32_t kind, uint64_t capacity_mib, uint32_t policy)
{
    uint64_t capacity;
    uint32_t found_policy;
    assert_int_equal(constant_get_kind(kind, &capacity, &found_policy), KILN_OK);
    assert_int_equal(capacity, capacity_mib);
    assert_int_equal(found_policy, policy);
}

static void assert_capacity_at(uint32_t kind, uint32_t index, uint64_t capacity_mib,
                               uint32_t policy)
{
    uint64_t capacity;
    uint32_t found_policy;
    assert_int_equal(constant_get_index(kind, index, &capacity, &found_policy), KILN_OK);
    assert_int_equal(capacity, capacity_mib);
    assert_int_equal(found_policy, policy);
}

static int enabled(void)
{
    int flag = -1;
    assert_int_equal(kiln_constant_get_enabled(&flag), KILN_OK);
    return flag;
}

/* ---- defaults and the flag ---- */

/* This test runs first, because nothing may have been set before. */
static void test_on_unlimited_and_without_eviction_by_default(void **state)
{
    (void)state;
    assert_int_equal(enabled(), 1);
    assert_capacity(KILN_ENGINE_CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_capacity(KILN_ENGINE_GPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_capacity_at(KILN_ENGINE_GPU, 3, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_null(kiln_constant_warning(0));
    kiln_key *keys[] = {key_of("a"), key_of("b")};
    kiln_constant_cache *cache = new_device();
    backend_init(&b);
    put(&b, cache, keys[0], (size_t)1 << 61, 1);
    put(&b, cache, keys[1], (size_t)1 << 61, 1);
    assert_int_equal(kiln_constant_get_size(cache), (uint64_t)1 << 62);
    assert_int_equal(outcome_of(cache, keys[0], (size_t)1 << 61), KILN_HIT);
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

static void test_the_flag_sets_default_or_zero_for_all_kinds(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    uint32_t index = new_index();
    kiln_constant_cache *cache = cache_at(KILN_ENGINE_GPU, index);
    put(&b, cache, key, 100, 1);
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 7, KILN_POLICY_LRU), KILN_OK);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 9, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(enabled(), 0);
    assert_capacity(KILN_ENGINE_CPU, 0, KILN_POLICY_LRU);
    assert_capacity(KILN_ENGINE_GPU, 0, KILN_POLICY_NO_EVICT);
    assert_capacity_at(KILN_ENGINE_GPU, index, 0, KILN_POLICY_NO_EVICT);
    assert_int_equal(outcome_of(cache, key, 100), KILN_BYPASS);
    assert_int_equal(outcome_of(new_device(), key, 100), KILN_BYPASS);
    assert_int_equal(kiln_constant_set_enabled(2), KILN_OK);
    assert_int_equal(enabled(), 1);
    assert_capacity(KILN_ENGINE_CPU, KILN_UNLIMITED, KILN_POLICY_LRU);
    assert_capacity_at(KILN_ENGINE_GPU, index, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_int_equal(outcome_of(cache, key, 100), KILN_OWNER);
    kiln_key_release(&key);
}

static void test_the_flag_is_on_if_anything_has_a_capacity(void **state)
{
    (void)state;
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    uint32_t index = new_index();
    assert_int_equal(constant_set_index(KILN_ENGINE_CPU, index, 1, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_int_equal(enabled(), 1);
    assert_int_equal(constant_set_index(KILN_ENGINE_CPU, index, 0, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_int_equal(enabled(), 0);
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 1, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_int_equal(enabled(), 1);
}

/* ---- capacity ---- */

static void test_kinds_have_separate_capacities(void **state)
{
    (void)state;
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 10240, KILN_POLICY_COST), KILN_OK);
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 2048, KILN_POLICY_AUTO), KILN_OK);
    assert_capacity(KILN_ENGINE_CPU, 10240, KILN_POLICY_COST);
    assert_capacity(KILN_ENGINE_GPU, 2048, KILN_POLICY_AUTO);
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 5, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_capacity(KILN_ENGINE_CPU, 5, KILN_POLICY_COST);
    assert_int_equal(constant_get_kind(KILN_ENGINE_CPU, NULL, NULL), KILN_OK);
}

static void test_the_unit_is_mib(void **state)
{
    (void)state;
    kiln_key *keys[] = {key_of("a"), key_of("b")};
    kiln_constant_cache *cache = new_device_with(3, KILN_POLICY_NO_EVICT);
    assert_int_equal(stats_of(cache).max_bytes, 3 * MIB);
    put(&b, cache, keys[0], 3 * MIB - 1, 1);
    assert_int_equal(outcome_of(cache, keys[1], 2), KILN_BYPASS);
    assert_int_equal(outcome_of(cache, keys[1], 1), KILN_OWNER);
    kiln_key_release(&keys[0]);
    kiln_key_release(&keys[1]);
}

static void test_each_device_of_a_kind_has_the_whole_budget(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 1, KILN_POLICY_UNCHANGED), KILN_OK);
    kiln_constant_cache *caches[] = {new_device(), new_device()};
    put(&b, caches[0], key, MIB, 1);
    put(&b, caches[1], key, MIB, 1);
    assert_int_equal(kiln_constant_get_size(caches[0]), MIB);
    assert_int_equal(kiln_constant_get_size(caches[1]), MIB);
    kiln_key_release(&key);
}

static void test_a_device_may_have_its_own_until_its_kind_is_set(void **state)
{
    (void)state;
    uint32_t index = new_index();
    uint32_t other = new_index();
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 12, KILN_POLICY_LRU), KILN_OK);
    assert_capacity_at(KILN_ENGINE_GPU, index, 12, KILN_POLICY_LRU);
    assert_capacity_at(KILN_ENGINE_GPU, other, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_capacity_at(KILN_ENGINE_CPU, index, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_capacity(KILN_ENGINE_GPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 1, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_capacity_at(KILN_ENGINE_GPU, index, 12, KILN_POLICY_LRU);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 13, KILN_POLICY_UNCHANGED),
                     KILN_OK);
    assert_capacity_at(KILN_ENGINE_GPU, index, 13, KILN_POLICY_LRU);
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 20, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_capacity_at(KILN_ENGINE_GPU, index, 20, KILN_POLICY_NO_EVICT);
    assert_capacity_at(KILN_ENGINE_GPU, other, 20, KILN_POLICY_NO_EVICT);
    assert_int_equal(stats_of(cache_at(KILN_ENGINE_GPU, index)).max_bytes, 20 * MIB);
    assert_int_equal(stats_of(cache_at(KILN_ENGINE_GPU, index)).policy, KILN_POLICY_NO_EVICT);
}

static void test_a_device_is_identified_by_its_handle(void **state)
{
    (void)state;
    static const int handle = 1;
    uint64_t capacity;
    uint32_t first = new_index();
    uint32_t second = new_index();
    assert_int_equal(constant_get_device(&handle, &capacity, NULL), KILN_MISS);
    assert_int_equal(kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, first), KILN_OK);
    assert_int_equal(constant_set_device(&handle, 5, KILN_POLICY_LRU), KILN_OK);
    assert_capacity_at(KILN_ENGINE_GPU, first, 5, KILN_POLICY_LRU);
    uint32_t policy;
    assert_int_equal(constant_get_device(&handle, &capacity, &policy), KILN_OK);
    assert_int_equal(capacity, 5);
    assert_int_equal(policy, KILN_POLICY_LRU);
    assert_int_equal(kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, second), KILN_OK);
    assert_int_equal(constant_get_device(&handle, &capacity, NULL), KILN_OK);
    assert_int_equal(capacity, KILN_UNLIMITED);
    kiln_constant_unbind_device(&first);
    kiln_constant_unbind_device(NULL);
    kiln_constant_unbind_device(&handle);
    assert_int_equal(constant_get_device(&handle, &capacity, NULL), KILN_MISS);
}

static void test_a_device_is_set_before_a_backend_binds_it(void **state)
{
    (void)state;
    static const int handle = 1;
    uint64_t capacity;
    uint32_t policy;
    for (int kind_is_set = 0; kind_is_set < 2; kind_is_set++) {
        const uint32_t index = new_index();
        kiln_constant_cache *cache = cache_at(KILN_ENGINE_GPU, index);
        kiln_key *key = key_of("a");
        put(&b, cache, key, 100, 1);
        kiln_key_release(&key);
        assert_int_equal(constant_set_device(&handle, 6, KILN_POLICY_UNCHANGED), KILN_OK);
        assert_int_equal(constant_set_device(&handle, 5, KILN_POLICY_LRU), KILN_OK);
        assert_int_equal(constant_get_device(&handle, &capacity, &policy), KILN_OK);
        assert_int_equal(capacity, 5);
        assert_int_equal(policy, KILN_POLICY_LRU);
        assert_int_equal(
            constant_set_kind(kind_is_set ? KILN_ENGINE_GPU : KILN_ENGINE_CPU, 9, KILN_POLICY_COST),
            KILN_OK);
        assert_int_equal(kiln_constant_get_size(cache), kind_is_set ? 0 : 100);
        assert_int_equal(kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, index), KILN_OK);
        assert_capacity_at(KILN_ENGINE_GPU, index, kind_is_set ? 9 : 5,
                           kind_is_set ? KILN_POLICY_COST : KILN_POLICY_LRU);
        assert_int_equal(kiln_constant_get_size(cache), 0);
        /* A setting that was recorded before the device was bound takes effect only once. */
        assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 3, KILN_POLICY_FIFO), KILN_OK);
        assert_int_equal(kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, index), KILN_OK);
        assert_capacity_at(KILN_ENGINE_GPU, index, 3, KILN_POLICY_FIFO);
        kiln_constant_unbind_device(&handle);
        assert_int_equal(constant_get_device(&handle, &capacity, NULL), KILN_MISS);
    }
    /* The handle may be reused after it was unbound. */
    assert_int_equal(constant_set_device(&handle, 5, KILN_POLICY_LRU), KILN_OK);
    kiln_constant_unbind_device(&handle);
    assert_int_equal(constant_get_device(&handle, &capacity, NULL), KILN_MISS);
}

static void test_invalid_argument_changes_nothing(void **state)
{
    (void)state;
    static const int handle = 1;
    const uint32_t unchanged = KILN_POLICY_UNCHANGED;
    kiln_constant_cache *cache;
    assert_int_equal(kiln_constant_set_enabled(-1), KILN_E_INVALID);
    assert_int_equal(kiln_constant_get_enabled(NULL), KILN_E_INVALID);
    const uint32_t wrong_kinds[] = {0, 3, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        uint32_t kind = wrong_kinds[i];
        assert_int_equal(constant_set_kind(kind, 1, unchanged), KILN_E_INVALID);
        assert_int_equal(constant_get_kind(kind, NULL, NULL), KILN_E_INVALID);
        assert_int_equal(constant_set_index(kind, 0, 1, unchanged), KILN_E_INVALID);
        assert_int_equal(constant_get_index(kind, 0, NULL, NULL), KILN_E_INVALID);
        assert_int_equal(kiln_constant_bind_device(&handle, kind, 0), KILN_E_INVALID);
        assert_int_equal(kiln_constant_cache_of(kind, 0, &cache), KILN_E_INVALID);
    }
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 1, 5), KILN_E_INVALID);
    assert_int_equal(constant_set_index(KILN_ENGINE_CPU, 0, 1, 5), KILN_E_INVALID);
    assert_int_equal(constant_set_device(&handle, 1, 5), KILN_E_INVALID);
    assert_int_equal(constant_set_device(NULL, 1, unchanged), KILN_E_INVALID);
    assert_int_equal(constant_get_device(NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_constant_bind_device(NULL, KILN_ENGINE_CPU, 0), KILN_E_INVALID);
    assert_int_equal(kiln_constant_cache_of(KILN_ENGINE_CPU, 0, NULL), KILN_E_INVALID);
    assert_capacity(KILN_ENGINE_CPU, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    assert_capacity_at(KILN_ENGINE_CPU, 0, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
}

/* ---- flushes ---- */

/* Checks whether a setter empties a device's cache. */
static void assert_flushes(kiln_constant_cache *cache, const kiln_key *key,
                           kiln_status (*set)(uint32_t index), uint32_t index)
{
    put(&b, cache, key, 100, 1);
    int evictions = atomic_load(&b.evictions);
    assert_int_equal(set(index), KILN_OK);
    assert_int_equal(kiln_constant_get_size(cache), 0);
    assert_int_equal(atomic_load(&b.evictions), evictions + 1);
    assert_int_equal(backend_live(&b), 0);
}

static kiln_status set_kind(uint32_t index)
{
    (void)index;
    return constant_set_kind(KILN_ENGINE_GPU, 100, KILN_POLICY_UNCHANGED);
}

static kiln_status set_index(uint32_t index)
{
    return constant_set_index(KILN_ENGINE_GPU, index, 200, KILN_POLICY_UNCHANGED);
}

static kiln_status set_policy(uint32_t index)
{
    return constant_set_index(KILN_ENGINE_GPU, index, 200, KILN_POLICY_COST);
}

static kiln_status set_handle(uint32_t index)
{
    static const int handle;
    kiln_status status = kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, index);
    return status == KILN_OK ? constant_set_device(&handle, 300, KILN_POLICY_UNCHANGED) : status;
}

static kiln_status set_flag(uint32_t index)
{
    (void)index;
    return kiln_constant_set_enabled(1);
}

static void test_every_set_flushes(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    uint32_t index = new_index();
    kiln_constant_cache *cache = cache_at(KILN_ENGINE_GPU, index);
    /* Each setter is called twice; the second call does not change the value. */
    kiln_status (*const setters[])(uint32_t) = {set_kind,   set_kind,   set_index,  set_index,
                                                set_policy, set_policy, set_handle, set_handle,
                                                set_flag,   set_flag};
    for (size_t i = 0; i < sizeof setters / sizeof setters[0]; i++) {
        assert_flushes(cache, key, setters[i], index);
    }
    kiln_key_release(&key);
}

static void test_a_set_flushes_nothing_else(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    kiln_constant_cache *gpu = new_device();
    kiln_constant_cache *cpu = cache_at(KILN_ENGINE_CPU, new_index());
    put(&b, gpu, key, 100, 1);
    put(&b, cpu, key, 100, 1);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, new_index(), 1, KILN_POLICY_UNCHANGED),
                     KILN_OK);
    assert_int_equal(constant_set_kind(KILN_ENGINE_CPU, 0, KILN_POLICY_UNCHANGED), KILN_OK);
    assert_int_equal(kiln_constant_get_size(gpu), 100);
    assert_int_equal(kiln_constant_get_size(cpu), 0);
    kiln_key_release(&key);
}

static void test_a_set_does_not_affect_constants_in_use(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    kiln_constant_cache *cache = new_device();
    kiln_pin *pin = put_as(&b, cache, key, 100, 1, 0);
    kiln_watch *watch = NULL;
    assert_int_equal(kiln_pin_watch(pin, &watch), KILN_OK);
    assert_int_equal(kiln_watch_is_live(watch), 1);
    set_kind(0);
    assert_int_equal(kiln_watch_is_live(watch), 0);
    assert_int_equal(backend_live(&b), 1);
    assert_non_null(kiln_constant_buffer_data(kiln_constant_buffer_of(pin)));
    kiln_cache_stats stats = stats_of(cache);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.lingering_bytes, 100);
    kiln_pin_release(&pin);
    kiln_watch_free(&watch);
    assert_int_equal(backend_live(&b), 0);
    kiln_key_release(&key);
}

static void test_a_set_does_not_affect_lookups_in_flight(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    kiln_constant_cache *cache = new_device();
    kiln_ticket *ticket = own(cache, key, 100);
    asker a;
    start_asker(&a, cache, key, 100);
    /* Neither call waits for the owner, or takes the ticket from it. */
    set_kind(0);
    kiln_ticket *young = own(cache, key, 100);
    kiln_pin *pin = fulfil(&b, ticket, 100, 1);
    join_asker(&a);
    assert_int_equal(a.status, KILN_OK);
    assert_int_equal(a.answer.outcome, KILN_HIT);
    assert_ptr_equal(a.answer.pin, pin);
    assert_int_equal(kiln_constant_get_size(cache), 0);
    kiln_pin_release(&a.answer.pin);
    kiln_pin_release(&pin);
    assert_int_equal(backend_live(&b), 0);
    pin = fulfil(&b, young, 100, 1);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_constant_get_size(cache), 100);
    kiln_key_release(&key);
}

static void test_disabling_does_not_affect_lookups_in_flight(void **state)
{
    (void)state;
    kiln_key *key = key_of("a");
    kiln_constant_cache *cache = new_device();
    kiln_ticket *ticket = own(cache, key, 100);
    asker a;
    start_asker(&a, cache, key, 100);
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(outcome_of(cache, key, 100), KILN_BYPASS);
    kiln_pin *pin = fulfil(&b, ticket, 100, 1);
    join_asker(&a);
    assert_ptr_equal(a.answer.pin, pin);
    kiln_pin_release(&a.answer.pin);
    kiln_pin_release(&pin);
    assert_int_equal(backend_live(&b), 0);
    kiln_key_release(&key);
}

/* ---- memory ---- */

static void test_a_lack_of_memory_changes_nothing(void **state)
{
    (void)state;
    static const int handle = 1;
    uint32_t index = new_index();
    size_t n = 1;
    for (;; n++) {
        failing_malloc_arm(n);
        kiln_status status = constant_set_index(KILN_ENGINE_GPU, index, 4, 1);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_capacity_at(KILN_ENGINE_GPU, index, KILN_UNLIMITED, KILN_POLICY_NO_EVICT);
    }
    assert_true(n > 1);
    assert_capacity_at(KILN_ENGINE_GPU, index, 4, 1);
    for (n = 1;; n++) {
        failing_malloc_arm(n);
        kiln_status status = kiln_constant_bind_device(&handle, KILN_ENGINE_GPU, index);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_int_equal(constant_get_device(&handle, NULL, NULL), KILN_MISS);
    }
    assert_true(n > 1);
    kiln_constant_unbind_device(&handle);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_on_unlimited_and_without_eviction_by_default, tear_down),
        IN_SCENE(test_the_flag_sets_default_or_zero_for_all_kinds),
        IN_SCENE(test_the_flag_is_on_if_anything_has_a_capacity),
        IN_SCENE(test_kinds_have_separate_capacities),
        IN_SCENE(test_the_unit_is_mib),
        IN_SCENE(test_each_device_of_a_kind_has_the_whole_budget),
        IN_SCENE(test_a_device_may_have_its_own_until_its_kind_is_set),
        IN_SCENE(test_a_device_is_identified_by_its_handle),
        IN_SCENE(test_a_device_is_set_before_a_backend_binds_it),
        IN_SCENE(test_invalid_argument_changes_nothing),
        IN_SCENE(test_every_set_flushes),
        IN_SCENE(test_a_set_flushes_nothing_else),
        IN_SCENE(test_a_set_does_not_affect_constants_in_use),
        IN_SCENE(test_a_set_does_not_affect_lookups_in_flight),
        IN_SCENE(test_disabling_does_not_affect_lookups_in_flight),
        IN_SCENE(test_a_lack_of_memory_changes_nothing),
    };
    return cmocka_run_group_tests_name("constant", tests, NULL, NULL);
}
