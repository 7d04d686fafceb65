/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefetches of programs: what is loaded, what stays as it was, and how often a real Redis server
 * is asked.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/failing_malloc.h"
#include "support/program_scene.h"
#include "support/redis_server.h"

enum { COUNT = 16, MANY = 70 };

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static int control; /* a connection to the server */
static program_scene s;
static kiln_store *store;
static kiln_program_desc *descs[MANY];

static const kiln_program_desc *const *all_descs(void)
{
    return (const kiln_program_desc *const *)descs;
}

/* A machine is a directory in front of the server. */
static void open_machine(const char *name)
{
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/%s|redis://127.0.0.1:%u?trust=any", scratch, name,
             server.port);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
    memset(&s, 0, sizeof s);
    program_scene_init(&s);
    s.params.store = store;
    s.devices[0].text = "a device";
    program_scene_open(&s);
    for (unsigned i = 0; i < MANY; i++) {
        char text[32];
        snprintf(text, sizeof text, "program %u", i);
        descs[i] = describe_image(&s, text);
    }
}

static void close_machine(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        kiln_program_desc_release(&descs[i]);
    }
    assert_true(program_scene_close(&s));
    kiln_store_close(&store);
}

static void move_to(const char *name)
{
    close_machine();
    open_machine(name);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!redis_start(&server, scratch, no_options)) {
        return -1;
    }
    control = redis_dial(&server);
    open_machine("first");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_machine();
    close(control);
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

static void build_first(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        touch(descs[i], KILN_PROGRAM_FROM_BUILD);
    }
    assert_int_equal(kiln_program_context_drain(s.context, UINT64_C(60000000000)), KILN_OK);
}

static size_t prefetch(size_t count)
{
    size_t loaded = 1000;
    assert_int_equal(kiln_program_prefetch(all_descs(), count, &loaded), KILN_OK);
    return loaded;
}

static unsigned long count_reads(void)
{
    return redis_info(control, "stats", "total_reads_processed:");
}

static unsigned long count_leases(void)
{
    return redis_info(control, "commandstats", "cmdstat_eval:calls=");
}

/* ---- what is loaded ---- */

static void test_later_requests_find_them_in_memory(void **state)
{
    (void)state;
    build_first(MANY - 3);
    move_to("second");
    assert_int_equal(prefetch(MANY), MANY - 3);
    assert_int_equal(atomic_load(&s.devices[0].load.count), MANY - 3);
    assert_int_equal(atomic_load(&s.devices[0].build.count), 0);
    for (size_t i = 0; i < MANY; i++) {
        touch(descs[i], i < MANY - 3 ? KILN_PROGRAM_FROM_MEMORY : KILN_PROGRAM_FROM_BUILD);
    }
    assert_int_equal(prefetch(MANY), 0);
    /* The directory has got copies. */
    redis_say(&server, "FLUSHALL");
    assert_int_equal(kiln_program_context_drain(s.context, UINT64_C(60000000000)), KILN_OK);
    move_to("second");
    assert_int_equal(prefetch(MANY), MANY);
}

static void test_counters(void **state)
{
    (void)state;
    build_first(10);
    move_to("second");
    assert_int_equal(prefetch(COUNT), 10);
    assert_int_equal(kiln_program_context_drain(s.context, UINT64_C(60000000000)), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    close_machine();
    kiln_store *local = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "second"), NULL, &local, NULL), KILN_OK);
    assert_int_equal(kiln_store_get_stat(local, 0, &stat), KILN_OK);
    kiln_store_close(&local);
    assert_int_equal(stat.entries, 10);
    assert_int_equal(stat.totals.hits_store, 10);
    assert_int_equal(stat.totals.misses, 0);
    assert_int_equal(stat.totals.builds, 0);
    open_machine("second");
}

static void test_the_same_description_twice(void **state)
{
    (void)state;
    build_first(2);
    move_to("second");
    const kiln_program_desc *const twice[] = {descs[0], descs[1], descs[0], descs[5], descs[5]};
    size_t loaded = 0;
    assert_int_equal(kiln_program_prefetch(twice, 5, &loaded), KILN_OK);
    assert_int_equal(loaded, 2);
    touch(descs[0], KILN_PROGRAM_FROM_MEMORY);
    touch(descs[5], KILN_PROGRAM_FROM_BUILD);
}

