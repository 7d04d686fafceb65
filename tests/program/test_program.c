/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/failing_malloc.h"
#include "support/get_program.h"
#include "support/scripted_device.h"
#include "support/store_scene.h"

#define THREADS 6
#define DRAIN_NS UINT64_C(60000000000)

/* ---- a context and its scene ---- */

typedef struct environment {
    kiln_store *store;
    kiln_program_context *context;
} environment;

typedef struct fixture {
    char directory[SCRATCH_DIRECTORY_SIZE];
    scripted_device device;
} fixture;

static int set_up(void **state)
{
    fixture *f = test_calloc(1, sizeof *f);
    scratch_make(f->directory);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    const bool is_clean =
        atomic_load(&f->device.live_programs) == 0 && atomic_load(&f->device.wrong) == 0;
    if (!is_clean) {
        print_error("%d programs not released, %d wrong binaries loaded\n",
                    atomic_load(&f->device.live_programs), atomic_load(&f->device.wrong));
    }
    scratch_remove(f->directory);
    test_free(f);
    return is_clean ? 0 : -1;
}

static kiln_status open_context(const fixture *f, const environment *at, const kiln_device_ops *ops,
                                const kiln_cache_params *memory, kiln_program_context **ret_context)
{
    void *const devices[] = {(void *)(uintptr_t)&f->device};
    kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = ops,
        .devices = devices,
        .device_count = 1,
        .store = at->store,
    };
    if (memory) {
        params.max_programs = memory->max_entries;
        params.max_bytes = memory->max_bytes;
        params.policy = memory->policy;
    }
    return kiln_program_context_new(&params, ret_context);
}

static environment enter(const fixture *f, const kiln_device_ops *ops,
                         const kiln_cache_params *memory)
{
    environment at = {0};
    assert_int_equal(kiln_store_open(f->directory, NULL, &at.store, NULL), KILN_OK);
    assert_int_equal(open_context(f, &at, ops, memory, &at.context), KILN_OK);
    return at;
}

static void close_environment(environment *at)
{
    kiln_program_context_free(&at->context);
    assert_null(at->context);
    kiln_store_close(&at->store);
}

static kiln_stats totals_of(const environment *at)
{
    assert_int_equal(kiln_program_context_drain(at->context, DRAIN_NS), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(at->store, 0, &stat), KILN_OK);
    return stat.totals;
}

/* ---- obtaining ---- */

static kiln_program_source source_of(const char *text, const char *options)
{
    return (kiln_program_source){.struct_size = sizeof(kiln_program_source),
                                 .form = KILN_SOURCE_TEXT,
                                 .code = {text, strlen(text)},
                                 .options = options,
                                 .name = "test"};
}

/* Gets a program, and checks where it came from. */
static kiln_program *obtain(const environment *at, const char *text, uint32_t from)
{
    const kiln_program_source source = source_of(text, "-O2");
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(get_program(at->context, &source, &program, &result, NULL), KILN_OK);
    assert_int_equal(result.from, from);
    assert_non_null(kiln_program_handle(program));
    return program;
}

static void release(kiln_program **program)
{
    kiln_program_release(program);
    assert_null(*program);
}

static uint64_t value_of(const kiln_program *program)
{
    return ((const scripted_program *)kiln_program_handle(program))->value;
}

static uint64_t expected_value(const char *text, const char *options)
{
    return scripted_value(scripted_value(0, text, strlen(text)), options, strlen(options));
}

/* ---- tests ---- */

