/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "entry/format.h"
#include "store/store.h"
#include "support/failing_malloc.h"
#include "support/request_scene.h"

/* ---- arguments ---- */

static void test_wrong_arguments(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    caller c = {.at = &at};
    run(&c);
    assert_int_equal(c.status, KILN_E_INVALID);
    for (size_t i = 0; i <= KILNI_REQUEST_KEYS_MAX; i++) {
        c.keys[i] = f->a;
    }
    c.key_count = KILNI_REQUEST_KEYS_MAX + 1;
    run(&c);
    assert_int_equal(c.status, KILN_E_INVALID);

    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES, .keys = c.keys, .key_count = 1, .ops = &all_ops, .user = &c};
    kilni_request_result result;
    assert_int_equal(kilni_request_run(NULL, &wanted, &result, NULL), KILN_E_INVALID);
    assert_int_equal(kilni_request_run(&at.context, NULL, &result, NULL), KILN_E_INVALID);
    assert_int_equal(kilni_request_run(&at.context, &wanted, NULL, NULL), KILN_E_INVALID);
    close_environment(&at);

    at = enter(f, KILNI_KEEP_PROGRAM);
    c = (caller){.at = &at, .keys = {f->a, f->b}, .key_count = 2};
    run(&c);
    assert_int_equal(c.status, KILN_E_INVALID);
    close_environment(&at);
    assert_calls(f, 0, 0, 0);
}

/* ---- the steps of a request ---- */

static void check_way(fixture *f, kilni_ending ending, int loads_from_memory)
{
    environment at = enter(f, ending);
    kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(result.store, KILN_MISS);
    assert_int_equal(result.kept, KILN_OK);
    assert_int_equal(result.waited, 0);
    assert_true(result.build_ns > 0);
    assert_calls(f, 1, 1, 0);
    assert_totals(&at, (kiln_stats){.misses = 1, .builds = 1, .puts = 1});

    result = request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    assert_int_equal(result.store, KILN_OK);
    assert_int_equal(result.build_ns, 0);
    assert_calls(f, 1, 1, loads_from_memory);
    assert_totals(&at, (kiln_stats){.misses = 1, .builds = 1, .puts = 1, .hits_memory = 1});

    open_again(&at, f->directory);
    result = request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_int_equal(result.store, KILN_OK);
    assert_true(result.load_ns > 0);
    assert_calls(f, 1, 1, loads_from_memory + 1);
    assert_totals(
        &at, (kiln_stats){.misses = 1, .builds = 1, .puts = 1, .hits_memory = 1, .hits_store = 1});

    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    assert_calls(f, 1, 1, 2 * loads_from_memory + 1);
    assert_int_equal(stat_of(&at).entries, 1);
    close_environment(&at);
}

static void test_steps_of_a_request_for_entries(void **state)
{
    check_way(*state, KILNI_KEEP_ENTRIES, 1);
}

static void test_steps_of_a_request_for_a_program(void **state)
{
    check_way(*state, KILNI_KEEP_PROGRAM, 0);
}

/* ---- a hit in a lower store of a chain, which is copied to the upper one ---- */

static pthread_t asking;
static _Atomic int own_writes, others_writes;

static ssize_t counted_write(int file, const void *buffer, size_t size)
{
    *(pthread_equal(pthread_self(), asking) ? &own_writes : &others_writes) += 1;
    return kilni_os_system()->write(file, buffer, size);
}

static bool has_entry(const char *location, const kiln_key *key)
{
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
    const kiln_status status = kiln_store_contains(store, key);
    kiln_store_close(&store);
    return status == KILN_OK;
}

