/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of kiln/constant_backend.h: how backends share their constants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kiln/constant_backend.h>

#include "face/onednn/constant_environment.h"
#include "support/constant_budget.h"
#include "support/constant_scene.h"
#include "support/failing_malloc.h"

enum { KEY_COUNT = 4 };

typedef struct scene {
    backend b;
    kiln_constant_cache *cache; /* unlimited, without eviction */
    kiln_key *keys[KEY_COUNT];
} scene;

static int set_up(void **state)
{
    static const char *const names[KEY_COUNT] = {"a", "b", "c", "d"};
    scene *s = calloc(1, sizeof *s);
    backend_init(&s->b);
    s->cache = new_device();
    for (int i = 0; i < KEY_COUNT; i++) {
        s->keys[i] = key_of(names[i]);
    }
    *state = s;
    return 0;
}

/* Setting the flag removes all constants, which frees their buffers. */
static int tear_down(void **state)
{
    scene *s = *state;
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(backend_live(&s->b), 0);
    for (int i = 0; i < KEY_COUNT; i++) {
        kiln_key_release(&s->keys[i]);
    }
    free(s);
    return 0;
}

/* ---- outcomes ---- */

static void test_the_first_computes_and_the_others_hit(void **state)
{
    scene *s = *state;
    kiln_reservation answer = ask_as(s->cache, s->keys[0], 100, 0);
    assert_int_equal(answer.outcome, KILN_OWNER);
    assert_null(answer.pin);
    assert_int_equal(stats_of(s->cache).reserved_bytes, 100);
    kiln_pin *pin = fulfil(&s->b, answer.ticket, 100, 1);
    answer = ask_as(s->cache, s->keys[0], 100, 0);
    assert_int_equal(answer.outcome, KILN_HIT);
    assert_null(answer.ticket);
    assert_ptr_equal(answer.pin, pin);
    assert_ptr_equal(kiln_constant_buffer_of(answer.pin), kiln_constant_buffer_of(pin));
    assert_int_equal(kiln_constant_buffer_size(kiln_constant_buffer_of(pin)), 100);
    kiln_pin_release(&answer.pin);
    kiln_pin_release(&pin);
    kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(kiln_constant_get_size(s->cache), 100);
}

static void test_a_full_cache_and_an_empty_constant_are_bypassed(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_ticket *ticket = own(cache, s->keys[0], MIB / 2);
    assert_int_equal(outcome_of(cache, s->keys[1], MIB / 2 + 1), KILN_BYPASS);
    put(&s->b, cache, s->keys[1], MIB / 2, 1);
    assert_int_equal(outcome_of(cache, s->keys[2], 1), KILN_BYPASS);
    assert_int_equal(outcome_of(cache, s->keys[2], 0), KILN_BYPASS);
    assert_int_equal(outcome_of(cache, s->keys[1], MIB / 2), KILN_HIT);
    kiln_pin *pin = fulfil(&s->b, ticket, MIB / 2, 1);
    kiln_pin_release(&pin);
    assert_int_equal(outcome_of(cache, s->keys[0], MIB / 2), KILN_HIT);
    assert_int_equal(kiln_constant_get_size(cache), MIB);
    assert_int_equal(stats_of(cache).bypasses, 3);
}

static void test_constant_of_no_bytes_is_bypassed(void **state)
{
    scene *s = *state;
    assert_int_equal(outcome_of(s->cache, s->keys[0], 0), KILN_BYPASS);
    put(&s->b, s->cache, s->keys[0], 10, 1);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 0), KILN_BYPASS);
    assert_int_equal(stats_of(s->cache).bypasses, 2);
}

/* If a constant of another size were a hit, the caller would access memory beyond its end. */
static void test_a_constant_of_another_size_is_no_hit(void **state)
{
    scene *s = *state;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 100);
    asker longer;
    start_asker(&longer, s->cache, s->keys[0], 101);
    kiln_pin *pin = fulfil(&s->b, ticket, 100, 1);
    join_asker(&longer);
    assert_int_equal(longer.status, KILN_OK);
    assert_int_equal(longer.answer.outcome, KILN_BYPASS);
    assert_null(longer.answer.pin);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 99), KILN_BYPASS);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 100), KILN_HIT);
    const kiln_cache_stats stats = stats_of(s->cache);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.bypasses, 2);
    kiln_pin_release(&pin);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
}

static void test_bypassing_caller_computes_itself(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(0, KILN_POLICY_NO_EVICT);
    assert_int_equal(outcome_of(cache, s->keys[0], 10), KILN_BYPASS);
    kiln_constant_buffer *buffer = buffer_of(&s->b, 10);
    assert_non_null(kiln_constant_buffer_data(buffer));
    assert_int_equal(backend_live(&s->b), 1);
    kiln_constant_buffer_free(&buffer);
    assert_null(buffer);
    kiln_constant_buffer_free(&buffer);
    kiln_constant_buffer_free(NULL);
    assert_int_equal(atomic_load(&s->b.evictions), 0);
}

