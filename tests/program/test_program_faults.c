/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, kernels and blobs when allocations fail, when threads use programs that are evicted,
 * and when calls are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "support/failing_malloc.h"
#include "support/program_scene.h"
#include "support/store_scene.h"

#define THREADS 6
#define DRAIN_NS UINT64_C(60000000000)

/* ---- the n-th allocation fails ---- */

static const kiln_device_ops *const all_ops[] = {&scripted_cheap_ops, &scripted_revised_ops};

static const int seven = 7;
static const kiln_spec_constant constant = {3, {&seven, sizeof seven}};

/* Makes a description, and checks that the error has the returned status. */
static kiln_status describe_by(program_scene *s, const kiln_program_desc_params *params,
                               kiln_program_desc **ret_desc)
{
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_program_desc_new(s->context, params, ret_desc, &error);
    assert_int_equal(error.status, status);
    assert_int_equal(error.text[0] == '\0', status == KILN_OK);
    return status;
}

/* Makes a description that contains every kind of input. */
static kiln_status describe_all(program_scene *s, const char *text, kiln_program_desc **ret_desc)
{
    kiln_program_desc_params params = image_of(text);
    params.image_options = (kiln_build_options){"-a", "-b"};
    params.options = (kiln_build_options){"-c", "-d"};
    params.constants = &constant;
    params.constant_count = 1;
    params.device = 1;
    params.name = "all of it";
    return describe_by(s, &params, ret_desc);
}

static kiln_status run_description(program_scene *s)
{
    kiln_program_desc *desc = NULL, *link = NULL;
    kiln_kernel_desc *kernel = NULL;
    kiln_status status = describe_all(s, "image", &desc);
    if (status == KILN_OK) {
        const kiln_program_desc *const inputs[] = {desc, desc};
        const kiln_program_desc_params params = {.struct_size = sizeof params,
                                                 .linked = inputs,
                                                 .linked_count = 2,
                                                 .options.link = "-e",
                                                 .device = 1};
        status = describe_by(s, &params, &link);
    }
    if (status == KILN_OK) {
        status = kiln_kernel_desc_new(link, "k", &kernel);
    }
    if (status == KILN_OK) {
        size_t size;
        status = kiln_program_desc_cache_blob_id(link, &size, NULL);
    }
    kiln_kernel_desc_release(&kernel);
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&desc);
    return status;
}

static void check_descriptions(program_scene *s)
{
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = run_description(s);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}

static void test_failing_allocations_of_descriptions(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 2;
    s->params.library = "library";
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++) {
        s->params.ops = all_ops[i];
        program_scene_open(s);
        check_descriptions(s);
        kiln_program_context_free(&s->context);
    }
}

static void test_failing_allocations_of_a_context(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 3;
    s->params.library = "library";
    s->params.replaced = (kiln_build_options){"-a", "-b"};
    s->params.appended = (kiln_build_options){"-c", "-d"};
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = kiln_program_context_new(&s->params, &s->context);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(s->context);
    }
}

/* Gets a kernel, and thereby its program, and then the program's blob, while the n-th allocation
 * fails. Every call must either report lack of memory or return the right result. */
static void check_way(program_scene *s, kiln_program_desc *desc, kiln_kernel_desc *described)
{
    bool has_run_out = true;
    for (size_t n = 1; has_run_out; n++) {
        assert_true(n < 1000);
        kiln_kernel *kernel = NULL;
        kiln_program *program = NULL;
        size_t size = 0;
        failing_malloc_arm(n);
        kiln_status status = kiln_kernel_get(described, &kernel, NULL);
        if (status == KILN_OK) {
            status = kiln_program_get(desc, &program, NULL, NULL);
        }
        if (status == KILN_OK) {
            status = kiln_program_get_cache_blob(program, &size, NULL);
        }
        kiln_program_context_drain(s->context, DRAIN_NS);
        has_run_out = failing_malloc_disarm() >= n;
        assert_true(status == KILN_OK || status == KILN_E_NO_MEMORY);
        assert_true(has_run_out || status == KILN_OK);
        if (status == KILN_OK) {
            assert_string_equal(kiln_kernel_handle(kernel), "k");
            assert_true(size > 512);
        }
        kiln_kernel_release(&kernel);
        kiln_program_release(&program);
        kiln_program_context_clear(s->context);
        assert_int_equal(atomic_load(&s->devices[1].live_programs), 0);
        assert_int_equal(atomic_load(&s->devices[1].live_kernels), 0);
    }
}

