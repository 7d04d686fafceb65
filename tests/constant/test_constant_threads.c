/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads use the constants of a few devices: some compute and use constants, one sets
 * capacities, one removes constants, and one binds handles. The contents of a buffer are a function
 * of its key until it is freed, so each thread can check that a buffer belongs to its key and has
 * not been freed.
 *
 *     test_constant_threads [ROUNDS]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include <kiln/constant.h>
#include <kiln/constant_backend.h>

#include "face/onednn/constant_environment.h"

#include "support/constant_budget.h"

enum { DEVICES = 2, KEYS = 8, USERS = 4, CAPACITY_MIB = 4, LIVE = 0x5ee7 };

/* A thread that waits for each outcome to occur gives up after this many times ROUNDS. */
enum { PATIENCE = 1000 };

static unsigned rounds = 20000;

/* Only the main thread may assert; the others record failures. */
static atomic_int wrong_line;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            int none = 0;                                                                          \
            atomic_compare_exchange_strong(&wrong_line, &none, __LINE__);                          \
        }                                                                                          \
    } while (0)

static kiln_constant_cache *caches[DEVICES];
static kiln_key *keys[KEYS];
static atomic_int live, notices, users_left;
static atomic_uint hits, owners, bypasses;

typedef struct content {
    unsigned mark;
    unsigned key;
} content;

static void *allocate(size_t size, void *engine, void *allocator)
{
    (void)size;
    (void)engine;
    (void)allocator;
    atomic_fetch_add(&live, 1);
    return calloc(1, sizeof(content));
}

static void give_back(void *data, void *engine, void *allocator)
{
    (void)engine;
    (void)allocator;
    content *c = data;
    EXPECT(c->mark == LIVE);
    c->mark = 0;
    free(c);
    atomic_fetch_sub(&live, 1);
}

static void evicted(void *user, const kiln_constant_buffer *buffer)
{
    (void)user;
    EXPECT(((const content *)kiln_constant_buffer_data(buffer))->mark == LIVE);
    atomic_fetch_add(&notices, 1);
}

static const kiln_constant_memory memory = {
    .struct_size = sizeof memory, .allocate = allocate, .free = give_back, .evicted = evicted};

static size_t size_of_key(unsigned key)
{
    return (size_t)(key + 1) << 18;
}

static void look(const kiln_constant_buffer *buffer, unsigned key)
{
    const content *c = kiln_constant_buffer_data(buffer);
    EXPECT(c->mark == LIVE && c->key == key);
    EXPECT(kiln_constant_buffer_size(buffer) == size_of_key(key));
}

static kiln_constant_buffer *compute(unsigned key)
{
    kiln_constant_buffer *buffer = NULL;
    EXPECT(kiln_constant_buffer_new(&memory, size_of_key(key), NULL, &buffer) == KILN_OK);
    content *c = kiln_constant_buffer_data(buffer);
    *c = (content){.mark = LIVE, .key = key};
    return buffer;
}