static void test_the_size_of_the_buffer_is_counted(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_pin *pin = fulfil(&s->b, own(cache, s->keys[0], MIB), 10, 1);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_constant_get_size(cache), 10);
    /* The constant is larger than the reservation and the available room, so it exists only while
     * it is pinned. */
    pin = fulfil(&s->b, own(cache, s->keys[1], 10), MIB, 1);
    assert_int_equal(kiln_constant_get_size(cache), 10);
    assert_int_equal(stats_of(cache).lingering_bytes, MIB);
    kiln_pin_release(&pin);
    assert_int_equal(backend_live(&s->b), 1);
}

static void test_waiters_get_what_the_owner_computed(void **state)
{
    scene *s = *state;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 100);
    asker askers[2];
    start_asker(&askers[0], s->cache, s->keys[0], 100);
    start_asker(&askers[1], s->cache, s->keys[0], 100);
    kiln_pin *pin = fulfil(&s->b, ticket, 100, 1);
    for (int i = 0; i < 2; i++) {
        join_asker(&askers[i]);
        assert_int_equal(askers[i].answer.outcome, KILN_HIT);
        assert_ptr_equal(askers[i].answer.pin, pin);
        kiln_pin_release(&askers[i].answer.pin);
    }
    kiln_pin_release(&pin);
    assert_int_equal(atomic_load(&s->b.allocations), 1);
}

static void test_a_wait_may_be_bounded(void **state)
{
    scene *s = *state;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 100);
    kiln_constant_params params = {.struct_size = sizeof params, .wait_ns = KILN_NO_WAIT};
    kiln_reservation answer;
    assert_int_equal(kiln_constant_get_or_add(s->cache, s->keys[0], 100, &params, &answer, NULL),
                     KILN_TIMEOUT);
    params.wait_ns = 0;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_constant_get_or_add(s->cache, s->keys[0], 100, &params, &answer, &error),
                     KILN_E_CYCLE);
    assert_true(error.text[0] != '\0');
    kiln_ticket_abandon(&ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
}

static void test_abandoned_constant_is_not_cached(void **state)
{
    scene *s = *state;
    asker a;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 100);
    start_asker(&a, s->cache, s->keys[0], 100);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, "no such reorder");
    join_asker(&a);
    assert_int_equal(a.status, KILN_E_BUILD);
    assert_string_equal(a.error.text, "no such reorder");

    ticket = own(s->cache, s->keys[0], 100);
    start_asker(&a, s->cache, s->keys[0], 100);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);
    join_asker(&a);
    assert_int_equal(a.status, KILN_OK);
    assert_int_equal(a.answer.outcome, KILN_BYPASS);

    ticket = own(s->cache, s->keys[0], 100);
    start_asker(&a, s->cache, s->keys[0], 100);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    join_asker(&a);
    assert_int_equal(a.status, KILN_OK);
    assert_int_equal(a.answer.outcome, KILN_OWNER);
    kiln_pin *pin = fulfil(&s->b, a.answer.ticket, 100, 1);
    kiln_pin_release(&pin);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 100), KILN_HIT);
    assert_int_equal(stats_of(s->cache).reserved_bytes, 0);
}