static void test_entries_that_cannot_be_used(void **state)
{
    (void)state;
    build_first(4);
    move_to("second");
    script(&s.devices[0].load, 1, KILN_E_REFUSED);
    assert_int_equal(prefetch(4), 3);
    move_to("third");
    script(&s.devices[0].load, 1, KILN_E_NO_MEMORY);
    assert_in_range(prefetch(4), 3, 4);
    move_to("fourth");
    assert_int_equal(prefetch(4), 4);
}

static void test_arguments(void **state)
{
    (void)state;
    size_t loaded = 7;
    program_scene other = {.context = NULL};
    program_scene_init(&other);
    other.devices[0].text = "a different device";
    program_scene_open(&other);
    kiln_program_desc *foreign = describe_image(&other, "x");
    const kiln_program_desc *const mixed[] = {descs[0], foreign};
    const kiln_program_desc *const hole[] = {descs[0], NULL};
    assert_int_equal(kiln_program_prefetch(mixed, 2, &loaded), KILN_E_INVALID);
    assert_int_equal(kiln_program_prefetch(hole, 2, &loaded), KILN_E_INVALID);
    assert_int_equal(kiln_program_prefetch(NULL, 1, &loaded), KILN_E_INVALID);
    assert_int_equal(loaded, 7);
    assert_int_equal(kiln_program_prefetch(NULL, 0, &loaded), KILN_OK);
    assert_int_equal(loaded, 0);
    assert_int_equal(kiln_program_prefetch(all_descs(), 3, NULL), KILN_OK);
    const kiln_program_desc *const own = foreign;
    assert_int_equal(kiln_program_prefetch(&own, 1, &loaded), KILN_OK); /* no store */
    assert_int_equal(loaded, 0);
    kiln_program_desc_release(&foreign);
    assert_true(program_scene_close(&other));
}

/* ---- what the server is asked ---- */

static void test_one_round_trip_and_no_lease(void **state)
{
    (void)state;
    assert_int_equal(prefetch(1), 0); /* the connection is open */
    const unsigned long reads = count_reads();
    assert_int_equal(prefetch(COUNT), 0);
    assert_int_equal(count_reads(), reads + 2);
    assert_int_equal(count_leases(), 0);
    /* Only the key that is built takes a lease. */
    touch(descs[3], KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_program_context_drain(s.context, UINT64_C(60000000000)), KILN_OK);
    const unsigned long leases = count_leases();
    assert_in_range(leases, 1, 3); /* it is taken, perhaps renewed, and released */
    redis_stop(&server);
    assert_int_equal(prefetch(COUNT), 0);
}

/* ---- other threads ---- */

static void *request_all(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < MANY; i++) {
        kiln_program *program = NULL;
        if (kiln_program_get(descs[MANY - 1 - i], &program, NULL, NULL) != KILN_OK) {
            abort();
        }
        kiln_program_release(&program);
    }
    return NULL;
}

static void *prefetch_all(void *argument)
{
    (void)argument;
    if (kiln_program_prefetch(all_descs(), MANY, NULL) != KILN_OK) {
        abort();
    }
    return NULL;
}

/* A thread that waits for a program which the prefetch does not find builds it. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[6];
    build_first(MANY / 2);
    move_to("second");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 3 ? prefetch_all : request_all, NULL), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&s.devices[0].build.count), MANY - MANY / 2);
    assert_int_equal(atomic_load(&s.devices[0].load.count), MANY / 2);
}

/* ---- lack of memory ---- */

static void test_without_memory(void **state)
{
    (void)state;
    build_first(3);
    for (size_t n = 1;; n++) {
        char name[24];
        snprintf(name, sizeof name, "n%zu", n);
        move_to(name);
        size_t loaded = 0;
        failing_malloc_arm(n);
        const kiln_status status = kiln_program_prefetch(all_descs(), 5, &loaded);
        const bool is_over = failing_malloc_disarm() < n;
        assert_true(status == KILN_OK || (!is_over && status == KILN_E_NO_MEMORY));
        assert_in_range(loaded, is_over ? 3 : 0, 3);
        for (size_t i = 0; i < 3; i++) {
            kiln_program *program = NULL;
            assert_int_equal(kiln_program_get(descs[i], &program, NULL, NULL), KILN_OK);
            kiln_program_release(&program);
        }
        assert_int_equal(atomic_load(&s.devices[0].build.count), 0);
        if (is_over) {
            break;
        }
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_later_requests_find_them_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_same_description_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_entries_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_round_trip_and_no_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