static void own(kiln_ticket *ticket, unsigned key, unsigned random)
{
    atomic_fetch_add(&owners, 1);
    if (random % 16 == 0) {
        kiln_ticket_abandon(&ticket, 1 + (random >> 4) % 3, KILN_E_BUILD, "as agreed");
        return;
    }
    kiln_constant_buffer *buffer = compute(key);
    kiln_pin *pin = NULL;
    EXPECT(kiln_constant_fulfil(&ticket, &buffer, random, &pin) == KILN_OK);
    look(kiln_constant_buffer_of(pin), key);
    kiln_pin_release(&pin);
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static bool all_happened(void)
{
    return atomic_load(&hits) > 0 && atomic_load(&owners) > 0 && atomic_load(&bypasses) > 0 &&
           atomic_load(&notices) > 0;
}

static void *use(void *argument)
{
    unsigned state = 1 + (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < rounds || (!all_happened() && i < PATIENCE * rounds); i++) {
        unsigned random = next_random(&state);
        unsigned key = random % KEYS;
        kiln_constant_params params = {.struct_size = sizeof params, .owner = 1 + random % 3};
        kiln_reservation answer = {0};
        kiln_status status = kiln_constant_get_or_add(caches[(random >> 4) % DEVICES], keys[key],
                                                      size_of_key(key), &params, &answer, NULL);
        EXPECT(status == KILN_OK || status == KILN_E_BUILD);
        kiln_constant_buffer *own_buffer;
        switch (status == KILN_OK ? answer.outcome : 0) {
        case KILN_HIT:
            atomic_fetch_add(&hits, 1);
            look(kiln_constant_buffer_of(answer.pin), key);
            kiln_pin_release(&answer.pin);
            break;
        case KILN_OWNER:
            own(answer.ticket, key, next_random(&state));
            break;
        case KILN_BYPASS:
            atomic_fetch_add(&bypasses, 1);
            own_buffer = compute(key);
            look(own_buffer, key);
            kiln_constant_buffer_free(&own_buffer);
            break;
        default:
            break;
        }
    }
    atomic_fetch_sub(&users_left, 1);
    return NULL;
}

static void *set(void *argument)
{
    static const uint32_t policies[] = {KILN_POLICY_COST, KILN_POLICY_LRU, KILN_POLICY_NO_EVICT,
                                        KILN_POLICY_AUTO, KILN_POLICY_UNCHANGED};
    unsigned state = 77 + (unsigned)(uintptr_t)argument;
    while (atomic_load(&users_left) > 0) {
        unsigned random = next_random(&state);
        uint32_t policy = policies[random % 5];
        uint64_t capacity = 1 + (random >> 8) % CAPACITY_MIB;
        kiln_status status = KILN_OK;
        switch ((random >> 4) % 8) {
        case 0:
            status = constant_set_kind(KILN_ENGINE_GPU, capacity, policy);
            break;
        case 1:
            status = constant_set_index(KILN_ENGINE_GPU, 1, capacity, policy);
            break;
        case 2:
            status = kiln_constant_set_enabled((random >> 12) % 2);
            break;
        case 3:
            status = kiln_constant_get_enabled(&(int){0});
            break;
        default:
            sched_yield();
            break;
        }
        EXPECT(status == KILN_OK);
        uint64_t found = 0;
        EXPECT(constant_get_index(KILN_ENGINE_GPU, 1, &found, NULL) == KILN_OK);
        EXPECT(found <= CAPACITY_MIB || found == KILN_UNLIMITED);
    }
    return NULL;
}

static void *remove_some(void *argument)
{
    unsigned state = 99 + (unsigned)(uintptr_t)argument;
    while (atomic_load(&users_left) > 0) {
        unsigned random = next_random(&state);
        kiln_status status;
        switch (random % 16) {
        case 0:
            kiln_constant_remove_owner(1 + (random >> 4) % 3);
            break;
        case 1:
            kiln_constant_remove_context(1 + (random >> 4) % 2);
            break;
        case 2:
            status = kiln_constant_remove_if_exist(caches[0], keys[(random >> 4) % KEYS]);
            EXPECT(status == KILN_OK || status == KILN_MISS);
            break;
        default:
            kiln_constant_get_size(caches[(random >> 4) % DEVICES]);
            sched_yield();
            break;
        }
    }
    return NULL;
}

static void *bind(void *argument)
{
    const int *handle = argument;
    for (unsigned i = 0; atomic_load(&users_left) > 0; i++) {
        uint64_t capacity;
        EXPECT(kiln_constant_bind_device(handle, KILN_ENGINE_GPU, i % (4 * DEVICES)) == KILN_OK);
        EXPECT(constant_get_device(handle, &capacity, NULL) == KILN_OK);
        kiln_constant_unbind_device(handle);
        sched_yield();
    }
    return NULL;
}

static void set_up_all(void)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_int_equal(kiln_constant_cache_of(KILN_ENGINE_GPU, i, &caches[i]), KILN_OK);
    }
    for (unsigned i = 0; i < KEYS; i++) {
        kiln_constant_key_params parts = {
            .struct_size = sizeof parts, .context = 1 + i % 2, .key = &i, .key_size = sizeof i};
        assert_int_equal(kiln_constant_key_new(&parts, &keys[i]), KILN_OK);
    }
}

