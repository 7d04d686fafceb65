/* SPDX-License-Identifier: Apache-2.0
 *
 * What eviction and removal do in large caches: how many objects a call looks at for each that it
 * evicts, and how many it looks at and moves while it holds the lock. This program replaces the
 * functions of a mutex to count what happens under the lock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <kiln/cache.h>

#include "memory/memory.h"
#include "support/memory_objects.h"

enum { MOST = 65536, MORE = 34464 };

/* How many objects may be looked at for each object that is evicted: if no object is in use, and if
 * all are. */
enum { FEW_LOOKS = 40, FEW_LOOKS_IN_USE = 60 };

/* While it holds the lock, a call may take some objects from the cache and some from the lingering
 * ones. */
enum { MOST_MOVED = 2 * KILNI_STEPS + 2, MOST_LOOKS = KILNI_STEPS * FEW_LOOKS_IN_USE };

/* ---- what a call does while it holds a lock ---- */

static uint64_t looks;            /* how often objects were looked at, in order to evict */
static const kiln_cache *counted; /* the cache whose lock counts; NULL: none */

typedef struct contents {
    uint64_t entries, lingering, failures;
} contents;

static contents contents_of(const kiln_cache *cache)
{
    return (contents){.entries = cache->entries,
                      .lingering = cache->lingering_entries,
                      .failures = cache->retained_failures};
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static struct {
    contents contents; /* when the lock was taken */
    uint64_t looks;
    uint64_t most_moved, most_looks;
} hold;

static void begin_hold(const pthread_mutex_t *mutex)
{
    if (counted && mutex == &counted->lock) {
        hold.contents = contents_of(counted);
        hold.looks = looks;
    }
}

static void end_hold(const pthread_mutex_t *mutex)
{
    if (counted && mutex == &counted->lock) {
        const contents now = contents_of(counted);
        const uint64_t moved = difference(now.entries, hold.contents.entries) +
                               difference(now.lingering, hold.contents.lingering) +
                               difference(now.failures, hold.contents.failures);
        hold.most_moved = moved > hold.most_moved ? moved : hold.most_moved;
        const uint64_t looked = looks - hold.looks;
        hold.most_looks = looked > hold.most_looks ? looked : hold.most_looks;
    }
}

typedef int (*mutex_fn)(pthread_mutex_t *mutex);

static mutex_fn system_lock, system_trylock, system_unlock;

__attribute__((constructor)) static void find_functions(void)
{
    system_lock = (mutex_fn)(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_lock");
    system_trylock = (mutex_fn)(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    system_unlock = (mutex_fn)(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_unlock");
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!system_lock) {
        find_functions();
    }
    int result = system_lock(mutex);
    begin_hold(mutex);
    return result;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    int result = system_trylock(mutex);
    if (result == 0) {
        begin_hold(mutex);
    }
    return result;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    end_hold(mutex);
    return system_unlock(mutex);
}

/* ---- a large cache ---- */

typedef struct scene {
    kiln_cache *cache;
    bool in_use; /* whether the cache's owner reports all objects as in use */
    kiln_key *keys[MOST + MORE];
    kiln_pin *pins[MOST + MORE];
} scene;

static int object; /* all keys have the same object */

static int set_up(void **state)
{
    scene *s = calloc(1, sizeof *s);
    for (uint32_t i = 0; i < MOST + MORE; i++) {
        s->keys[i] = make_key(i);
    }
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scene *s = *state;
    for (uint32_t i = 0; i < MOST + MORE; i++) {
        kiln_key_release(&s->keys[i]);
    }
    free(s);
    return 0;
}

static int look(void *user, const void *seen)
{
    (void)seen;
    looks++;
    return ((const scene *)user)->in_use;
}

static void open_cache(scene *s, uint64_t max_entries)
{
    const kiln_cache_params params = {.struct_size = sizeof params,
                                      .max_entries = max_entries,
                                      .max_bytes = KILN_UNLIMITED,
                                      .is_busy = look,
                                      .user = s};
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
}

/* Inserts objects of 100 bytes for these keys, and keeps their pins if @pinned. */
static void insert(scene *s, uint32_t first, uint32_t count, bool pinned)
{
    for (uint32_t i = first; i < first + count; i++) {
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, s->keys[i], NULL, &r, NULL), KILN_OK);
        assert_int_equal(r.outcome, KILN_OWNER);
        assert_int_equal(
            kiln_ticket_fulfil(&r.ticket, &object, 100, 1 + i % 1000, pinned ? &s->pins[i] : NULL),
            KILN_OK);
    }
}

static void close_cache(scene *s)
{
    for (uint32_t i = 0; i < MOST + MORE; i++) {
        kiln_pin_release(&s->pins[i]);
    }
    kiln_cache_free(&s->cache);
}

/* What an action does to a large cache. */
typedef uint32_t (*action_fn)(scene *s); /* returns the number of entries that it handled */

/* What the objects of the cache are. */
typedef enum object_use { UNUSED, PINNED, IN_USE } object_use;

static void count_work(scene *s, const char *what, uint64_t most_looks, action_fn act)
{
    hold.most_moved = hold.most_looks = looks = 0;
    counted = s->cache;
    const uint32_t entries = act(s);
    counted = NULL;
    print_message("%-36s %6u entries: %5.2f looks each; while the lock is held: %4u moved, %5u "
                  "looks\n",
                  what, entries, (double)looks / entries, (unsigned)hold.most_moved,
                  (unsigned)hold.most_looks);
    assert_in_range(looks, 0, most_looks * entries);
    assert_in_range(hold.most_looks, 0, MOST_LOOKS);
    assert_in_range(hold.most_moved, 0, MOST_MOVED);
}

static void check(scene *s, const char *what, uint32_t size, object_use use, action_fn act)
{
    open_cache(s, size);
    s->in_use = use == IN_USE;
    insert(s, 0, size, use == PINNED);
    count_work(s, what, use == IN_USE ? FEW_LOOKS_IN_USE : FEW_LOOKS, act);
    close_cache(s);
}

static const uint32_t sizes[] = {32, 33, 100, 1000, 8191, 8192, MOST};

enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static uint32_t insert_one_more(scene *s)
{
    enum { COUNT = 2000 };
    insert(s, MOST, COUNT, false);
    return COUNT;
}

static uint32_t insert_one_more_pinned(scene *s)
{
    enum { COUNT = 2000 };
    insert(s, MOST, COUNT, true);
    return COUNT;
}

static void test_an_insertion_that_evicts(void **state)
{
    scene *s = *state;
    for (int i = 0; i < SIZE_COUNT; i++) {
        check(s, "insertion", sizes[i], UNUSED, insert_one_more);
        check(s, "insertion, all pinned", sizes[i], PINNED, insert_one_more_pinned);
        check(s, "insertion, all in use", sizes[i], IN_USE, insert_one_more);
    }
}

static uint32_t insert_a_large_one(scene *s)
{
    kiln_reservation r;
    uint64_t entries = stats_of(s->cache).entries;
    assert_int_equal(kiln_cache_set_capacity(s->cache, entries * 100, KILN_UNLIMITED), KILN_OK);
    assert_int_equal(kiln_cache_reserve(s->cache, s->keys[MOST], NULL, &r, NULL), KILN_OK);
    assert_int_equal(kiln_ticket_fulfil(&r.ticket, &object, entries * 100, 1000000000, NULL),
                     KILN_OK);
    assert_int_equal(stats_of(s->cache).entries, 1);
    return (uint32_t)entries;
}

static void test_an_object_that_needs_the_whole_cache(void **state)
{
    check(*state, "insertion of all bytes", MOST, UNUSED, insert_a_large_one);
}

static uint32_t lower_capacity(scene *s)
{
    uint64_t entries = stats_of(s->cache).entries;
    assert_int_equal(kiln_cache_set_capacity(s->cache, KILN_UNLIMITED, 10), KILN_OK);
    assert_int_equal(stats_of(s->cache).entries, 10);
    return (uint32_t)entries - 10;
}

static void test_a_smaller_capacity(void **state)
{
    check(*state, "set_capacity", MOST, UNUSED, lower_capacity);
    check(*state, "set_capacity, all pinned", MOST, PINNED, lower_capacity);
    check(*state, "set_capacity, all in use", MOST, IN_USE, lower_capacity);
}

static uint32_t evict_most_bytes(scene *s)
{
    uint64_t entries = stats_of(s->cache).entries, freed;
    assert_int_equal(kiln_cache_evict_bytes(s->cache, (entries - 10) * 100, &freed), KILN_OK);
    assert_int_equal(freed, (entries - 10) * 100);
    return (uint32_t)entries - 10;
}

static uint32_t evict_no_bytes(scene *s)
{
    uint64_t entries = stats_of(s->cache).entries, freed;
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, &freed), KILN_OK);
    assert_int_equal(freed, 0);
    return (uint32_t)entries;
}