static void test_the_writer_copies_hits_to_the_tiers_above(void **state)
{
    fixture *f = *state;
    char above[SCRATCH_PATH_SIZE], below[SCRATCH_PATH_SIZE], chain[3 * SCRATCH_PATH_SIZE];
    snprintf(above, sizeof above, "%s/above", f->directory);
    snprintf(below, sizeof below, "%s/below", f->directory);
    snprintf(chain, sizeof chain, "%s|%s", above, below);
    const kilni_ending endings[] = {KILNI_KEEP_ENTRIES, KILNI_KEEP_PROGRAM};
    for (size_t i = 0; i < 2; i++) {
        const kiln_key *key = i == 0 ? f->a : f->b;
        environment at;
        assert_true(open_environment(&at, &f->device, endings[i], below, 0));
        request(&at, key, NULL, KILNI_FROM_BUILD);
        close_environment(&at);

        kilni_os_table table = *kilni_os_system();
        table.write = counted_write;
        asking = pthread_self();
        own_writes = others_writes = 0;
        kilni_os_replace(&table);
        assert_true(open_environment(&at, &f->device, endings[i], chain, 0));
        own_writes = 0; /* the directory's tag was written when the directory was made */
        request(&at, key, NULL, KILNI_FROM_STORE);
        assert_int_equal(own_writes, 0);
        assert_int_equal(kilni_writer_drain(at.writer, DRAIN_NS), KILN_OK);
        assert_int_equal(own_writes, 0);
        assert_int_equal(others_writes, 1);
        assert_int_equal(stat_of(&at).totals.dropped, 0);
        close_environment(&at);
        kilni_os_replace(NULL);
        assert_true(has_entry(above, key));
    }
}

/* An entry that the device refuses is not copied up either. */
static void test_refused_entry_is_not_copied_upward(void **state)
{
    fixture *f = *state;
    char above[SCRATCH_PATH_SIZE], below[SCRATCH_PATH_SIZE], chain[3 * SCRATCH_PATH_SIZE];
    snprintf(above, sizeof above, "%s/above", f->directory);
    snprintf(below, sizeof below, "%s/below", f->directory);
    snprintf(chain, sizeof chain, "%s|%s?readonly=1", above, below);
    environment at;
    assert_true(open_environment(&at, &f->device, KILNI_KEEP_ENTRIES, below, 0));
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    close_environment(&at);
    script(&f->device.load, SCRIPTED_ALWAYS, KILN_E_REFUSED);
    script(&f->device.capture, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    assert_true(open_environment(&at, &f->device, KILNI_KEEP_ENTRIES, chain, 0));
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    close_environment(&at);
    assert_false(has_entry(above, f->a));
}

/* Takes longer than a look-up does on a busy machine. */
static void build_slowly(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        nap();
    }
}

static void test_saved_time_is_counted(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    f->device.while_building = build_slowly;
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    f->device.while_building = NULL;
    kiln_stats before = stat_of(&at).totals;
    assert_true(before.build_ns >= 300 * 1000000);
    assert_int_equal(before.saved_ns, 0);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    const uint64_t saved_ns = stat_of(&at).totals.saved_ns;
    assert_true(saved_ns > 0 && saved_ns <= before.build_ns);
    open_again(&at, f->directory);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_true(stat_of(&at).totals.saved_ns > saved_ns);
    close_environment(&at);
}

static void test_without_store(void **state)
{
    fixture *f = *state;
    environment at;
    for (int ending = KILNI_KEEP_ENTRIES; ending <= KILNI_KEEP_PROGRAM; ending++) {
        assert_true(open_environment(&at, &f->device, ending, NULL, 0));
        assert_int_equal(request(&at, f->a, NULL, KILNI_FROM_BUILD).kept, KILN_OK);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        close_environment(&at);
    }
    assert_int_equal(atomic_load(&f->device.build.count), 2);
}

static void expect_last_miss(const environment *at, const kiln_key *expected)
{
    kiln_key *key = NULL;
    int64_t missed_s = 0;
    assert_int_equal(kiln_store_get_last_miss(at->store, &key, &missed_s), KILN_OK);
    assert_true(kiln_key_equals(key, expected));
    kiln_key_release(&key);
}

/* A build notes the key that the store did not have; a hit notes nothing. */
static void test_the_last_miss_is_noted(void **state)
{
    fixture *f = *state;
    for (int ending = KILNI_KEEP_ENTRIES; ending <= KILNI_KEEP_PROGRAM; ending++) {
        environment at = enter(f, ending);
        close_environment(&at);
        assert_true(
            open_environment(&at, &f->device, ending, f->directory, KILN_STORE_NOTE_MISSES));
        kiln_store_remove(at.store, f->a);
        kiln_store_remove(at.store, f->b);
        request(&at, f->a, NULL, KILNI_FROM_BUILD);
        expect_last_miss(&at, f->a);
        request(&at, f->b, NULL, KILNI_FROM_BUILD);
        expect_last_miss(&at, f->b);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        kilni_writer_drain(at.writer, DRAIN_NS);
        kiln_cache_clear(at.memory);
        request(&at, f->a, NULL, KILNI_FROM_STORE);
        expect_last_miss(&at, f->b);
        close_environment(&at);
    }
}