static void check_all_ways(program_scene *s)
{
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    for (int with_store = 0; with_store < 2; with_store++) {
        if (with_store) {
            assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
        }
        program_scene_open(s);
        kiln_program_desc *desc = NULL;
        assert_int_equal(describe_all(s, "image", &desc), KILN_OK);
        kiln_kernel_desc *kernel = describe_kernel(desc, "k");
        check_way(s, desc, kernel);
        kiln_kernel_desc_release(&kernel);
        kiln_program_desc_release(&desc);
        kiln_program_context_free(&s->context);
    }
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

static void test_failing_allocations_on_the_way(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 2;
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++) {
        s->params.ops = all_ops[i];
        check_all_ways(s);
    }
}

static void check_blobs(program_scene *s)
{
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    uint8_t blob[8192];
    size_t size = sizeof blob;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    kiln_program_release(&program);
    for (size_t n = 1;; n++) {
        kiln_program_context_clear(s->context);
        kiln_error error = {.struct_size = sizeof error};
        failing_malloc_arm(n);
        const kiln_status status =
            kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, &error);
        assert_int_equal(error.status, status);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(program);
    }
    kiln_program_release(&program);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

static void test_failing_allocations_of_a_blob(void **state)
{
    program_scene *s = *state;
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++) {
        s->params.ops = all_ops[i];
        check_blobs(s);
    }
}

/* A handle that is not adopted still belongs to the caller. */
static void test_failing_allocations_of_an_adoption(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    scripted_program *own = NULL;
    assert_int_equal(scripted_build(&s->devices[0], 1, &own), KILN_OK);
    kiln_program *program = NULL;
    for (size_t n = 1; !program; n++) {
        failing_malloc_arm(n);
        const kiln_status status = kiln_program_adopt(s->context, 0, own, &program);
        const bool has_run_out = failing_malloc_disarm() >= n;
        assert_int_equal(status, has_run_out ? KILN_E_NO_MEMORY : KILN_OK);
        assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    }
    kiln_program_release(&program);
}

static void test_failing_allocations_of_kernels(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    for (int is_held_alone = 0; is_held_alone < 2; is_held_alone++) {
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
        if (is_held_alone) {
            kiln_program_context_clear(s->context);
        }
        bool has_run_out = true;
        for (size_t n = 1; has_run_out; n++) {
            char name[32];
            snprintf(name, sizeof name, "kernel %zu", n);
            kiln_kernel *kernel = NULL;
            failing_malloc_arm(n);
            const kiln_status status = kiln_program_get_kernel(program, name, 0, &kernel, NULL);
            has_run_out = failing_malloc_disarm() >= n;
            assert_true(status == KILN_OK || status == KILN_E_NO_MEMORY);
            assert_true(has_run_out || status == KILN_OK);
            if (status == KILN_OK) {
                assert_string_equal(kiln_kernel_handle(kernel), name);
            }
            kiln_kernel_release(&kernel);
        }
        assert_int_equal(kernel_stats(s).entries > 0, !is_held_alone);
        kiln_program_release(&program);
    }
    kiln_program_desc_release(&desc);
}

/* ---- threads, while programs come and go ---- */

typedef struct churn {
    program_scene *scene;
    kiln_program_desc **programs;
    kiln_kernel_desc **kernels;
    size_t count;
    atomic_bool is_over;
    atomic_int wrong;
} churn;

static void use_one(churn *c, size_t i)
{
    kiln_kernel *kernel = NULL;
    if (kiln_kernel_get(c->kernels[i], &kernel, NULL) != KILN_OK) {
        atomic_fetch_add(&c->wrong, 1);
        return;
    }
    kiln_kernel_lock(kernel);
    const char *name = kiln_kernel_handle(kernel);
    const scripted_program *program = kiln_kernel_program_handle(kernel);
    const char text[] = {(char)('a' + (int)i), '\0'};
    const bool is_right = strcmp(name, text) == 0 &&
                          program->value == scripted_value(scripted_value(0, text, 1), "", 0);
    kiln_kernel_unlock(kernel);
    atomic_fetch_add(&c->wrong, is_right ? 0 : 1);
    kiln_kernel_release(&kernel);
}

static void peek_one(churn *c, size_t i)
{
    kiln_section section;
    kiln_kernel_section_enter(c->scene->context, &section);
    const char *name = kiln_kernel_peek(&section, c->kernels[i]);
    if (name && name[0] != 'a' + (int)i) {
        atomic_fetch_add(&c->wrong, 1);
    }
    kiln_section_leave(&section);
}