static void test_invalid_calls_change_nothing(void **state)
{
    scene *s = *state;
    kiln_reservation answer;
    kiln_key *key = NULL;
    kiln_pin *pin = NULL;
    kiln_constant_buffer *buffer = NULL;
    assert_int_equal(kiln_constant_get_or_add(NULL, s->keys[0], 1, NULL, &answer, NULL),
                     KILN_E_INVALID);
    assert_int_equal(kiln_constant_get_or_add(s->cache, NULL, 1, NULL, &answer, NULL),
                     KILN_E_INVALID);
    assert_int_equal(kiln_constant_get_or_add(s->cache, s->keys[0], 1, NULL, NULL, NULL),
                     KILN_E_INVALID);
    struct {
        kiln_constant_params known;
        uint64_t newer;
    } later = {.known.struct_size = sizeof later, .newer = 1};
    assert_int_equal(kiln_constant_get_or_add(s->cache, s->keys[0], 1, &later.known, &answer, NULL),
                     KILN_E_INVALID);

    assert_int_equal(kiln_constant_key_new(NULL, &key), KILN_E_INVALID);
    kiln_constant_key_params parts = {.struct_size = sizeof parts, .key_size = 1};
    assert_int_equal(kiln_constant_key_new(&parts, &key), KILN_E_INVALID);
    parts.key_size = 0;
    assert_int_equal(kiln_constant_key_new(&parts, NULL), KILN_E_INVALID);
    assert_null(key);

    kiln_constant_memory memory = s->b.memory;
    assert_int_equal(kiln_constant_buffer_new(NULL, 1, NULL, &buffer), KILN_E_INVALID);
    assert_int_equal(kiln_constant_buffer_new(&memory, 0, NULL, &buffer), KILN_E_INVALID);
    assert_int_equal(kiln_constant_buffer_new(&memory, 1, NULL, NULL), KILN_E_INVALID);
    memory.retain = NULL;
    assert_int_equal(kiln_constant_buffer_new(&memory, 1, NULL, &buffer), KILN_E_INVALID);
    memory = s->b.memory;
    memory.allocate = NULL;
    assert_int_equal(kiln_constant_buffer_new(&memory, 1, NULL, &buffer), KILN_E_INVALID);
    memory = s->b.memory;
    memory.free = NULL;
    assert_int_equal(kiln_constant_buffer_new(&memory, 1, NULL, &buffer), KILN_E_INVALID);
    assert_null(buffer);

    kiln_ticket *ticket = own(s->cache, s->keys[0], 1);
    assert_int_equal(kiln_constant_fulfil(&ticket, NULL, 0, &pin), KILN_E_INVALID);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 0, &pin), KILN_E_INVALID);
    assert_non_null(ticket);
    kiln_ticket *none = NULL;
    buffer = buffer_of(&s->b, 1);
    assert_int_equal(kiln_constant_fulfil(&none, &buffer, 0, &pin), KILN_E_INVALID);
    assert_non_null(buffer);
    kiln_constant_buffer_free(&buffer);
    kiln_ticket_abandon(&ticket, KILN_ABANDON_UNSHAREABLE, KILN_OK, NULL);

    assert_int_equal(kiln_constant_remove_if_exist(NULL, s->keys[0]), KILN_E_INVALID);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_constant_get_size(NULL), 0);
    assert_int_equal(kiln_constant_get_stats(s->cache, NULL), KILN_E_INVALID);
    assert_null(kiln_constant_buffer_data(NULL));
    assert_null(kiln_constant_buffer_of(NULL));
    assert_int_equal(kiln_constant_buffer_size(NULL), 0);
}

/* ---- keys and sharing ---- */

static void test_keys_are_compared_completely(void **state)
{
    scene *s = *state;
    kiln_key *keys[] = {key_with(1, 1, "w", 1), key_with(2, 1, "w", 1), key_with(1, 2, "w", 1),
                        key_with(1, 1, "v", 1), key_with(1, 1, "w", 2), key_with(1, 1, "", 1)};
    enum { COUNT = sizeof keys / sizeof keys[0] };
    for (size_t i = 0; i < COUNT; i++) {
        put(&s->b, s->cache, keys[i], 10, 1);
    }
    assert_int_equal(stats_of(s->cache).entries, COUNT);
    kiln_key *same = key_with(1, 1, "w", 1);
    assert_ptr_not_equal(same, keys[0]);
    assert_int_equal(outcome_of(s->cache, same, 10), KILN_HIT);
    kiln_key_release(&same);
    for (size_t i = 0; i < COUNT; i++) {
        kiln_key_release(&keys[i]);
    }
}

static void test_only_keys_of_constants_are_taken(void **state)
{
    scene *s = *state;
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_reservation answer;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"backend", "context", "key", "generation", "more"};
        assert_int_equal(kiln_key_builder_add_number(builder, names[i], 1), KILN_OK);
        assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
        assert_int_equal(kiln_constant_get_or_add(s->cache, key, 1, NULL, &answer, &error),
                         KILN_E_INVALID);
        assert_int_equal(error.status, KILN_E_INVALID);
        kiln_key_release(&key);
    }
    kiln_key_builder_free(&builder);
    kiln_key *whole = key_of("more than sixteen bytes of a key");
    assert_int_equal(kiln_key_strip(whole, 16, &key), KILN_OK);
    assert_int_equal(kiln_constant_get_or_add(s->cache, key, 1, NULL, &answer, NULL),
                     KILN_E_INVALID);
    kiln_key_release(&key);
    kiln_key_release(&whole);
}

/* The four cases of same or different device and context; only the first case shares. */
static void test_same_device_and_same_context_share(void **state)
{
    scene *s = *state;
    uint32_t index = new_index();
    kiln_key *mine = key_with(7, 1, "weights", 1);
    kiln_key *yours = key_with(7, 1, "weights", 1);
    put(&s->b, cache_at(KILN_ENGINE_GPU, index), mine, 10, 1);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_GPU, index), yours, 10), KILN_HIT);
    kiln_key_release(&mine);
    kiln_key_release(&yours);
}

static void test_same_device_and_different_context_share_only_the_budget(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(1, KILN_POLICY_NO_EVICT);
    kiln_key *mine = key_with(7, 1, "weights", 1);
    kiln_key *yours = key_with(8, 1, "weights", 1);
    put(&s->b, cache, mine, MIB - 10, 1);
    assert_int_equal(outcome_of(cache, yours, 10), KILN_OWNER);
    assert_int_equal(outcome_of(cache, yours, 11), KILN_BYPASS);
    put(&s->b, cache, yours, 10, 1);
    assert_int_equal(backend_live(&s->b), 2);
    kiln_key_release(&mine);
    kiln_key_release(&yours);
}

