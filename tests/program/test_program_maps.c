/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of a context's two maps, the cost of look-ups, and the state after the context
 * ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "memory/policy.h"
#include "program/context.h"
#include "program/obtain.h"
#include "support/program_scene.h"
#include "support/store_scene.h"

static kiln_kernel *kernel_of(kiln_program *program, const char *name, size_t device)
{
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, name, device, &kernel, NULL), KILN_OK);
    assert_non_null(kiln_kernel_handle(kernel));
    return kernel;
}

static uint64_t frequency_of(const kiln_program *program)
{
    const kilni_object *object = (const kilni_object *)program;
    return atomic_load(&object->use) & KILNI_POLICY_MAX_FREQUENCY;
}

/* ---- programs that leave ---- */

static void test_programs_take_their_own_kernels_along(void **state)
{
    enum { PROGRAMS = 100, KERNELS = 3 };
    program_scene *s = *state;
    s->params.max_programs = PROGRAMS;
    s->params.policy = KILN_POLICY_FIFO;
    program_scene_open(s);
    for (int i = 0; i < PROGRAMS + 10; i++) {
        char text[16];
        snprintf(text, sizeof text, "image %d", i);
        kiln_program_desc *desc = describe_image(s, text);
        kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
        static const char *const names[KERNELS] = {"a", "b", "c"};
        for (int k = 0; k < KERNELS; k++) {
            kiln_kernel *kernel = kernel_of(program, names[k], 0);
            kiln_kernel_release(&kernel);
        }
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(program_stats(s).entries, PROGRAMS);
    assert_int_equal(kernel_stats(s).entries, PROGRAMS * KERNELS);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), PROGRAMS * KERNELS);
    kiln_program_context_clear(s->context);
    assert_int_equal(kernel_stats(s).entries, 0);
    assert_int_equal(atomic_load(&s->devices[0].live_kernels), 0);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
}

static void test_failures_that_are_kept_are_bounded(void **state)
{
    program_scene *s = *state;
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    s->params.max_programs = 64;
    program_scene_open(s);
    for (int i = 0; i < 20; i++) {
        char text[16];
        snprintf(text, sizeof text, "image %d", i);
        script(&s->devices[0].build, 1, KILN_E_BUILD);
        kiln_program_desc *desc = describe_image(s, text);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_E_BUILD);
        kiln_program_desc_release(&desc);
    }
    assert_int_equal(program_stats(s).failures, 20);
    assert_int_equal(program_stats(s).retained_failures, 4);
    assert_in_range(program_stats(s).retained_failure_bytes, 4 * 256, 64 << 10);
}

/* ---- keys ---- */

/* A look-up compares all keys if an equal description makes it. */
static void test_keys_of_the_maps_have_no_long_parts(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    char *text = calloc(1, 60001);
    memset(text, 'x', 60000);
    kiln_program_desc *first = describe_image(s, text), *second = describe_image(s, text);
    size_t size;
    kiln_key_encoding(first->memory_key, &size);
    assert_in_range(size, 1, 4096);
    assert_true(kiln_key_equals(first->memory_key, second->memory_key));
    kiln_kernel_desc *named = describe_kernel(first, text), *again = describe_kernel(second, text);
    void *handle = touch_kernel(named);
    assert_ptr_equal(touch_kernel(again), handle);
    text[30000] = 'y';
    kiln_program_desc *third = describe_image(s, text);
    assert_false(kiln_key_equals(first->memory_key, third->memory_key));
    assert_false(kiln_key_equals(first->key, third->key));
    kiln_program_desc *const descs[] = {first, second, third};
    for (int i = 0; i < 3; i++) {
        kiln_program_desc *desc = descs[i];
        kiln_program_desc_release(&desc);
    }
    kiln_kernel_desc_release(&named);
    kiln_kernel_desc_release(&again);
    free(text);
}

/* ---- uses ---- */

static void test_uses_of_kernels_count_for_the_program(void **state)
{
    program_scene *s = *state;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    touch_kernel(named);
    const uint64_t before = frequency_of(program);
    touch_kernel(named);
    touch_kernel(named);
    assert_int_equal(frequency_of(program), before + 2);
    for (int i = 0; i < 20; i++) {
        touch_kernel(named);
    }
    assert_int_equal(frequency_of(program), KILNI_POLICY_MAX_FREQUENCY);
    kiln_program_release(&program);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
}