/* Evicts the only object that is not pinned. */
static uint32_t evict_the_only_one(scene *s)
{
    uint64_t entries = stats_of(s->cache).entries, freed;
    kiln_pin_release(&s->pins[entries / 2]);
    assert_int_equal(kiln_cache_evict_bytes(s->cache, 1, &freed), KILN_OK);
    assert_int_equal(freed, 100);
    return (uint32_t)entries;
}

static void test_evict_bytes(void **state)
{
    check(*state, "evict_bytes", MOST, UNUSED, evict_most_bytes);
    check(*state, "evict_bytes, all pinned", MOST, PINNED, evict_no_bytes);
    check(*state, "evict_bytes, all in use", MOST, IN_USE, evict_no_bytes);
    check(*state, "evict_bytes, all but one pinned", MOST, PINNED, evict_the_only_one);
}

static uint32_t clear(scene *s)
{
    uint64_t entries = stats_of(s->cache).entries;
    kiln_cache_clear(s->cache);
    assert_int_equal(stats_of(s->cache).entries, 0);
    return (uint32_t)entries;
}

static uint32_t clear_in_section(scene *s)
{
    kiln_section section;
    kiln_section_enter(s->cache, &section);
    uint32_t entries = clear(s);
    assert_int_equal(stats_of(s->cache).lingering_entries, entries);
    kiln_section_leave(&section);
    assert_int_equal(kiln_cache_collect(s->cache), entries);
    assert_int_equal(stats_of(s->cache).lingering_entries, 0);
    return entries;
}