static void test_different_device_and_same_context_share_nothing(void **state)
{
    scene *s = *state;
    uint32_t index = new_index();
    kiln_key *key = key_with(7, 1, "weights", 1);
    put(&s->b, cache_at(KILN_ENGINE_GPU, index), key, 10, 1);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_GPU, new_index()), key, 10), KILN_OWNER);
    assert_int_equal(outcome_of(cache_at(KILN_ENGINE_CPU, index), key, 10), KILN_OWNER);
    kiln_key_release(&key);
}

static void test_different_device_and_different_context_share_nothing(void **state)
{
    scene *s = *state;
    kiln_key *mine = key_with(7, 1, "weights", 1);
    kiln_key *yours = key_with(8, 1, "weights", 1);
    put(&s->b, new_device(), mine, 10, 1);
    assert_int_equal(outcome_of(new_device(), yours, 10), KILN_OWNER);
    kiln_key_release(&mine);
    kiln_key_release(&yours);
}

static void test_generation_distinguishes_reuse_of_an_address(void **state)
{
    scene *s = *state;
    /* Weights are freed, and different weights are allocated at the same address. */
    static char weights[8];
    char *address = weights;
    uint64_t generations[] = {kiln_constant_unique_number(), kiln_constant_unique_number()};
    assert_true(generations[0] > 0);
    assert_int_not_equal(generations[0], generations[1]);
    for (int i = 0; i < 2; i++) {
        kiln_constant_key_params parts = {.struct_size = sizeof parts,
                                          .context = 1,
                                          .key = &address,
                                          .key_size = sizeof address,
                                          .generation = generations[i]};
        kiln_key *key = NULL;
        assert_int_equal(kiln_constant_key_new(&parts, &key), KILN_OK);
        assert_int_equal(outcome_of(s->cache, key, 10), KILN_OWNER);
        put(&s->b, s->cache, key, 10, 1);
        assert_int_equal(outcome_of(s->cache, key, 10), KILN_HIT);
        kiln_key_release(&key);
    }
}

static void test_all_get_one_cache_for_one_device(void **state)
{
    (void)state;
    uint32_t index = new_index();
    assert_ptr_equal(cache_at(KILN_ENGINE_GPU, index), cache_at(KILN_ENGINE_GPU, index));
    assert_ptr_not_equal(cache_at(KILN_ENGINE_GPU, index), cache_at(KILN_ENGINE_CPU, index));
    assert_ptr_not_equal(cache_at(KILN_ENGINE_GPU, index), cache_at(KILN_ENGINE_GPU, new_index()));
    assert_non_null(cache_at(KILN_ENGINE_CPU, UINT32_MAX));
}

/* ---- policies ---- */

static bool is_there(kiln_constant_cache *cache, const kiln_key *key, size_t size)
{
    return outcome_of(cache, key, size) == KILN_HIT;
}

static void test_lru_makes_room_by_use(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(2, KILN_POLICY_LRU);
    put(&s->b, cache, s->keys[0], MIB, 1000);
    put(&s->b, cache, s->keys[1], MIB, 1);
    assert_true(is_there(cache, s->keys[0], MIB));
    put(&s->b, cache, s->keys[2], MIB, 1);
    assert_false(is_there(cache, s->keys[1], MIB));
    assert_true(is_there(cache, s->keys[0], MIB));
    assert_int_equal(kiln_constant_get_size(cache), 2 * MIB);
    assert_int_equal(atomic_load(&s->b.evictions), 1);
    assert_int_equal(stats_of(cache).evictions, 1);
}

static void test_cost_keeps_expensive_constants(void **state)
{
    scene *s = *state;
    const uint32_t policies[] = {KILN_POLICY_COST, KILN_POLICY_AUTO};
    for (int i = 0; i < 2; i++) {
        kiln_constant_cache *cache = new_device_with(2, policies[i]);
        put(&s->b, cache, s->keys[0], MIB, 1000000);
        put(&s->b, cache, s->keys[1], MIB, 1000);
        put(&s->b, cache, s->keys[2], MIB, 2000);
        assert_true(is_there(cache, s->keys[0], MIB));
        assert_false(is_there(cache, s->keys[1], MIB));
        assert_true(is_there(cache, s->keys[2], MIB));
    }
}

static void test_auto_reports_its_choice(void **state)
{
    (void)state;
    uint32_t index = new_index();
    uint32_t policy;
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 1, KILN_POLICY_AUTO), KILN_OK);
    assert_int_equal(constant_get_index(KILN_ENGINE_GPU, index, NULL, &policy), KILN_OK);
    assert_int_equal(policy, KILN_POLICY_AUTO);
    assert_int_equal(stats_of(cache_at(KILN_ENGINE_GPU, index)).policy, KILN_POLICY_COST);
}

