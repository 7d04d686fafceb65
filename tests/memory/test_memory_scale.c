/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of eviction and removal in large caches: the processor time per entry, and the longest
 * time for which a call holds a lock. This program's own versions of the functions of a mutex
 * measure the latter.
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
#include <time.h>

#include <kiln/cache.h>

#include "support/memory_objects.h"

/* In an unoptimized build everything takes longer, but not as much longer as a scan would. */
#ifdef __OPTIMIZE__
enum { SLOWNESS = 1 };
#else
enum { SLOWNESS = 4 };
#endif

enum { MOST = 65536, MORE = 34464, ATTEMPTS = 3 };

/* Of processor time, in nanoseconds. */
static const uint64_t LONGEST_HOLD = 1000000 * SLOWNESS;

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- how long locks are held ---- */

static _Thread_local bool measures;
static _Thread_local struct {
    const pthread_mutex_t *mutex; /* NULL: none */
    uint64_t since, longest;
} hold;

static void begin_hold(const pthread_mutex_t *mutex)
{
    if (measures && !hold.mutex) {
        hold.mutex = mutex;
        hold.since = thread_ns();
    }
}

static void end_hold(const pthread_mutex_t *mutex)
{
    if (measures && hold.mutex == mutex) {
        uint64_t length = thread_ns() - hold.since;
        hold.longest = length > hold.longest ? length : hold.longest;
        hold.mutex = NULL;
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

static void begin_measuring(void)
{
    hold.longest = 0;
    measures = true;
}

static uint64_t end_measuring(void)
{
    measures = false;
    return hold.longest;
}

/* ---- a large cache ---- */

typedef struct scene {
    kiln_cache *cache;
    kiln_key *keys[MOST + MORE];
    kiln_pin *pins[MOST + MORE];
} scene;

static int object; /* the same for all keys */

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

static void open_cache(scene *s, uint64_t max_entries)
{
    const kiln_cache_params params = {
        .struct_size = sizeof params, .max_entries = max_entries, .max_bytes = KILN_UNLIMITED};
    assert_int_equal(kiln_cache_new(&params, &s->cache), KILN_OK);
}

/* Inserts the objects of keys, of 100 bytes each, and keeps their pins if @pinned. */
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

static void report(const char *what, uint32_t size, uint64_t entry_ns, uint64_t hold_ns)
{
    print_message("%-36s %6u entries: %6.2f us each, longest hold %7.1f us\n", what, size,
                  (double)entry_ns / 1000, (double)hold_ns / 1000);
}

/* What an action on a large cache takes: the best of some attempts, since other programs disturb.
 */
typedef uint32_t (*action_fn)(scene *s); /* returns for how many entries */

static void check(scene *s, const char *what, uint32_t size, bool pinned, action_fn act)
{
    uint64_t entry_ns = UINT64_MAX, hold_ns = UINT64_MAX;
    for (int i = 0; i < 2 * ATTEMPTS; i++) {
        open_cache(s, size);
        insert(s, 0, size, pinned);
        if (i % 2 == 0) {
            begin_measuring();
            act(s);
            uint64_t longest = end_measuring();
            hold_ns = longest < hold_ns ? longest : hold_ns;
        } else {
            uint64_t start = thread_ns();
            uint32_t entries = act(s);
            uint64_t taken = (thread_ns() - start) / entries;
            entry_ns = taken < entry_ns ? taken : entry_ns;
        }
        close_cache(s);
    }
    report(what, size, entry_ns, hold_ns);
    assert_in_range(hold_ns, 0, LONGEST_HOLD);
    assert_in_range(entry_ns, 0, 10000 * SLOWNESS);
}

static const uint32_t sizes[] = {100, 1000, 8191, 8192, MOST};

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
        check(s, "insertion", sizes[i], false, insert_one_more);
        check(s, "insertion, all pinned", sizes[i], true, insert_one_more_pinned);
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
    check(*state, "insertion of all bytes", MOST, false, insert_a_large_one);
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
    check(*state, "set_capacity", MOST, false, lower_capacity);
    check(*state, "set_capacity, all pinned", MOST, true, lower_capacity);
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

/* The one that is not pinned is found. */
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
    check(*state, "evict_bytes", MOST, false, evict_most_bytes);
    check(*state, "evict_bytes, all pinned", MOST, true, evict_no_bytes);
    check(*state, "evict_bytes, all but one pinned", MOST, true, evict_the_only_one);
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
    check(*state, "clear", MOST, false, clear);
    check(*state, "clear, all pinned", MOST, true, clear);
    check(*state, "clear, in a section", MOST, false, clear_in_section);
    check(*state, "clear, with a listener", MOST, false, clear_with_listener);
}

static void test_remove_group(void **state)
{
    scene *s = *state;
    uint64_t hold_ns = UINT64_MAX, entry_ns = UINT64_MAX;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        open_cache(s, MOST);
        for (uint32_t i = 0; i < MOST; i++) {
            const kiln_reserve_params params = {.struct_size = sizeof params, .group = 1};
            kiln_reservation r;
            assert_int_equal(kiln_cache_reserve(s->cache, s->keys[i], &params, &r, NULL), KILN_OK);
            assert_int_equal(kiln_ticket_fulfil(&r.ticket, &object, 100, 1, NULL), KILN_OK);
        }
        begin_measuring();
        uint64_t start = thread_ns();
        assert_int_equal(kiln_cache_remove_group(s->cache, 1), MOST);
        uint64_t taken = (thread_ns() - start) / MOST;
        uint64_t longest = end_measuring();
        close_cache(s);
        entry_ns = taken < entry_ns ? taken : entry_ns;
        hold_ns = longest < hold_ns ? longest : hold_ns;
    }
    report("remove_group", MOST, entry_ns, hold_ns);
    assert_in_range(hold_ns, 0, LONGEST_HOLD);
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
    };
    return cmocka_run_group_tests_name("memory scale", tests, set_up, tear_down);
}