static void test_wrong_arguments(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program_context *context = NULL;
    void *const devices[] = {&f->device};
    kiln_program_context_params params = {.struct_size = sizeof params,
                                          .ops = &scripted_cheap_ops,
                                          .devices = devices,
                                          .device_count = 1};
    assert_int_equal(kiln_program_context_new(NULL, &context), KILN_E_INVALID);
    assert_int_equal(kiln_program_context_new(&params, NULL), KILN_E_INVALID);
    params.ops = NULL;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_E_INVALID);
    params.ops = &scripted_cheap_ops;
    params.device_count = 0;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_E_INVALID);
    params.device_count = 1;
    params.devices = NULL;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_E_INVALID);
    params.devices = devices;
    params.rules = KILN_RULES_IMAGES + 1;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_E_INVALID);
    params.rules = KILN_RULES_ALL;
    params.flags = 1u << 31;
    assert_int_equal(kiln_program_context_new(&params, &context), KILN_E_INVALID);
    const kiln_cache_params memory = {.struct_size = sizeof memory, .policy = 1000};
    assert_int_equal(open_context(f, &at, &scripted_cheap_ops, &memory, &context), KILN_E_INVALID);
    assert_null(context);

    kiln_program_source source = source_of("s", NULL);
    kiln_program *program = NULL;
    assert_int_equal(get_program(NULL, &source, &program, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(get_program(at.context, &source, NULL, NULL, NULL), KILN_E_INVALID);
    source.code.data = NULL;
    assert_int_equal(get_program(at.context, &source, &program, NULL, NULL), KILN_E_INVALID);
    assert_null(program);
    kiln_program_release(NULL);
    kiln_program_release(&program);
    kiln_program_context_free(NULL);
    kiln_program_context_free(&context);
    close_environment(&at);
    assert_int_equal(atomic_load(&f->device.build.count), 0);
}

static void test_callers_share_one_program(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *first = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    kiln_program *second = obtain(&at, "s", KILN_PROGRAM_FROM_MEMORY);
    kiln_program *other = obtain(&at, "t", KILN_PROGRAM_FROM_BUILD);
    assert_ptr_equal(kiln_program_handle(first), kiln_program_handle(second));
    assert_ptr_not_equal(kiln_program_handle(first), kiln_program_handle(other));
    assert_int_equal(value_of(first), expected_value("s", "-O2"));
    assert_int_equal(value_of(other), expected_value("t", "-O2"));
    assert_int_equal(atomic_load(&f->device.live_programs), 2);
    release(&first);
    release(&second);
    release(&other);
    /* The map keeps both programs until the context ends. */
    assert_int_equal(atomic_load(&f->device.live_programs), 2);
    close_environment(&at);
    assert_int_equal(atomic_load(&f->device.live_programs), 0);
}

static void test_options_distinguish_programs(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    static const char *const options[] = {"-O2", "-O3"};
    for (int i = 0; i < 2; i++) {
        const kiln_program_source source = source_of("s", options[i]);
        kiln_program *program = NULL;
        assert_int_equal(get_program(at.context, &source, &program, NULL, NULL), KILN_OK);
        assert_int_equal(value_of(program), expected_value("s", options[i]));
        release(&program);
    }
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    close_environment(&at);
}

static void test_next_context_loads(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);

    at = enter(f, &scripted_cheap_ops, NULL);
    program = obtain(&at, "s", KILN_PROGRAM_FROM_STORE);
    assert_int_equal(value_of(program), expected_value("s", "-O2"));
    kiln_program *again = obtain(&at, "s", KILN_PROGRAM_FROM_MEMORY);
    assert_ptr_equal(kiln_program_handle(program), kiln_program_handle(again));
    release(&again);
    release(&program);
    const kiln_stats totals = totals_of(&at);
    assert_int_equal(totals.builds, 1);
    assert_int_equal(totals.misses, 1);
    assert_int_equal(totals.puts, 1);
    assert_int_equal(totals.hits_store, 1);
    assert_int_equal(totals.hits_memory, 1);
    close_environment(&at);
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    assert_int_equal(atomic_load(&f->device.load.count), 1);
}

/* A different device has different keys, in the same store. */
static void test_identity_distinguishes_devices(void **state)
{
    fixture *f = *state;
    f->device.text = "one";
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);
    f->device.text = "two";
    at = enter(f, &scripted_cheap_ops, NULL);
    program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);
    f->device.text = "one";
    at = enter(f, &scripted_cheap_ops, NULL);
    program = obtain(&at, "s", KILN_PROGRAM_FROM_STORE);
    release(&program);
    close_environment(&at);
}