static void *use_all(void *user)
{
    churn *c = user;
    for (size_t i = 0; i < 3000; i++) {
        use_one(c, (i * 7) % c->count);
        peek_one(c, (i * 5) % c->count);
    }
    return NULL;
}

static void *disturb(void *user)
{
    churn *c = user;
    for (size_t i = 0; !atomic_load(&c->is_over); i++) {
        switch (i % 4) {
        case 0:
            kiln_program_context_clear(c->scene->context);
            break;
        case 1:
            kiln_program_context_set_capacity(c->scene->context, KILN_UNLIMITED, i % 3);
            break;
        case 2:
            kiln_program_context_set_capacity(c->scene->context, KILN_UNLIMITED, 3);
            break;
        default:
            kiln_program_context_remove_image(c->scene->context, 1 + i % c->count);
        }
    }
    return NULL;
}

static void test_threads_while_programs_are_evicted(void **state)
{
    program_scene *s = *state;
    enum { COUNT = 6 };
    kiln_program_desc *programs[COUNT];
    kiln_kernel_desc *kernels[COUNT];
    program_scene_open(s);
    for (size_t i = 0; i < COUNT; i++) {
        const char text[] = {(char)('a' + (int)i), '\0'};
        kiln_program_desc_params params = image_of(text);
        params.image = i + 1;
        programs[i] = describe(s, &params);
        kernels[i] = describe_kernel(programs[i], text);
    }
    churn c = {.scene = s, .programs = programs, .kernels = kernels, .count = COUNT};
    pthread_t threads[THREADS], disturber;
    assert_int_equal(pthread_create(&disturber, NULL, disturb, &c), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_all, &c), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&c.is_over, true);
    pthread_join(disturber, NULL);
    assert_int_equal(atomic_load(&c.wrong), 0);

    /* The map has no kernel whose program was evicted. */
    kiln_program_context_set_capacity(s->context, 0, 0);
    assert_int_equal(kernel_stats(s).entries, 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    for (size_t i = 0; i < COUNT; i++) {
        kiln_kernel_desc_release(&kernels[i]);
        kiln_program_desc_release(&programs[i]);
    }
}

/* ---- wrong calls, and missing kernels ---- */

static void test_wrong_descriptions(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc_params good = image_of("image"), params;
    kiln_program_desc *desc = NULL, *other = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_desc_new(NULL, &good, &desc, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_desc_new(s->context, NULL, &desc, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_desc_new(s->context, &good, NULL, NULL), KILN_E_INVALID);
#define REFUSE(change)                                                                             \
    params = good;                                                                                 \
    error.status = KILN_OK;                                                                        \
    change;                                                                                        \
    assert_int_equal(kiln_program_desc_new(s->context, &params, &desc, &error), KILN_E_INVALID);   \
    assert_int_equal(error.status, KILN_E_INVALID)
    REFUSE(params.form = 0);
    REFUSE(params.form = 3);
    REFUSE(params.origin = 3);
    REFUSE(params.device = 2);
    REFUSE(params.code.data = NULL);
    REFUSE(params.constant_count = 1);
    REFUSE(params.linked_count = 1);
    const kiln_spec_constant empty = {1, {NULL, 4}};
    REFUSE((params.constants = &empty, params.constant_count = 1));
    const kiln_spec_constant twice[] = {constant, constant};
    REFUSE((params.constants = twice, params.constant_count = 2));
    params = good;
    params.device = 1;
    other = describe(s, &params);
    const kiln_program_desc *const inputs[] = {other, NULL};
    good = (kiln_program_desc_params){
        .struct_size = sizeof params, .linked = inputs, .linked_count = 1};
    REFUSE(params.device = 0);
    good.device = 1;
    desc = describe(s, &good);
    kiln_program_desc *const first = desc;
    REFUSE(params.linked_count = 2);
    const kiln_program_desc *const links[] = {desc};
    REFUSE(params.linked = links);
    program_scene elsewhere = *s;
    program_scene_open(&elsewhere);
    kiln_program_desc_params same = image_of("image");
    same.device = 1;
    kiln_program_desc *foreign = describe(&elsewhere, &same);
    const kiln_program_desc *const foreigners[] = {foreign};
    REFUSE(params.linked = foreigners);
    kiln_program_desc_release(&foreign);
    kiln_program_context_free(&elsewhere.context);
    assert_ptr_equal(desc, first);
    good = image_of("image");
    kiln_program_desc *more = NULL;
    script(&s->devices[0].describe, 1, KILN_E_IO);
    assert_int_equal(kiln_program_desc_new(s->context, &good, &more, &error), KILN_E_IO);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&other);
    kiln_program_desc_release(NULL);
    kiln_program_desc_release(&desc);
    assert_null(kiln_program_desc_retain(NULL));
    assert_null(kiln_program_desc_key(NULL));
}