static void test_without_a_cost_the_time_since_asking_counts(void **state)
{
    scene *s = *state;
    kiln_constant_cache *cache = new_device_with(2, KILN_POLICY_COST);
    kiln_ticket *slow = own(cache, s->keys[0], MIB);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    kiln_pin *pin = fulfil(&s->b, slow, MIB, 0);
    kiln_pin_release(&pin);
    put(&s->b, cache, s->keys[1], MIB, 1);
    put(&s->b, cache, s->keys[2], MIB, 2);
    assert_true(is_there(cache, s->keys[0], MIB));
    assert_false(is_there(cache, s->keys[1], MIB));
}

/* ---- removal ---- */

static void test_remove_if_exist(void **state)
{
    scene *s = *state;
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_MISS);
    kiln_pin *pin = put_as(&s->b, s->cache, s->keys[0], 10, 1, 0);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_MISS);
    assert_int_equal(atomic_load(&s->b.evictions), 1);
    assert_int_equal(kiln_constant_get_size(s->cache), 0);
    /* The user's pin still holds the constant. */
    assert_int_equal(backend_live(&s->b), 1);
    kiln_pin_release(&pin);
    assert_int_equal(backend_live(&s->b), 0);
}

static void test_constant_removed_while_computed_is_not_kept(void **state)
{
    scene *s = *state;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 10);
    asker a;
    start_asker(&a, s->cache, s->keys[0], 10);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 10), KILN_OWNER);
    kiln_pin *pin = fulfil(&s->b, ticket, 10, 1);
    join_asker(&a);
    assert_ptr_equal(a.answer.pin, pin);
    assert_int_equal(outcome_of(s->cache, s->keys[0], 10), KILN_OWNER);
    kiln_pin_release(&a.answer.pin);
    kiln_pin_release(&pin);
    assert_int_equal(atomic_load(&s->b.evictions), 0);
}

static void test_an_owners_constants_are_removed_with_it(void **state)
{
    scene *s = *state;
    kiln_constant_cache *other = new_device();
    uint64_t owners[] = {kiln_constant_unique_number(), kiln_constant_unique_number()};
    kiln_constant_cache *caches[] = {s->cache, other, s->cache, s->cache};
    uint64_t owner_of[] = {owners[0], owners[0], owners[1], 0};
    for (int i = 0; i < 4; i++) {
        kiln_pin *pin = put_as(&s->b, caches[i], s->keys[i], 10, 1, owner_of[i]);
        kiln_pin_release(&pin);
    }
    assert_int_equal(kiln_constant_remove_owner(0), 0);
    assert_int_equal(kiln_constant_remove_owner(owners[0]), 2);
    assert_int_equal(kiln_constant_remove_owner(owners[0]), 0);
    assert_int_equal(atomic_load(&s->b.evictions), 2);
    assert_int_equal(kiln_constant_get_size(s->cache), 20);
    assert_int_equal(kiln_constant_get_size(other), 0);
    assert_int_equal(outcome_of(s->cache, s->keys[2], 10), KILN_HIT);
    assert_int_equal(outcome_of(s->cache, s->keys[3], 10), KILN_HIT);
}

static void test_a_contexts_constants_are_removed_with_it(void **state)
{
    scene *s = *state;
    kiln_constant_cache *other = new_device();
    uint64_t contexts[] = {kiln_constant_unique_number(), kiln_constant_unique_number()};
    kiln_key *keys[] = {key_with(contexts[0], 1, "a", 1), key_with(contexts[0], 2, "b", 2),
                        key_with(contexts[1], 1, "a", 1)};
    put(&s->b, s->cache, keys[0], 10, 1);
    put(&s->b, other, keys[1], 10, 1);
    put(&s->b, s->cache, keys[2], 10, 1);
    assert_int_equal(kiln_constant_remove_context(contexts[0]), 2);
    assert_int_equal(kiln_constant_remove_context(contexts[0]), 0);
    assert_int_equal(kiln_constant_get_size(s->cache), 10);
    assert_int_equal(outcome_of(s->cache, keys[2], 10), KILN_HIT);
    for (int i = 0; i < 3; i++) {
        kiln_key_release(&keys[i]);
    }
}

static void test_constant_belongs_to_the_owner_that_computed_it(void **state)
{
    scene *s = *state;
    uint64_t owners[] = {kiln_constant_unique_number(), kiln_constant_unique_number()};
    kiln_reservation answer = ask_as(s->cache, s->keys[0], 10, owners[0]);
    asker next;
    start_asker_as(&next, s->cache, s->keys[0], 10, owners[1]);
    kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, KILN_OK, NULL);
    join_asker(&next);
    assert_int_equal(next.answer.outcome, KILN_OWNER);
    /* The end of the first owner does not remove the constant, neither during the computation nor
     * later. */
    assert_int_equal(kiln_constant_remove_owner(owners[0]), 0);
    kiln_pin *pin = fulfil(&s->b, next.answer.ticket, 10, 1);
    kiln_pin_release(&pin);
    assert_int_equal(kiln_constant_remove_owner(owners[0]), 0);
    assert_int_equal(kiln_constant_get_size(s->cache), 10);
    assert_int_equal(kiln_constant_remove_owner(owners[1]), 1);
    assert_int_equal(backend_live(&s->b), 0);
}