static void test_all_calls_at_once(void **state)
{
    (void)state;
    static const int handle = 1;
    void *(*const others[])(void *) = {set, set, remove_some, bind};
    enum { OTHERS = sizeof others / sizeof others[0] };
    pthread_t threads[USERS + OTHERS];
    set_up_all();
    atomic_store(&users_left, USERS);
    for (uintptr_t i = 0; i < USERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use, (void *)i), 0);
    }
    for (uintptr_t i = 0; i < OTHERS; i++) {
        void *argument = others[i] == bind ? (void *)(uintptr_t)&handle : (void *)i;
        assert_int_equal(pthread_create(&threads[USERS + i], NULL, others[i], argument), 0);
    }
    for (int i = 0; i < USERS + OTHERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&wrong_line), 0);
    assert_true(all_happened());
    /* The last value that was set is in effect. */
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 2, KILN_POLICY_LRU), KILN_OK);
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_constant_get_stats(caches[1], &stats), KILN_OK);
    assert_int_equal(stats.max_bytes, (uint64_t)2 << 20);
    assert_int_equal(stats.policy, KILN_POLICY_LRU);
    assert_int_equal(stats.bytes + stats.reserved_bytes + stats.lingering_bytes, 0);
    assert_int_equal(atomic_load(&live), 0);
    for (unsigned i = 0; i < KEYS; i++) {
        kiln_key_release(&keys[i]);
    }
}

/* ---- setters ---- */

enum { SETTERS = 3, SET_INDEX = 50 };

static pthread_barrier_t step;

/* Each call sets a policy and the capacity that belongs to it. */
static uint64_t capacity_of(uint32_t policy)
{
    return 10 + policy;
}

/* Checks that the cache has the capacity and policy that the getters return, and that one call set
 * both. */
static void look_at_limits(void)
{
    kiln_constant_cache *cache = NULL;
    uint64_t capacity = 0;
    uint32_t policy = 0;
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    EXPECT(kiln_constant_cache_of(KILN_ENGINE_GPU, SET_INDEX, &cache) == KILN_OK);
    EXPECT(constant_get_index(KILN_ENGINE_GPU, SET_INDEX, &capacity, &policy) == KILN_OK);
    EXPECT(capacity == capacity_of(policy));
    EXPECT(kiln_constant_get_stats(cache, &stats) == KILN_OK);
    EXPECT(stats.max_bytes == capacity << 20 && stats.policy == policy);
}

static void *set_pair(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    for (unsigned i = 0; i < rounds / 4; i++) {
        uint32_t policy = (number + i) % SETTERS;
        pthread_barrier_wait(&step);
        EXPECT(constant_set_index(KILN_ENGINE_GPU, SET_INDEX, capacity_of(policy), policy) ==
               KILN_OK);
        pthread_barrier_wait(&step);
        if (number == 0) {
            look_at_limits();
        }
    }
    return NULL;
}

static void test_the_cache_has_what_was_set_last(void **state)
{
    (void)state;
    pthread_t threads[SETTERS];
    assert_int_equal(pthread_barrier_init(&step, NULL, SETTERS), 0);
    for (uintptr_t i = 0; i < SETTERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, set_pair, (void *)i), 0);
    }
    for (int i = 0; i < SETTERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    pthread_barrier_destroy(&step);
    assert_int_equal(atomic_load(&wrong_line), 0);
}

/* The linker gives these names to the replacement of kiln_cache_set_policy, and to the original. */
kiln_status __real_kiln_cache_set_policy(kiln_cache *cache, uint32_t policy);
kiln_status __wrap_kiln_cache_set_policy(kiln_cache *cache, uint32_t policy);

static _Thread_local bool is_slow;

kiln_status __wrap_kiln_cache_set_policy(kiln_cache *cache, uint32_t policy)
{
    if (is_slow) {
        is_slow = false;
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
    }
    return __real_kiln_cache_set_policy(cache, policy);
}

static void *set_slowly(void *argument)
{
    (void)argument;
    is_slow = true;
    EXPECT(constant_set_index(KILN_ENGINE_GPU, SET_INDEX, capacity_of(0), 0) == KILN_OK);
    return NULL;
}

/* A thread is delayed in a setter until another thread has set something else.
 */