static int collect_kind(void *user, const kiln_journal_event *event)
{
    char *kinds = user;
    const size_t length = strlen(kinds);
    assert_true(length < 14);
    kinds[length] = (char)('0' + event->kind);
    if (event->kind == KILN_JOURNAL_BUILD) {
        assert_true(event->build_ns > 0);
        assert_int_equal(event->store, KILN_MISS);
        assert_int_equal(event->kept, KILN_OK);
    }
    if (event->kind == KILN_JOURNAL_FAILURE) {
        assert_string_equal(event->device, "");
    }
    return 0;
}

/* Each build and each hit from the store is an event. Hits from memory are one event at the end. */
static void test_a_journal_is_kept(void **state)
{
    fixture *f = *state;
    for (int ending = KILNI_KEEP_ENTRIES; ending <= KILNI_KEEP_PROGRAM; ending++) {
        environment at;
        char kinds[16] = "", path[SCRATCH_DIRECTORY_SIZE + 16];
        snprintf(path, sizeof path, "%s/journal", f->directory);
        unlink(path);
        assert_true(open_environment(&at, &f->device, ending, f->directory, KILN_STORE_JOURNAL));
        kiln_store_remove(at.store, f->a);
        request(&at, f->a, NULL, KILNI_FROM_BUILD);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        kilni_writer_drain(at.writer, DRAIN_NS);
        kiln_cache_clear(at.memory);
        request(&at, f->a, NULL, KILNI_FROM_STORE);
        kilni_writer_drain(at.writer, DRAIN_NS);
        assert_int_equal(kiln_store_each_journal_event(at.store, collect_kind, kinds, NULL),
                         KILN_OK);
        assert_string_equal(kinds, "241");
        close_environment(&at);
    }
}

static void test_readonly_store(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    close_environment(&at);
    for (int i = 0; i < 2; i++) {
        assert_true(open_environment(&at, &f->device, KILNI_KEEP_ENTRIES, f->directory,
                                     KILN_STORE_READONLY));
        request(&at, f->a, NULL, KILNI_FROM_STORE);
        request(&at, f->b, NULL, KILNI_FROM_BUILD);
        request(&at, f->b, NULL, KILNI_FROM_MEMORY);
        close_environment(&at);
    }
    assert_int_equal(atomic_load(&f->device.build.count), 3);
    at = enter(f, KILNI_KEEP_ENTRIES);
    assert_totals(&at, (kiln_stats){.misses = 1, .builds = 1, .puts = 1});
    close_environment(&at);
}

static void test_expensive_capture_keeps_nothing(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_PROGRAM);
    caller c = {.at = &at, .ops = &ops_without_capture, .keys = {f->a}, .key_count = 1};
    run(&c);
    assert_got(&c, KILNI_FROM_BUILD);
    assert_int_equal(c.result.kept, KILN_E_UNSUPPORTED);
    leave(&c);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    assert_calls(f, 1, 0, 0);
    assert_totals(&at, (kiln_stats){.misses = 1, .builds = 1, .hits_memory = 1});
    close_environment(&at);
}

/* ---- several keys ---- */

static void test_equal_keys(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    kiln_key *equal = make_key("a", 0);
    caller c = {.at = &at, .keys = {f->a, f->b, equal, f->a}, .key_count = 4};
    run(&c);
    assert_got(&c, KILNI_FROM_BUILD);
    leave(&c);
    assert_calls(f, 1, 2, 0);
    run(&c);
    assert_got(&c, KILNI_FROM_MEMORY);
    leave(&c);
    open_again(&at, f->directory);
    run(&c);
    assert_got(&c, KILNI_FROM_STORE);
    leave(&c);
    assert_calls(f, 1, 2, 2);
    assert_totals(
        &at, (kiln_stats){.misses = 1, .builds = 1, .puts = 2, .hits_memory = 1, .hits_store = 1});
    kiln_key_release(&equal);
    close_environment(&at);
}

static void test_some_in_memory(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    request(&at, f->a, f->b, KILNI_FROM_BUILD);
    assert_int_equal(atomic_load(&f->device.load.count), 0);
    request(&at, f->b, f->a, KILNI_FROM_MEMORY);
    request(&at, f->b, NULL, KILNI_FROM_MEMORY);
    open_again(&at, f->directory);
    request(&at, f->b, f->a, KILNI_FROM_STORE);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    close_environment(&at);
}