static void test_flights_of_ended_owners_are_not_kept(void **state)
{
    scene *s = *state;
    uint64_t owner = kiln_constant_unique_number();
    for (int i = 0; i < 2; i++) {
        kiln_reservation answer = ask_as(s->cache, s->keys[0], 10, owner);
        asker a;
        start_asker(&a, s->cache, s->keys[0], 10);
        assert_int_equal(i ? kiln_constant_remove_owner(owner) : kiln_constant_remove_context(1),
                         0);
        join_asker(&a);
        assert_int_equal(a.answer.outcome, KILN_BYPASS);
        kiln_pin *pin = fulfil(&s->b, answer.ticket, 10, 1);
        kiln_pin_release(&pin);
        assert_int_equal(kiln_constant_get_size(s->cache), 0);
    }
}

/* ---- buffers ---- */

static void test_a_buffer_keeps_its_allocator(void **state)
{
    scene *s = *state;
    kiln_pin *pin = put_as(&s->b, s->cache, s->keys[0], 10, 1, 0);
    assert_int_equal(atomic_load(&s->b.holds), 1);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(atomic_load(&s->b.holds), 1);
    assert_int_equal(atomic_load(&s->b.frees), 0);
    kiln_pin_release(&pin);
    assert_int_equal(atomic_load(&s->b.frees), 1);
    assert_int_equal(atomic_load(&s->b.holds), 0);
    kiln_constant_memory bare = s->b.memory;
    bare.retain = bare.release = NULL;
    bare.evicted = NULL;
    backend_retain(&s->b, NULL);
    kiln_constant_buffer *buffer = NULL;
    assert_int_equal(kiln_constant_buffer_new(&bare, 1, NULL, &buffer), KILN_OK);
    kiln_ticket *ticket = own(s->cache, s->keys[1], 1);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 1, NULL), KILN_OK);
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[1]), KILN_OK);
    backend_release(&s->b, NULL);
}

static void test_a_failed_allocation_is_a_status(void **state)
{
    scene *s = *state;
    kiln_constant_buffer *buffer = NULL;
    atomic_store(&s->b.refused, 1);
    assert_int_equal(kiln_constant_buffer_new(&s->b.memory, 10, NULL, &buffer), KILN_E_RESOURCES);
    atomic_store(&s->b.refused, 2);
    assert_int_equal(kiln_constant_buffer_new(&s->b.memory, 10, s->cache, &buffer),
                     KILN_E_RESOURCES);
    assert_null(buffer);
    assert_int_equal(atomic_load(&s->b.refused), 0);
    assert_int_equal(atomic_load(&s->b.holds), 0);
}

static void test_unused_constants_free_their_memory(void **state)
{
    scene *s = *state;
    kiln_constant_buffer *buffer = NULL;
    kiln_pin *pin = put_as(&s->b, s->cache, s->keys[0], 10, 1, 0);
    put(&s->b, s->cache, s->keys[1], 10, 1000);
    put(&s->b, s->cache, s->keys[2], 10, 2000);
    atomic_store(&s->b.refused, 1);
    assert_int_equal(kiln_constant_buffer_new(&s->b.memory, 10, s->cache, &buffer), KILN_OK);
    assert_true(is_there(s->cache, s->keys[0], 10));
    assert_false(is_there(s->cache, s->keys[1], 10));
    assert_true(is_there(s->cache, s->keys[2], 10));
    kiln_constant_buffer_free(&buffer);
    /* Room is made only once: a second failure is final. */
    atomic_store(&s->b.refused, 2);
    assert_int_equal(kiln_constant_buffer_new(&s->b.memory, 10, s->cache, &buffer),
                     KILN_E_RESOURCES);
    assert_int_equal(atomic_load(&s->b.refused), 0);
    kiln_pin_release(&pin);
}