/* Even if their number reaches an object's frequency. */
static void test_uses_of_kernels_keep_the_program(void **state)
{
    program_scene *s = *state;
    s->params.max_programs = 2;
    s->params.policy = KILN_POLICY_LRU;
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    for (int i = 0; i < 40; i++) {
        touch_kernel(named);
    }
    for (int i = 0; i < 3; i++) {
        const char text[] = {(char)('a' + i), '\0'};
        kiln_program_desc *other = describe_image(s, text);
        touch(other, KILN_PROGRAM_FROM_BUILD);
        kiln_program_desc_release(&other);
        touch_kernel(named);
    }
    touch(desc, KILN_PROGRAM_FROM_MEMORY);
    assert_int_equal(atomic_load(&s->devices[0].kernel.count), 1);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
}

/* ---- devices that share ---- */

static void test_adopted_programs_serve_all_that_share_their_device(void **state)
{
    program_scene *s = *state;
    s->params.device_count = 3;
    for (int i = 0; i < 3; i++) {
        s->devices[i].kind = i < 2 ? 1 : 2;
    }
    program_scene_open(s);
    for (size_t on = 0; on < 2; on++) {
        kiln_program_desc *desc = describe_image(s, "image");
        void *handle = NULL;
        char *log = NULL;
        assert_int_equal(scripted_cheap_ops.build(&s->devices[on], &desc->source, &handle, &log),
                         KILN_OK);
        kiln_program *program = NULL;
        assert_int_equal(kiln_program_adopt(s->context, on, handle, &program), KILN_OK);
        for (size_t device = 0; device < 2; device++) {
            kiln_kernel *kernel = kernel_of(program, "k", device);
            kiln_kernel_release(&kernel);
        }
        kiln_kernel *none = NULL;
        assert_int_equal(kiln_program_get_kernel(program, "k", 2, &none, NULL), KILN_E_INVALID);
        kiln_program *other = NULL;
        scripted_program *others = NULL;
        assert_int_equal(scripted_build(&s->devices[2], 1, &others), KILN_OK);
        assert_int_equal(kiln_program_adopt(s->context, 2, others, &other), KILN_OK);
        assert_int_equal(kiln_program_get_kernel(other, "k", on, &none, NULL), KILN_E_INVALID);
        kiln_kernel *kernel = kernel_of(other, "k", 2);
        kiln_kernel_release(&kernel);
        kiln_program_release(&other);
        assert_int_equal(atomic_load(&s->devices[on].live_programs), 1);
        kiln_program_release(&program);
        assert_int_equal(atomic_load(&s->devices[on].live_programs), 0);
        kiln_program_desc_release(&desc);
    }
}

/* ---- after the context ---- */

static void test_what_is_held_may_be_asked_after_its_context(void **state)
{
    program_scene *s = *state;
    char directory[SCRATCH_DIRECTORY_SIZE];
    scratch_make(directory);
    assert_int_equal(kiln_store_open(directory, NULL, &s->params.store, NULL), KILN_OK);
    program_scene_open(s);
    kiln_program_desc *desc = describe_image(s, "image"), *absent = describe_image(s, "other");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD), *again = NULL;
    uint8_t blob[8192];
    size_t size = sizeof blob;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    touch_kernel(named);
    kiln_program_context_free(&s->context);
    kiln_kernel *kernel = kernel_of(program, "k", 0);
    kiln_program_caching caching = {.struct_size = sizeof caching};
    assert_int_equal(kiln_program_get_caching(program, &caching), KILN_OK);
    assert_int_equal(caching.memory, KILN_UNCACHED_OFF);
    assert_int_equal(caching.store, KILN_UNCACHED_OFF);
    assert_int_equal(kiln_program_get(absent, &again, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_get(desc, &again, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &again, NULL, NULL),
                     KILN_E_INVALID);
    assert_null(again);
    kiln_kernel *other = NULL;
    assert_int_equal(kiln_kernel_get(named, &other, NULL), KILN_E_INVALID);
    kiln_program_release(&program);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 1);
    kiln_kernel_release(&kernel);
    assert_int_equal(atomic_load(&s->devices[0].live_programs), 0);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&absent);
    kiln_program_desc_release(&desc);
    kiln_store_close(&s->params.store);
    scratch_remove(directory);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, program_scene_set_up, program_scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_programs_take_their_own_kernels_along),
        TEST(test_failures_that_are_kept_are_bounded),
        TEST(test_keys_of_the_maps_have_no_long_parts),
        TEST(test_uses_of_kernels_count_for_the_program),
        TEST(test_uses_of_kernels_keep_the_program),
        TEST(test_adopted_programs_serve_all_that_share_their_device),
        TEST(test_what_is_held_may_be_asked_after_its_context),
    };
    return cmocka_run_group_tests_name("program maps", tests, NULL, NULL);
}