static void test_some_in_store(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&at, f->directory);
    request(&at, f->b, f->a, KILNI_FROM_BUILD);
    assert_int_equal(atomic_load(&f->device.load.count), 0);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    open_again(&at, f->directory);
    request(&at, f->b, NULL, KILNI_FROM_STORE);
    request(&at, f->a, f->b, KILNI_FROM_STORE);
    request(&at, f->a, f->b, KILNI_FROM_MEMORY);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    close_environment(&at);
}

static void test_maximum_number_of_keys(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    kiln_key *keys[KILNI_REQUEST_KEYS_MAX];
    caller c = {.at = &at, .key_count = KILNI_REQUEST_KEYS_MAX};
    for (size_t i = 0; i < KILNI_REQUEST_KEYS_MAX; i++) {
        keys[i] = make_key("many", i);
        c.keys[i] = keys[i];
    }
    run(&c);
    assert_got(&c, KILNI_FROM_BUILD);
    leave(&c);
    assert_calls(f, 1, KILNI_REQUEST_KEYS_MAX, 0);
    run(&c);
    assert_got(&c, KILNI_FROM_MEMORY);
    leave(&c);
    open_again(&at, f->directory);
    run(&c);
    assert_got(&c, KILNI_FROM_STORE);
    leave(&c);
    assert_calls(f, 1, KILNI_REQUEST_KEYS_MAX, 2);
    assert_int_equal(stat_of(&at).entries, KILNI_REQUEST_KEYS_MAX);
    for (size_t i = 0; i < KILNI_REQUEST_KEYS_MAX; i++) {
        kiln_key_release(&keys[i]);
    }
    close_environment(&at);
}

/* If one of several captures fails, the other results are kept, and the request reports the
 * failure.
 */
static void test_one_of_several_captures_fails(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    script(&f->device.capture, 1, KILN_E_UNSUPPORTED);
    assert_int_equal(request(&at, f->a, f->b, KILNI_FROM_BUILD).kept, KILN_E_UNSUPPORTED);
    assert_int_equal(stat_of(&at).entries, 1);
    request(&at, f->a, f->b, KILNI_FROM_BUILD);
    request(&at, f->a, f->b, KILNI_FROM_MEMORY);
    close_environment(&at);
}

/* ---- entries that can't be used ---- */

static void check_refused_from_store(fixture *f, kilni_ending ending)
{
    environment at = enter(f, ending);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&at, f->directory);
    script(&f->device.load, 1, KILN_E_REFUSED);
    script(&f->device.build, 0, KILN_OK);
    const kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(atomic_load(&f->device.load.count), 1);
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    assert_totals(&at, (kiln_stats){.misses = 2, .builds = 2, .puts = 2, .corrupt = 1});
    assert_int_equal(result.store, KILN_E_REFUSED);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    open_again(&at, f->directory);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_int_equal(stat_of(&at).entries, 1);
    close_environment(&at);
}

static void test_entry_refused_by_the_device(void **state)
{
    check_refused_from_store(*state, KILNI_KEEP_ENTRIES);
}

static void test_program_refused_by_the_device(void **state)
{
    check_refused_from_store(*state, KILNI_KEEP_PROGRAM);
}

/* Whether the store contains the entry while it is built. */
static bool is_stored; /* written by the build, on the only thread */

static void look_while_building(void *user)
{
    const presence *p = user;
    is_stored = kiln_store_contains(p->at->store, p->key) == KILN_OK;
}

static void test_refused_entry_is_removed_before_the_build(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&at, f->directory);
    presence p = {&at, f->a};
    f->device.while_building = look_while_building;
    f->device.user = &p;
    is_stored = true;
    script(&f->device.load, 1, KILN_E_REFUSED);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_false(is_stored);
    close_environment(&at);
}

static void test_entry_in_memory_refused_by_the_device(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    stat_of(&at);
    script(&f->device.load, 1, KILN_E_REFUSED);
    const kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(result.store, KILN_E_REFUSED);
    assert_int_equal(result.kept, KILN_OK);
    /* The entry in memory was discarded, and the store contains the new build. */
    stat_of(&at);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    request(&at, f->a, NULL, KILNI_FROM_MEMORY);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    close_environment(&at);
}