static void test_every_removal_notifies(void **state)
{
    scene *s = *state;
    uint64_t owner = kiln_constant_unique_number();
    uint32_t index = new_index();
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, index, 1, KILN_POLICY_LRU), KILN_OK);
    kiln_constant_cache *cache = cache_at(KILN_ENGINE_GPU, index);
    for (int way = 0; way < 6; way++) {
        kiln_pin *pin = put_as(&s->b, cache, s->keys[0], MIB, 1, owner);
        kiln_watch *watch = NULL;
        assert_int_equal(kiln_pin_watch(pin, &watch), KILN_OK);
        kiln_pin_release(&pin);
        assert_int_equal(kiln_watch_is_live(watch), 1);
        assert_int_equal(atomic_load(&s->b.evictions), way);
        kiln_constant_buffer *buffer = NULL;
        switch (way) {
        case 0:
            put(&s->b, cache, s->keys[1], MIB, 1);
            break;
        case 1:
            kiln_constant_remove_if_exist(cache, s->keys[0]);
            break;
        case 2:
            kiln_constant_remove_owner(owner);
            break;
        case 3:
            kiln_constant_remove_context(1);
            break;
        case 4:
            constant_set_index(KILN_ENGINE_GPU, index, 1, KILN_POLICY_UNCHANGED);
            break;
        case 5:
            atomic_store(&s->b.refused, 1);
            assert_int_equal(kiln_constant_buffer_new(&s->b.memory, 1, cache, &buffer), KILN_OK);
            kiln_constant_buffer_free(&buffer);
            break;
        }
        assert_int_equal(kiln_watch_is_live(watch), 0);
        kiln_watch_free(&watch);
        assert_int_equal(atomic_load(&s->b.evictions), way + 1);
        if (way == 0) {
            kiln_constant_remove_if_exist(cache, s->keys[1]);
            atomic_fetch_sub(&s->b.evictions, 1);
        }
    }
}

/* A backend that keeps a pin, and releases it when it is notified. */
typedef struct keeper {
    kiln_pin *pin;
    kiln_watch *watch;
    int live_when_told;
} keeper;

static void let_go(void *user, const kiln_constant_buffer *buffer)
{
    keeper *k = user;
    k->live_when_told = kiln_watch_is_live(k->watch);
    if (buffer == kiln_constant_buffer_of(k->pin)) {
        kiln_pin_release(&k->pin);
    }
}

static void test_kept_handle_is_valid_until_notified(void **state)
{
    scene *s = *state;
    keeper k = {.live_when_told = -1};
    kiln_constant_memory memory = s->b.memory;
    memory.evicted = let_go;
    memory.user = &k;
    kiln_ticket *ticket = own(s->cache, s->keys[0], 10);
    kiln_constant_buffer *buffer = NULL;
    assert_int_equal(kiln_constant_buffer_new(&memory, 10, s->cache, &buffer), KILN_OK);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 1, &k.pin), KILN_OK);
    assert_int_equal(kiln_pin_watch(k.pin, &k.watch), KILN_OK);
    assert_int_equal(kiln_watch_is_live(k.watch), 1);
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    assert_int_equal(k.live_when_told, 0);
    assert_null(k.pin);
    assert_int_equal(backend_live(&s->b), 0);
    kiln_watch_free(&k.watch);
}

/* ---- fences ---- */

typedef struct event {
    backend *b;
    int waits, releases;
    int frees_when_waited, frees_when_released;
} event;

static void event_wait(void *argument)
{
    event *e = argument;
    e->waits++;
    e->frees_when_waited = atomic_load(&e->b->frees);
}

static void event_release(void *argument)
{
    event *e = argument;
    e->releases++;
    e->frees_when_released = atomic_load(&e->b->frees);
}

static void test_hit_returns_the_fence(void **state)
{
    scene *s = *state;
    event e = {.b = &s->b};
    kiln_constant_fence fence = {
        .struct_size = sizeof fence, .event = &e, .wait = event_wait, .release = event_release};
    kiln_ticket *ticket = own(s->cache, s->keys[0], 10);
    kiln_constant_buffer *buffer = buffer_of(&s->b, 10);
    assert_null(kiln_constant_buffer_event(buffer));
    kiln_constant_buffer_wait(buffer);
    assert_int_equal(kiln_constant_buffer_set_fence(buffer, &fence), KILN_OK);
    assert_int_equal(kiln_constant_buffer_set_fence(buffer, &fence), KILN_E_INVALID);
    assert_int_equal(kiln_constant_fulfil(&ticket, &buffer, 1, NULL), KILN_OK);
    assert_int_equal(e.waits, 0);
    kiln_reservation hit = ask_as(s->cache, s->keys[0], 10, 0);
    assert_ptr_equal(kiln_constant_buffer_event(kiln_constant_buffer_of(hit.pin)), &e);
    kiln_constant_buffer_wait(kiln_constant_buffer_of(hit.pin));
    assert_int_equal(e.waits, 1);
    kiln_pin_release(&hit.pin);
    /* Memory that a device may still write to is not freed. */
    assert_int_equal(kiln_constant_remove_if_exist(s->cache, s->keys[0]), KILN_OK);
    assert_int_equal(e.waits, 2);
    assert_int_equal(e.frees_when_waited, 0);
    assert_int_equal(e.releases, 1);
    assert_int_equal(e.frees_when_released, 1);
}

static void test_a_fence_needs_a_wait_function(void **state)
{
    scene *s = *state;
    kiln_constant_fence fence = {.struct_size = sizeof fence, .event = &fence};
    kiln_constant_buffer *buffer = buffer_of(&s->b, 10);
    assert_int_equal(kiln_constant_buffer_set_fence(buffer, &fence), KILN_E_INVALID);
    assert_int_equal(kiln_constant_buffer_set_fence(buffer, NULL), KILN_E_INVALID);
    fence.wait = event_wait;
    assert_int_equal(kiln_constant_buffer_set_fence(NULL, &fence), KILN_E_INVALID);
    kiln_constant_buffer_wait(NULL);
    assert_null(kiln_constant_buffer_event(NULL));
    kiln_constant_buffer_free(&buffer);
}