static void ignore(void *user, const kiln_event *event)
{
    (void)user;
    (void)event;
}

static uint32_t clear_with_listener(scene *s)
{
    uint64_t id;
    assert_int_equal(kiln_cache_listen(s->cache, KILN_EVENT_EVICTED, ignore, NULL, &id), KILN_OK);
    return clear(s);
}

static void test_clear(void **state)
{
    check(*state, "clear", MOST, UNUSED, clear);
    check(*state, "clear, all pinned", MOST, PINNED, clear);
    check(*state, "clear, in a section", MOST, UNUSED, clear_in_section);
    check(*state, "clear, with a listener", MOST, UNUSED, clear_with_listener);
}

static uint32_t remove_group(scene *s)
{
    assert_int_equal(kiln_cache_remove_group(s->cache, 1), MOST);
    return MOST;
}

static void test_remove_group(void **state)
{
    scene *s = *state;
    open_cache(s, MOST);
    for (uint32_t i = 0; i < MOST; i++) {
        const kiln_reserve_params params = {.struct_size = sizeof params, .group = 1};
        kiln_reservation r;
        assert_int_equal(kiln_cache_reserve(s->cache, s->keys[i], &params, &r, NULL), KILN_OK);
        assert_int_equal(kiln_ticket_fulfil(&r.ticket, &object, 100, 1, NULL), KILN_OK);
    }
    count_work(s, "remove_group", FEW_LOOKS, remove_group);
    close_cache(s);
}

/* A cache with room for a million entries keeps 62,500 failures. */
enum { FAILURES = 62500 };

static uint32_t clear_failures(scene *s)
{
    assert_int_equal(stats_of(s->cache).retained_failures, FAILURES);
    kiln_cache_clear(s->cache);
    assert_int_equal(stats_of(s->cache).retained_failures, 0);
    return FAILURES;
}

static uint32_t allow_few_failures(scene *s)
{
    enum { FEW = 10 };
    assert_int_equal(kiln_cache_set_capacity(s->cache, KILN_UNLIMITED, 16 * FEW), KILN_OK);
    assert_int_equal(stats_of(s->cache).retained_failures, FEW);
    return FAILURES - FEW;
}

static void fail_build(const scene *s, const kiln_key *key)
{
    kiln_reservation r;
    assert_int_equal(kiln_cache_reserve(s->cache, key, NULL, &r, NULL), KILN_OK);
    kiln_ticket_abandon(&r.ticket, KILN_ABANDON_FAILED, KILN_E_BUILD, NULL);
}

/* One large failure displaces thousands of small ones. */
static uint32_t keep_a_large_failure(scene *s)
{
    enum { SIZE = 2 << 20 };
    const uint64_t bytes = stats_of(s->cache).retained_failure_bytes;
    assert_int_equal(kiln_cache_set_capacity(s->cache, 16 * bytes, 16 * FAILURES), KILN_OK);
    assert_int_equal(stats_of(s->cache).retained_failures, FAILURES);
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    void *part = calloc(1, SIZE);
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add(builder, "large", part, SIZE), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    fail_build(s, key);
    const uint64_t kept = stats_of(s->cache).retained_failures;
    assert_in_range(kept, 2, FAILURES - MOST_MOVED);
    assert_in_range(stats_of(s->cache).retained_failure_bytes, 1, bytes);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
    free(part);
    return FAILURES - (uint32_t)kept;
}

static void check_failures(scene *s, const char *what, action_fn act)
{
    const kiln_cache_params params = {.struct_size = sizeof params,
                                      .max_bytes = KILN_UNLIMITED,
                                      .max_entries = 16 * FAILURES,
                                      .flags = KILN_CACHE_RETAIN_FAILURES};
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
    for (uint32_t i = 0; i < FAILURES; i++) {
        fail_build(s, s->keys[i]);
    }
    count_work(s, what, FEW_LOOKS, act);
    close_cache(s);
}

static void test_failures(void **state)
{
    check_failures(*state, "clear of failures", clear_failures);
    check_failures(*state, "set_capacity, failures", allow_few_failures);
    check_failures(*state, "one failure displaces others", keep_a_large_failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_insertion_that_evicts),
        cmocka_unit_test(test_an_object_that_needs_the_whole_cache),
        cmocka_unit_test(test_a_smaller_capacity),
        cmocka_unit_test(test_evict_bytes),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_remove_group),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("memory scale", tests, set_up, tear_down);
}