/* Only the inputs have changed, so the entry stays valid for callers with the old inputs. */
static void test_outdated_entry_is_replaced(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    for (int is_in_memory = 0; is_in_memory < 2; is_in_memory++) {
        if (is_in_memory) {
            stat_of(&at);
        } else {
            open_again(&at, f->directory);
        }
        script(&f->device.load, SCRIPTED_ALWAYS, KILN_MISS);
        presence p = {&at, f->a};
        f->device.while_building = look_while_building;
        f->device.user = &p;
        is_stored = false;
        const kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
        assert_true(is_stored);
        assert_int_equal(result.store, KILN_MISS);
        assert_int_equal(result.kept, KILN_OK);
        assert_int_equal(stat_of(&at).totals.corrupt, 0);
        assert_int_equal(stat_of(&at).entries, 1);
        /* The entry in memory is tried once, and the entry in the store once; neither of them
         * twice. */
        assert_int_equal(atomic_load(&f->device.load.count), is_in_memory ? 2 : 1);
        script(&f->device.load, 0, KILN_OK);
        f->device.while_building = NULL;
        request(&at, f->a, NULL, is_in_memory ? KILNI_FROM_STORE : KILNI_FROM_MEMORY);
    }
    assert_int_equal(stat_of(&at).totals.puts, 3);
    close_environment(&at);
}

/* Replaces an outdated entry. Returns whether the new one was made from it. */
static bool is_merged(fixture *f, environment *at, uint32_t capabilities)
{
    open_again(at, f->directory);
    at->store->capabilities |= capabilities;
    script(&f->device.load, SCRIPTED_ALWAYS, KILN_MISS);
    caller c = {.at = at, .keys = {f->a}, .key_count = 1};
    run(&c);
    assert_got(&c, KILNI_FROM_BUILD);
    leave(&c);
    script(&f->device.load, 0, KILN_OK);
    return c.was_merged;
}

/* The signature would vouch for results of the outdated entry, which somebody else may have built.
 */
static void test_an_entry_that_is_signed_has_only_own_results(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_true(is_merged(f, &at, 0));
    assert_false(is_merged(f, &at, KILNI_STORE_VOUCHES));
    close_environment(&at);
}

/* A temporary failure of the device says nothing about the entry. */
static void test_load_that_fails_leaves_the_entry(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&at, f->directory);
    script(&f->device.load, SCRIPTED_ALWAYS, KILN_E_NO_MEMORY);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(atomic_load(&f->device.load.count), 1);
    assert_int_equal(stat_of(&at).totals.corrupt, 0);
    script(&f->device.load, 0, KILN_OK);
    open_again(&at, f->directory);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    close_environment(&at);
}

static void check_damaged(fixture *f, void (*damage)(const char *path))
{
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    close_environment(&at);
    char path[SCRATCH_PATH_SIZE];
    entry_path(f, f->a, path);
    damage(path);

    at = enter(f, KILNI_KEEP_ENTRIES);
    const kilni_request_result result = request(&at, f->a, NULL, KILNI_FROM_BUILD);
    assert_int_equal(result.store, KILN_E_CORRUPT);
    assert_int_equal(result.kept, KILN_OK);
    open_again(&at, f->directory);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    /* The damaged entry was counted once. */
    assert_totals(&at,
                  (kiln_stats){.misses = 2, .builds = 2, .puts = 2, .hits_store = 1, .corrupt = 1});
    close_environment(&at);
}

static void flip_a_bit(const char *path)
{
    flip(path, -100, 0x10);
}

static void cut_off(const char *path)
{
    assert_int_equal(truncate(path, 100), 0);
}