/* ---- memory ---- */

/* Performs all steps by which a constant is computed and found on a new device. */
static kiln_status go(backend *b, uint32_t index)
{
    kiln_constant_cache *cache;
    kiln_key *key = NULL;
    kiln_reservation answer = {0};
    kiln_constant_buffer *buffer = NULL;
    kiln_constant_key_params parts = {.struct_size = sizeof parts, .key = "k", .key_size = 1};
    kiln_status status = kiln_constant_cache_of(KILN_ENGINE_GPU, index, &cache);
    if (status == KILN_OK) {
        status = kiln_constant_key_new(&parts, &key);
    }
    if (status == KILN_OK) {
        status = kiln_constant_get_or_add(cache, key, 10, NULL, &answer, NULL);
    }
    if (status == KILN_OK) {
        assert_int_equal(answer.outcome, KILN_OWNER);
        status = kiln_constant_buffer_new(&b->memory, 10, cache, &buffer);
        if (status != KILN_OK) {
            kiln_ticket_abandon(&answer.ticket, KILN_ABANDON_TRANSIENT, status, NULL);
        }
    }
    if (status == KILN_OK) {
        status = kiln_constant_fulfil(&answer.ticket, &buffer, 1, NULL);
    }
    kiln_key_release(&key);
    return status;
}

static void test_a_lack_of_memory_is_a_status(void **state)
{
    scene *s = *state;
    size_t n = 1;
    for (;; n++) {
        uint32_t index = new_index();
        failing_malloc_arm(n);
        kiln_status status = go(&s->b, index);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        /* The failing allocation may be the backend's own. The backend is then asked a second
         * time. */
        assert_true(status == KILN_E_NO_MEMORY || status == KILN_OK);
        assert_int_equal(backend_live(&s->b), status == KILN_OK ? 1 : 0);
        if (status != KILN_OK) {
            assert_int_equal(go(&s->b, index), KILN_OK);
        }
        assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    }
    assert_true(n > 5);
}

#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        IN_SCENE(test_the_first_computes_and_the_others_hit),
        IN_SCENE(test_a_full_cache_and_an_empty_constant_are_bypassed),
        IN_SCENE(test_constant_of_no_bytes_is_bypassed),
        IN_SCENE(test_a_constant_of_another_size_is_no_hit),
        IN_SCENE(test_bypassing_caller_computes_itself),
        IN_SCENE(test_the_size_of_the_buffer_is_counted),
        IN_SCENE(test_waiters_get_what_the_owner_computed),
        IN_SCENE(test_a_wait_may_be_bounded),
        IN_SCENE(test_abandoned_constant_is_not_cached),
        IN_SCENE(test_invalid_calls_change_nothing),
        IN_SCENE(test_keys_are_compared_completely),
        IN_SCENE(test_only_keys_of_constants_are_taken),
        IN_SCENE(test_same_device_and_same_context_share),
        IN_SCENE(test_same_device_and_different_context_share_only_the_budget),
        IN_SCENE(test_different_device_and_same_context_share_nothing),
        IN_SCENE(test_different_device_and_different_context_share_nothing),
        IN_SCENE(test_generation_distinguishes_reuse_of_an_address),
        IN_SCENE(test_all_get_one_cache_for_one_device),
        IN_SCENE(test_lru_makes_room_by_use),
        IN_SCENE(test_cost_keeps_expensive_constants),
        IN_SCENE(test_auto_reports_its_choice),
        IN_SCENE(test_without_a_cost_the_time_since_asking_counts),
        IN_SCENE(test_remove_if_exist),
        IN_SCENE(test_constant_removed_while_computed_is_not_kept),
        IN_SCENE(test_an_owners_constants_are_removed_with_it),
        IN_SCENE(test_a_contexts_constants_are_removed_with_it),
        IN_SCENE(test_constant_belongs_to_the_owner_that_computed_it),
        IN_SCENE(test_flights_of_ended_owners_are_not_kept),
        IN_SCENE(test_a_buffer_keeps_its_allocator),
        IN_SCENE(test_a_failed_allocation_is_a_status),
        IN_SCENE(test_unused_constants_free_their_memory),
        IN_SCENE(test_every_removal_notifies),
        IN_SCENE(test_kept_handle_is_valid_until_notified),
        IN_SCENE(test_hit_returns_the_fence),
        IN_SCENE(test_a_fence_needs_a_wait_function),
        IN_SCENE(test_a_lack_of_memory_is_a_status),
    };
    return cmocka_run_group_tests_name("constant backend", tests, NULL, NULL);
}
