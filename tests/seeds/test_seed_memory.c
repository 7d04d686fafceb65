/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the statements of SYCL's document (001) about caches in memory: the three ways to obtain a
 * result, and eviction. docs/seeds.md names each test beside its statement.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/memory_scene.h"

static uint64_t waits(scene *s)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_cache_get_stats(s->cache, &stats), KILN_OK);
    return stats.waits;
}

typedef struct builder {
    scene *s;
    uint32_t key;
    bool holds_up; /* delays the build until another thread waits, and a third thread has built a
                      different key */
    atomic_int builds;
    kiln_status status;
    kiln_pin *pin;
} builder;

static atomic_bool begun, others_went_on;

static kiln_status build(void *user, const kiln_key *key, kiln_built *ret_built, kiln_error *error)
{
    (void)key, (void)error;
    builder *b = user;
    atomic_fetch_add(&b->builds, 1);
    atomic_store(&begun, true);
    while (b->holds_up && (waits(b->s) == 0 || !atomic_load(&others_went_on))) {
        sched_yield();
    }
    *ret_built = (kiln_built){.object = &b->s->objects[b->key], .bytes = 1};
    return KILN_OK;
}

static void *obtain(void *user)
{
    builder *b = user;
    b->status = kiln_cache_get_or_build(b->s->cache, b->s->keys[b->key], build, b, &b->pin, NULL);
    return NULL;
}

static void seed_001_a_builds_b_waits_c_takes(void **state)
{
    scene *s = *state;
    open_cache(s);
    builder a = {.s = s, .key = 1, .holds_up = true}, b = {.s = s, .key = 1},
            c = {.s = s, .key = 1}, other = {.s = s, .key = 2};
    pthread_t first, second;
    assert_int_equal(pthread_create(&first, NULL, obtain, &a), 0);
    while (!atomic_load(&begun)) {
        sched_yield();
    }
    assert_int_equal(pthread_create(&second, NULL, obtain, &b), 0);
    obtain(&other); /* no lock is held while A builds */
    assert_int_equal(other.builds, 1);
    atomic_store(&others_went_on, true);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    obtain(&c);
    assert_int_equal(a.builds, 1);
    assert_int_equal(b.builds + c.builds, 0);
    assert_int_equal(a.status | b.status | c.status | other.status, KILN_OK);
    assert_ptr_equal(kiln_pin_object(a.pin), &s->objects[1]);
    assert_ptr_equal(kiln_pin_object(b.pin), &s->objects[1]);
    assert_ptr_equal(kiln_pin_object(c.pin), &s->objects[1]);
    assert_int_equal(waits(s), 1);
    kiln_pin_release(&a.pin);
    kiln_pin_release(&b.pin);
    kiln_pin_release(&c.pin);
    kiln_pin_release(&other.pin);
}

/* Builds a key unless it is cached. Returns the number of builds so far. */
static int use(scene *s, uint32_t i, int *builds)
{
    if (!is_ready(s, i)) {
        put(s, i, 10000, 1);
        ++*builds;
    }
    return *builds;
}

/* The cache has room for two objects; the third replaces the least recently used one. */
static void seed_001_eviction_in_memory(void **state)
{
    scene *s = *state;
    open_cache_with(s, (kiln_cache_params){.max_bytes = 20005, .policy = KILN_POLICY_LRU});
    int builds = 0;
    assert_int_equal(use(s, 1, &builds), 1);
    assert_int_equal(use(s, 2, &builds), 2);
    assert_int_equal(use(s, 1, &builds), 2);
    assert_int_equal(use(s, 3, &builds), 3);
    assert_int_equal(use(s, 1, &builds), 3);
    assert_int_equal(use(s, 2, &builds), 4);
    assert_true(is_ready(s, 1));
    assert_false(is_ready(s, 3));
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_cache_get_stats(s->cache, &stats), KILN_OK);
    assert_int_equal(stats.entries, 2);
    assert_int_equal(stats.bytes, 20000);
}

#define of_memory(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        of_memory(seed_001_a_builds_b_waits_c_takes),
        of_memory(seed_001_eviction_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