static void test_overtaken_setter_retries(void **state)
{
    (void)state;
    pthread_t thread;
    kiln_constant_cache *cache;
    assert_int_equal(kiln_constant_cache_of(KILN_ENGINE_GPU, SET_INDEX, &cache), KILN_OK);
    assert_int_equal(pthread_barrier_init(&step, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, set_slowly, NULL), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(constant_set_index(KILN_ENGINE_GPU, SET_INDEX, capacity_of(1), 1), KILN_OK);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&step);
    look_at_limits();
    assert_int_equal(atomic_load(&wrong_line), 0);
    uint64_t capacity;
    assert_int_equal(constant_get_index(KILN_ENGINE_GPU, SET_INDEX, &capacity, NULL), KILN_OK);
    assert_int_equal(capacity, capacity_of(1));
}

static void *open_slowly(void *argument)
{
    is_slow = true;
    EXPECT(kiln_constant_cache_of(KILN_ENGINE_GPU, SET_INDEX + 1, argument) == KILN_OK);
    return NULL;
}

/* As above, but the delayed thread is making a device's cache. */
static void test_new_cache_gets_settings_made_meanwhile(void **state)
{
    (void)state;
    pthread_t thread;
    kiln_constant_cache *cache = NULL;
    assert_int_equal(pthread_barrier_init(&step, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_slowly, &cache), 0);
    pthread_barrier_wait(&step);
    assert_int_equal(constant_set_kind(KILN_ENGINE_GPU, 77, KILN_POLICY_LRU), KILN_OK);
    pthread_barrier_wait(&step);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&step);
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_constant_get_stats(cache, &stats), KILN_OK);
    assert_int_equal(stats.max_bytes, (uint64_t)77 << 20);
    assert_int_equal(stats.policy, KILN_POLICY_LRU);
}

/* ---- single flight ---- */

static atomic_int computed;

static void *ask_once(void *argument)
{
    kiln_constant_cache *cache = argument;
    kiln_reservation answer = {0};
    EXPECT(kiln_constant_get_or_add(cache, keys[0], size_of_key(0), NULL, &answer, NULL) ==
           KILN_OK);
    if (answer.outcome == KILN_OWNER) {
        atomic_fetch_add(&computed, 1);
        kiln_constant_buffer *buffer = compute(0);
        EXPECT(kiln_constant_fulfil(&answer.ticket, &buffer, 1, &answer.pin) == KILN_OK);
    }
    EXPECT(answer.pin);
    look(kiln_constant_buffer_of(answer.pin), 0);
    kiln_pin_release(&answer.pin);
    return NULL;
}

static void test_one_of_many_computes(void **state)
{
    (void)state;
    assert_int_equal(kiln_constant_set_enabled(1), KILN_OK);
    kiln_constant_key_params parts = {.struct_size = sizeof parts, .key = "k", .key_size = 1};
    assert_int_equal(kiln_constant_key_new(&parts, &keys[0]), KILN_OK);
    for (uint32_t round = 0; round < 50; round++) {
        kiln_constant_cache *cache;
        /* Each round also uses a new device. */
        assert_int_equal(kiln_constant_cache_of(KILN_ENGINE_CPU, round, &cache), KILN_OK);
        pthread_t threads[USERS];
        atomic_store(&computed, 0);
        for (int i = 0; i < USERS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, ask_once, cache), 0);
        }
        for (int i = 0; i < USERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        assert_int_equal(atomic_load(&computed), 1);
    }
    assert_int_equal(atomic_load(&wrong_line), 0);
    assert_int_equal(kiln_constant_set_enabled(0), KILN_OK);
    assert_int_equal(atomic_load(&live), 0);
    kiln_key_release(&keys[0]);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        rounds = (unsigned)strtoul(argv[1], NULL, 10);
    }
    unsetenv(KILNI_CONSTANT_VARIABLE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_calls_at_once),
        cmocka_unit_test(test_the_cache_has_what_was_set_last),
        cmocka_unit_test(test_overtaken_setter_retries),
        cmocka_unit_test(test_new_cache_gets_settings_made_meanwhile),
        cmocka_unit_test(test_one_of_many_computes),
    };
    return cmocka_run_group_tests_name("constant threads", tests, NULL, NULL);
}