static void empty(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

/* Another process replaces a damaged entry between the first look-up and the lease. */
static char damaged_path[SCRATCH_PATH_SIZE];
static bool is_damaged;

static int lock_once_it_is_replaced(int file, short type, off_t offset, off_t size)
{
    if (is_damaged && type == F_WRLCK && size == 1) {
        is_damaged = false;
        flip_a_bit(damaged_path);
    }
    return kilni_os_system()->lock(file, type, offset, size);
}

static void test_damaged_entry_that_another_process_replaces(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    open_again(&at, f->directory);
    entry_path(f, f->a, damaged_path);
    flip_a_bit(damaged_path);
    is_damaged = true;
    kilni_os_table table = *kilni_os_system();
    table.lock = lock_once_it_is_replaced;
    kilni_os_replace(&table);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_false(is_damaged);
    assert_calls(f, 1, 1, 1);
    assert_totals(&at,
                  (kiln_stats){.misses = 1, .builds = 1, .puts = 1, .hits_store = 1, .corrupt = 1});
    close_environment(&at);
}

static void test_damaged_entry_is_replaced(void **state)
{
    check_damaged(*state, flip_a_bit);
}

static void test_truncated_entry_is_replaced(void **state)
{
    check_damaged(*state, cut_off);
}

static void test_empty_entry_is_replaced(void **state)
{
    check_damaged(*state, empty);
}

/* One of several entries is damaged: all of them are built, and the damage is reported. */
static void test_damaged_entry_among_others(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, f->b, KILNI_FROM_BUILD);
    for (int i = 0; i < 2; i++) {
        close_environment(&at);
        char path[SCRATCH_PATH_SIZE];
        entry_path(f, i == 0 ? f->a : f->b, path);
        flip_a_bit(path);
        at = enter(f, KILNI_KEEP_ENTRIES);
        assert_int_equal(request(&at, f->a, f->b, KILNI_FROM_BUILD).store, KILN_E_CORRUPT);
    }
    open_again(&at, f->directory);
    request(&at, f->a, f->b, KILNI_FROM_STORE);
    close_environment(&at);
}

static void test_newer_entry_stays(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_BUILD);
    close_environment(&at);
    char path[SCRATCH_PATH_SIZE];
    entry_path(f, f->a, path);
    const unsigned char to_newer = KILNI_ENTRY_VERSION ^ (KILNI_ENTRY_VERSION + 1);
    flip(path, KILNI_ENTRY_VERSION_OFFSET, to_newer);

    for (int i = 0; i < 2; i++) {
        at = enter(f, KILNI_KEEP_ENTRIES);
        assert_int_equal(request(&at, f->a, NULL, KILNI_FROM_BUILD).store, KILN_E_VERSION);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        close_environment(&at);
    }
    /* With its version restored, the file is still the entry that the first build stored. */
    flip(path, KILNI_ENTRY_VERSION_OFFSET, to_newer);
    at = enter(f, KILNI_KEEP_ENTRIES);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_totals(
        &at,
        (kiln_stats){
            .misses = 3, .builds = 3, .puts = 1, .dropped = 2, .hits_memory = 2, .hits_store = 1});
    close_environment(&at);
}

/* ---- a device that is out of resources ---- */

/* Under a layer, a failed build is not repeated: the program gets what the driver reports. */
static void test_entries_are_built_once_even_without_resources(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    script(&f->device.build, 1, KILN_E_RESOURCES);
    caller c = {.at = &at, .keys = {f->a}, .key_count = 1};
    run(&c);
    assert_int_equal(c.status, KILN_E_RESOURCES);
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    close_environment(&at);
}

/* ---- memory that admits nothing ---- */

static void test_bypass_of_entries(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_ENTRIES);
    assert_int_equal(kiln_cache_set_capacity(at.memory, 0, 0), KILN_OK);
    request(&at, f->a, NULL, KILNI_FROM_PRIVATE_BUILD);
    request(&at, f->a, NULL, KILNI_FROM_PRIVATE_BUILD);
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    close_environment(&at);
}

/* The store serves callers for which memory keeps nothing. */
static void test_bypass_of_a_program(void **state)
{
    fixture *f = *state;
    environment at = enter(f, KILNI_KEEP_PROGRAM);
    assert_int_equal(kiln_cache_set_capacity(at.memory, 0, 0), KILN_OK);
    request(&at, f->a, NULL, KILNI_FROM_PRIVATE_BUILD);
    assert_int_equal(kilni_writer_drain(at.writer, DRAIN_NS), KILN_OK);
    request(&at, f->a, NULL, KILNI_FROM_STORE);
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    close_environment(&at);
}

static kiln_status answer; /* the status that the load below returns */

/* A second request loads the same entry meanwhile, and its program is kept in memory. */
static kiln_status load_after_another(void *user, const kiln_entry *const *entries)
{
    (void)entries;
    const caller *c = user;
    assert_int_equal(kiln_cache_set_capacity(c->at->memory, KILN_UNLIMITED, KILN_UNLIMITED),
                     KILN_OK);
    request(c->at, c->keys[0], NULL, KILNI_FROM_STORE);
    return answer;
}