static void test_wrong_kernels(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_kernel_desc *kernel_desc = NULL;
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_kernel_desc_new(NULL, "k", &kernel_desc), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_desc_new(desc, NULL, &kernel_desc), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_desc_new(desc, "", &kernel_desc), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_desc_new(desc, "k", NULL), KILN_E_INVALID);
    assert_int_equal(kiln_kernel_get(NULL, &kernel, NULL), KILN_E_INVALID);
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_program_get_kernel(NULL, "k", 0, &kernel, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get_kernel(program, NULL, 0, &kernel, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get_kernel(program, "k", 1, &kernel, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get_kernel(program, "k", 2, &kernel, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_adopt(s->context, 2, program, NULL), KILN_E_INVALID);

    kiln_error error = {.struct_size = sizeof error};
    kernel_desc = describe_kernel(desc, SCRIPTED_NO_KERNEL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kiln_kernel_get(kernel_desc, &kernel, &error), KILN_MISS);
        assert_null(kernel);
        assert_non_null(strstr(error.text, SCRIPTED_NO_KERNEL));
    }
    assert_int_equal(kernel_stats(s).entries, 0);
    kiln_kernel_desc *again = kiln_kernel_desc_retain(kernel_desc);
    assert_ptr_equal(again, kernel_desc);
    kiln_kernel_desc_release(&again);
    kiln_kernel_desc_release(&kernel_desc);
    kiln_kernel_release(NULL);
    kiln_kernel_lock(NULL);
    kiln_kernel_unlock(NULL);
    assert_null(kiln_kernel_handle(NULL));
    assert_null(kiln_kernel_program_handle(NULL));
    assert_null(kiln_program_handle(NULL));
    kiln_program *more = kiln_program_retain(program);
    kiln_program_release(&program);
    assert_non_null(kiln_program_handle(more));
    kiln_program_release(&more);
    kiln_program_desc_release(&desc);
}

/* The struct_size of a result is 0. */
static void test_wrong_results(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = NULL;
    kiln_program_result result = {0};
    const uint8_t blob[1] = {0};
    for (int is_in_memory = 0; is_in_memory < 2; is_in_memory++) {
        assert_int_equal(kiln_program_get(desc, &program, &result, NULL), KILN_E_INVALID);
        assert_int_equal(
            kiln_program_create_from_cache_blob(desc, sizeof blob, blob, &program, &result, NULL),
            KILN_E_INVALID);
        assert_null(program);
        touch(desc, is_in_memory ? KILN_PROGRAM_FROM_MEMORY : KILN_PROGRAM_FROM_BUILD);
    }
    kiln_program_desc_release(&desc);
}

/* Ops of an older version, without the functions that were added since. */
static void test_ops_of_an_older_version(void **state)
{
    program_scene *s = *state;
    kiln_device_ops ops = scripted_cheap_ops;
    ops.struct_size = offsetof(kiln_device_ops, interchangeable);
    s->devices[0].kind = s->devices[1].kind = 1;
    s->devices[0].bytes = 123456;
    s->params.ops = &ops;
    s->params.device_count = 2;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    touch(desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(program_stats(s).bytes, strlen("image"));
    const kiln_program_desc *const inputs[] = {desc};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 1};
    kiln_program_desc *link = describe(s, &params);
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(link, &program, NULL, NULL), KILN_E_UNSUPPORTED);
    kiln_program_desc_params on_second = image_of("image");
    on_second.device = 1;
    kiln_program_desc *second = describe(s, &on_second);
    touch(second, KILN_PROGRAM_FROM_BUILD);
    kiln_program_desc_release(&second);
    kiln_program_desc_release(&link);
    kiln_program_desc_release(&desc);
    kiln_program_context_free(&s->context);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_failing_allocations_of_descriptions),
        TEST(test_failing_allocations_of_a_context),
        TEST(test_failing_allocations_on_the_way),
        TEST(test_failing_allocations_of_a_blob),
        TEST(test_failing_allocations_of_an_adoption),
        TEST(test_failing_allocations_of_kernels),
        TEST(test_threads_while_programs_are_evicted),
        TEST(test_wrong_descriptions),
        TEST(test_wrong_kernels),
        TEST(test_wrong_results),
        TEST(test_ops_of_an_older_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