static void test_expensive_capture_shares_in_memory_only(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        environment at = enter(f, &scripted_expensive_ops, NULL);
        kiln_program *first = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
        kiln_program *second = obtain(&at, "s", KILN_PROGRAM_FROM_MEMORY);
        assert_ptr_equal(kiln_program_handle(first), kiln_program_handle(second));
        release(&first);
        release(&second);
        close_environment(&at);
    }
    assert_int_equal(atomic_load(&f->device.capture.count), 0);
}

static void forget_the_source(void *user)
{
    scripted_device *device = user;
    script(&device->describe, 1, KILN_E_UNSUPPORTED);
}

/* Checks that no other caller gets the result of a build during which the key's inputs changed. */
static void check_changed_meanwhile(fixture *f, const kiln_device_ops *ops)
{
    environment at = enter(f, ops, NULL);
    f->device.while_building = forget_the_source;
    f->device.user = &f->device;
    const kiln_program_source source = source_of("s", "-O2");
    kiln_program *first = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(get_program(at.context, &source, &first, &result, NULL), KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    f->device.while_building = NULL;
    kiln_program *second = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    assert_ptr_not_equal(kiln_program_handle(first), kiln_program_handle(second));
    release(&first);
    assert_int_equal(atomic_load(&f->device.live_programs), 1);
    release(&second);
    kiln_program *third = obtain(&at, "s", KILN_PROGRAM_FROM_MEMORY);
    release(&third);
    close_environment(&at);
}

static void test_inputs_that_change_meanwhile(void **state)
{
    check_changed_meanwhile(*state, &scripted_expensive_ops);
    check_changed_meanwhile(*state, &scripted_cheap_ops);
}

static void test_programs_outlive_their_context(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *first = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    kiln_program *second = obtain(&at, "s", KILN_PROGRAM_FROM_MEMORY);
    close_environment(&at);
    assert_int_equal(atomic_load(&f->device.live_programs), 1);
    assert_int_equal(value_of(first), expected_value("s", "-O2"));
    release(&first);
    assert_int_equal(value_of(second), expected_value("s", "-O2"));
    release(&second);
    assert_int_equal(atomic_load(&f->device.live_programs), 0);
}

static void check_private(fixture *f)
{
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *first = obtain(&at, "s", KILN_PROGRAM_FROM_PRIVATE_BUILD);
    kiln_program *second = obtain(&at, "s", KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_ptr_not_equal(kiln_program_handle(first), kiln_program_handle(second));
    assert_int_equal(value_of(first), expected_value("s", "-O2"));
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    assert_int_equal(atomic_load(&f->device.capture.count), 0);
    release(&first);
    assert_int_equal(atomic_load(&f->device.live_programs), 1);
    const kiln_stats totals = totals_of(&at);
    assert_int_equal(totals.passed_through, 2);
    assert_int_equal(totals.misses, 0);
    close_environment(&at);
    release(&second);
}

static void test_device_that_cannot_be_identified(void **state)
{
    fixture *f = *state;
    script(&f->device.identity, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    check_private(f);
}

static void test_source_that_cannot_be_determined(void **state)
{
    fixture *f = *state;
    script(&f->device.describe, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    check_private(f);
}

static void test_device_that_fails_to_identify_itself(void **state)
{
    fixture *f = *state;
    environment at = {0};
    script(&f->device.identity, 1, KILN_E_NO_MEMORY);
    assert_int_equal(open_context(f, &at, &scripted_cheap_ops, NULL, &at.context),
                     KILN_E_NO_MEMORY);
    assert_null(at.context);
    assert_int_equal(open_context(f, &at, &scripted_cheap_ops, NULL, &at.context), KILN_OK);
    kiln_program *program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);
}

static void check_failing(fixture *f, uint32_t from)
{
    environment at = enter(f, &scripted_cheap_ops, NULL);
    const kiln_program_source source = source_of("s", "-O2");
    script(&f->device.build, 1, KILN_E_BUILD);
    f->device.build_text = "line 3: no";
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(get_program(at.context, &source, &program, NULL, &error), KILN_E_BUILD);
    assert_null(program);
    assert_int_equal(error.status, KILN_E_BUILD);
    assert_string_equal(error.text, "line 3: no");
    assert_int_equal(atomic_load(&f->device.live_programs), 0);
    program = obtain(&at, "s", from);
    release(&program);
    close_environment(&at);
}

static void test_failing_build(void **state)
{
    check_failing(*state, KILN_PROGRAM_FROM_BUILD);
}

static void test_failing_build_without_key(void **state)
{
    fixture *f = *state;
    script(&f->device.describe, SCRIPTED_ALWAYS, KILN_E_UNSUPPORTED);
    check_failing(f, KILN_PROGRAM_FROM_PRIVATE_BUILD);
}

/* Checks that everything that can be freed is freed, and that the device is then called once more,
 * for programs with and without a key.
 */
static void check_out_of_resources(fixture *f, uint32_t from)
{
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *program = obtain(&at, "idle", from);
    release(&program);
    script(&f->device.build, 1, KILN_E_RESOURCES);
    const kiln_program_source source = source_of("s", "-O2");
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(get_program(at.context, &source, &program, NULL, &error), KILN_OK);
    /* The second call of the device succeeded, so the error is unchanged. */
    assert_string_equal(error.text, "");
    assert_int_equal(atomic_load(&f->device.build.count), 2);
    assert_int_equal(atomic_load(&f->device.live_programs), 1);
    release(&program);
    close_environment(&at);
}

static void test_out_of_resources(void **state)
{
    check_out_of_resources(*state, KILN_PROGRAM_FROM_BUILD);
}

static void test_refused_binary_is_built_again(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);
    script(&f->device.load, 1, KILN_E_REFUSED);
    at = enter(f, &scripted_cheap_ops, NULL);
    program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    release(&program);
    close_environment(&at);
    at = enter(f, &scripted_cheap_ops, NULL);
    program = obtain(&at, "s", KILN_PROGRAM_FROM_STORE);
    release(&program);
    close_environment(&at);
}

static void test_bounds_evict(void **state)
{
    fixture *f = *state;
    const kiln_cache_params memory = {
        .struct_size = sizeof memory, .max_entries = 2, .policy = KILN_POLICY_LRU};
    environment at = enter(f, &scripted_cheap_ops, &memory);
    kiln_program *held = obtain(&at, "a", KILN_PROGRAM_FROM_BUILD);
    static const char *const texts[] = {"b", "c", "d"};
    for (int i = 0; i < 3; i++) {
        kiln_program *program = obtain(&at, texts[i], KILN_PROGRAM_FROM_BUILD);
        release(&program);
        assert_in_range(atomic_load(&f->device.live_programs), 1, 3);
    }
    /* Two programs are in the map; a third may exist only while it is held. */
    kiln_program *again = obtain(&at, "d", KILN_PROGRAM_FROM_MEMORY);
    release(&again);
    assert_int_equal(totals_of(&at).puts, 4);
    again = obtain(&at, "b", KILN_PROGRAM_FROM_STORE);
    release(&again);
    assert_int_equal(value_of(held), expected_value("a", "-O2"));
    release(&held);
    assert_in_range(atomic_load(&f->device.live_programs), 1, 2);
    close_environment(&at);
}

static void test_program_larger_than_the_cache(void **state)
{
    fixture *f = *state;
    const kiln_cache_params memory = {.struct_size = sizeof memory, .max_bytes = 4};
    environment at = enter(f, &scripted_cheap_ops, &memory);
    kiln_program *program = obtain(&at, "long enough", KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(value_of(program), expected_value("long enough", "-O2"));
    release(&program);
    assert_int_equal(atomic_load(&f->device.live_programs), 0);
    assert_int_equal(totals_of(&at).puts, 1);
    program = obtain(&at, "long enough", KILN_PROGRAM_FROM_STORE);
    release(&program);
    close_environment(&at);
}

/* ---- many threads ---- */

typedef struct taker {
    const environment *at;
    pthread_barrier_t *start;
    kiln_program *program;
    kiln_status status;
} taker;

static void *take(void *user)
{
    taker *t = user;
    const kiln_program_source source = source_of("s", "-O2");
    pthread_barrier_wait(t->start);
    t->status = get_program(t->at->context, &source, &t->program, NULL, NULL);
    return NULL;
}

static void test_threads_share_one_program(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    pthread_t threads[THREADS];
    taker takers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i] = (taker){.at = &at, .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, take, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(takers[i].status, KILN_OK);
        assert_ptr_equal(kiln_program_handle(takers[i].program),
                         kiln_program_handle(takers[0].program));
    }
    assert_int_equal(atomic_load(&f->device.build.count), 1);
    close_environment(&at);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(atomic_load(&f->device.live_programs), 1);
        release(&takers[i].program);
    }
    assert_int_equal(atomic_load(&f->device.live_programs), 0);
}

/* ---- kernels, as the device makes them ---- */

static void test_kernel_of_a_program(void **state)
{
    fixture *f = *state;
    environment at = enter(f, &scripted_cheap_ops, NULL);
    kiln_program *program = obtain(&at, "s", KILN_PROGRAM_FROM_BUILD);
    void *kernel = NULL;
    assert_int_equal(
        scripted_cheap_ops.kernel(&f->device, kiln_program_handle(program), "k", &kernel), KILN_OK);
    assert_string_equal(kernel, "k");
    scripted_cheap_ops.release_kernel(&f->device, kernel);
    release(&program);
    close_environment(&at);
    assert_int_equal(atomic_load(&f->device.live_kernels), 0);
}

/* ---- out of memory ---- */

static void test_failing_allocations(void **state)
{
    fixture *f = *state;
    bool has_run_out = true;
    for (size_t n = 1; has_run_out; n++) {
        assert_true(n < 1000);
        environment at = enter(f, &scripted_cheap_ops, NULL);
        char text[32];
        snprintf(text, sizeof text, "source %zu", n);
        const kiln_program_source source = source_of(text, "");
        kiln_program *program = NULL;
        failing_malloc_arm(n);
        const kiln_status status = get_program(at.context, &source, &program, NULL, NULL);
        kiln_program_context_drain(at.context, DRAIN_NS);
        has_run_out = failing_malloc_disarm() >= n;
        if (status == KILN_OK) {
            assert_int_equal(value_of(program), expected_value(text, ""));
            release(&program);
        } else {
            assert_int_equal(status, KILN_E_NO_MEMORY);
            assert_null(program);
        }
        close_environment(&at);
        assert_int_equal(atomic_load(&f->device.live_programs), 0);
    }
}

static void test_failing_allocations_of_a_context(void **state)
{
    fixture *f = *state;
    environment at = {0};
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = open_context(f, &at, &scripted_cheap_ops, NULL, &at.context);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(at.context);
    }
    close_environment(&at);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_arguments),
        TEST(test_callers_share_one_program),
        TEST(test_options_distinguish_programs),
        TEST(test_next_context_loads),
        TEST(test_identity_distinguishes_devices),
        TEST(test_expensive_capture_shares_in_memory_only),
        TEST(test_inputs_that_change_meanwhile),
        TEST(test_programs_outlive_their_context),
        TEST(test_device_that_cannot_be_identified),
        TEST(test_source_that_cannot_be_determined),
        TEST(test_device_that_fails_to_identify_itself),
        TEST(test_failing_build),
        TEST(test_failing_build_without_key),
        TEST(test_out_of_resources),
        TEST(test_refused_binary_is_built_again),
        TEST(test_bounds_evict),
        TEST(test_program_larger_than_the_cache),
        TEST(test_threads_share_one_program),
        TEST(test_kernel_of_a_program),
        TEST(test_failing_allocations),
        TEST(test_failing_allocations_of_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