/* A faulty entry does not affect a program that is in memory. */
static void test_program_stays_when_its_entry_is_removed(void **state)
{
    fixture *f = *state;
    static const kiln_status answers[] = {KILN_MISS, KILN_E_REFUSED};
    kilni_request_ops ops = all_ops;
    ops.load = load_after_another;
    for (int i = 0; i < 2; i++) {
        environment at = enter(f, KILNI_KEEP_PROGRAM);
        assert_int_equal(kiln_cache_set_capacity(at.memory, 0, 0), KILN_OK);
        request(&at, f->a, NULL, i == 0 ? KILNI_FROM_PRIVATE_BUILD : KILNI_FROM_STORE);
        stat_of(&at);
        answer = answers[i];
        caller c = {.at = &at, .ops = &ops, .keys = {f->a}, .key_count = 1};
        run(&c);
        assert_got(&c, KILNI_FROM_PRIVATE_BUILD);
        leave(&c);
        request(&at, f->a, NULL, KILNI_FROM_MEMORY);
        close_environment(&at);
    }
}

/* ---- out of memory ---- */

/* Whichever allocation fails, the caller gets its program: a fault of the cache never makes a build
 * fail. */
static void check_failing_allocations(fixture *f, kilni_ending ending, bool is_stored_before)
{
    bool has_run_out = true;
    for (size_t n = 1; has_run_out; n++) {
        assert_true(n < 1000);
        environment at = enter(f, ending);
        kiln_key *key = make_key("starved", (uint64_t)ending * 10000 + n);
        if (is_stored_before) {
            request(&at, key, NULL, KILNI_FROM_BUILD);
            open_again(&at, f->directory);
        }
        caller c = {.at = &at, .keys = {key}, .key_count = 1};
        failing_malloc_arm(n);
        run(&c);
        kilni_writer_drain(at.writer, DRAIN_NS);
        has_run_out = failing_malloc_disarm() >= n;
        assert_int_equal(c.status, KILN_OK);
        assert_int_equal(program_of(&c)->value, value_of_program(&c));
        leave(&c);
        run(&c);
        assert_int_equal(c.status, KILN_OK);
        leave(&c);
        kiln_key_release(&key);
        close_environment(&at);
    }
}

static void test_failing_allocations_of_a_build(void **state)
{
    check_failing_allocations(*state, KILNI_KEEP_ENTRIES, false);
    check_failing_allocations(*state, KILNI_KEEP_PROGRAM, false);
}

static void test_failing_allocations_of_a_hit(void **state)
{
    check_failing_allocations(*state, KILNI_KEEP_ENTRIES, true);
    check_failing_allocations(*state, KILNI_KEEP_PROGRAM, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_arguments),
        TEST(test_steps_of_a_request_for_entries),
        TEST(test_steps_of_a_request_for_a_program),
        TEST(test_the_writer_copies_hits_to_the_tiers_above),
        TEST(test_refused_entry_is_not_copied_upward),
        TEST(test_saved_time_is_counted),
        TEST(test_without_store),
        TEST(test_the_last_miss_is_noted),
        TEST(test_a_journal_is_kept),
        TEST(test_readonly_store),
        TEST(test_expensive_capture_keeps_nothing),
        TEST(test_equal_keys),
        TEST(test_some_in_memory),
        TEST(test_some_in_store),
        TEST(test_maximum_number_of_keys),
        TEST(test_entry_refused_by_the_device),
        TEST(test_program_refused_by_the_device),
        TEST(test_refused_entry_is_removed_before_the_build),
        TEST(test_entry_in_memory_refused_by_the_device),
        TEST(test_outdated_entry_is_replaced),
        TEST(test_an_entry_that_is_signed_has_only_own_results),
        TEST(test_load_that_fails_leaves_the_entry),
        TEST(test_damaged_entry_that_another_process_replaces),
        TEST(test_damaged_entry_is_replaced),
        TEST(test_truncated_entry_is_replaced),
        TEST(test_empty_entry_is_replaced),
        TEST(test_damaged_entry_among_others),
        TEST(test_newer_entry_stays),
        TEST(test_one_of_several_captures_fails),
        TEST(test_entries_are_built_once_even_without_resources),
        TEST(test_bypass_of_entries),
        TEST(test_bypass_of_a_program),
        TEST(test_program_stays_when_its_entry_is_removed),
        TEST(test_failing_allocations_of_a_build),
        TEST(test_failing_allocations_of_a_hit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
