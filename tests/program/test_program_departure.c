/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes between two look-ups in the maps. If a program is evicted just before one of its kernels
 * is looked up, the kernel isn't kept, and never belongs to a different program of the same
 * description. If a program is added just after its failed build was seen, the program is kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "program/context.h"
#include "support/program_scene.h"

kiln_status __real_kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                      const kiln_reserve_params *params,
                                      kiln_reservation *ret_reservation, kiln_error *error);
kiln_status __wrap_kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                      const kiln_reserve_params *params,
                                      kiln_reservation *ret_reservation, kiln_error *error);

static kiln_program_context *to_be_cleared; /* NULL: none */
static const kiln_kernel_desc *comes_then;  /* NULL: none */
static void (*after_failure)(
    void *user); /* called once after a failed build was seen; NULL: nothing */
static void *after_failure_user;
static void (*before_look)(void *user); /* called once, before the next look-up of a program */

kiln_status __wrap_kiln_cache_reserve(kiln_cache *cache, const kiln_key *key,
                                      const kiln_reserve_params *params,
                                      kiln_reservation *ret_reservation, kiln_error *error)
{
    if (to_be_cleared && cache == to_be_cleared->kernels) {
        kiln_program_context_clear(to_be_cleared);
        to_be_cleared = NULL;
        if (comes_then) {
            touch_kernel(comes_then);
        }
    }
    if (before_look) {
        void (*const happens)(void *user) = before_look;
        before_look = NULL;
        happens(after_failure_user);
    }
    const kiln_status status =
        __real_kiln_cache_reserve(cache, key, params, ret_reservation, error);
    if (status == KILN_E_BUILD && after_failure) {
        void (*const happens)(void *user) = after_failure;
        after_failure = NULL;
        happens(after_failure_user);
    }
    return status;
}

static void test_program_that_is_evicted_before_its_kernel_is_looked_up(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    program_scene_open(&s);
    kiln_program_desc *desc = describe_image(&s, "image");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    kiln_kernel *kernel = NULL;
    to_be_cleared = s.context;
    assert_int_equal(kiln_kernel_get(named, &kernel, NULL), KILN_OK);
    assert_null(to_be_cleared);
    assert_string_equal(kiln_kernel_handle(kernel), "k");
    assert_int_equal(kernel_stats(&s).entries, 0);
    kiln_kernel_release(&kernel);
    assert_int_equal(atomic_load(&s.devices[0].live_programs), 0);

    touch_kernel(named);
    assert_int_equal(kernel_stats(&s).entries, 1);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
    assert_true(program_scene_close(&s));
}

/* A new program replaces this program, and the map gets the new program's kernel first. */
static void test_program_that_is_replaced_meanwhile(void **state)
{
    (void)state;
    program_scene s = {0};
    program_scene_init(&s);
    program_scene_open(&s);
    kiln_program_desc *desc = describe_image(&s, "image");
    kiln_kernel_desc *named = describe_kernel(desc, "k");
    kiln_program *program = get_from(desc, KILN_PROGRAM_FROM_BUILD);
    kiln_kernel *kernel = NULL;
    to_be_cleared = s.context;
    comes_then = named;
    assert_int_equal(kiln_program_get_kernel(program, "k", 0, &kernel, NULL), KILN_OK);
    comes_then = NULL;
    assert_null(to_be_cleared);
    assert_ptr_equal(kiln_kernel_program_handle(kernel), kiln_program_handle(program));
    assert_int_equal(kernel_stats(&s).entries, 1);
    assert_int_equal(atomic_load(&s.devices[0].live_kernels), 2);
    kiln_kernel_release(&kernel);
    kiln_program_release(&program);
    assert_int_equal(atomic_load(&s.devices[0].live_programs), 1);
    kiln_kernel_desc_release(&named);
    kiln_program_desc_release(&desc);
    assert_true(program_scene_close(&s));
}

/* ---- blobs ---- */

typedef struct blob_scene {
    program_scene scene;
    kiln_program_desc *desc;
    uint8_t blob[8192];
    size_t size;
    kiln_program *program;
} blob_scene;

/* Opens a scene in which the map keeps the failed build of a program whose blob is available. */
static void open_blob_scene(blob_scene *b)
{
    program_scene *s = &b->scene;
    program_scene_init(s);
    s->params.flags = KILN_CACHE_RETAIN_FAILURES;
    program_scene_open(s);
    b->desc = describe_image(s, "image");
    b->size = sizeof b->blob;
    kiln_program *program = get_from(b->desc, KILN_PROGRAM_FROM_BUILD);
    assert_int_equal(kiln_program_get_cache_blob(program, &b->size, b->blob), KILN_OK);
    kiln_program_release(&program);
    kiln_program_context_clear(s->context);
    script(&s->devices[0].build, 2, KILN_E_BUILD);
    assert_int_equal(kiln_program_get(b->desc, &program, NULL, NULL), KILN_E_BUILD);
    after_failure_user = b;
}

static void close_blob_scene(blob_scene *b)
{
    kiln_program_desc_release(&b->desc);
    assert_true(program_scene_close(&b->scene));
}

static kiln_program *load_blob_from(const blob_scene *b, uint32_t from)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(
        kiln_program_create_from_cache_blob(b->desc, b->size, b->blob, &program, &result, NULL),
        KILN_OK);
    assert_int_equal(result.from, from);
    return program;
}

static void load_blob(void *user)
{
    blob_scene *b = user;
    b->program = load_blob_from(b, KILN_PROGRAM_FROM_BLOB);
}

static void test_blob_that_another_loads_meanwhile(void **state)
{
    (void)state;
    blob_scene b = {0};
    open_blob_scene(&b);
    after_failure = load_blob;
    kiln_program *program = load_blob_from(&b, KILN_PROGRAM_FROM_MEMORY);
    assert_null(after_failure);
    assert_ptr_equal(kiln_program_handle(program), kiln_program_handle(b.program));
    assert_int_equal(atomic_load(&b.scene.devices[0].load.count), 1);
    kiln_program_release(&b.program);
    kiln_program_release(&program);
    close_blob_scene(&b);
}

static void fail_again(void *user)
{
    const blob_scene *b = user;
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(b->desc, &program, NULL, NULL), KILN_E_BUILD);
}

static void look_again(void *user)
{
    (void)user;
    before_look = fail_again;
}

/* A second failed build does not affect the blob, which is still valid. */
static void test_blob_whose_build_fails_again_meanwhile(void **state)
{
    (void)state;
    blob_scene b = {0};
    open_blob_scene(&b);
    after_failure = look_again;
    kiln_program *program = load_blob_from(&b, KILN_PROGRAM_FROM_BLOB);
    assert_null(before_look);
    assert_int_equal(atomic_load(&b.scene.devices[0].build.count), 2);
    assert_int_equal(program_stats(&b.scene).retained_failures, 1);
    assert_int_equal(program_stats(&b.scene).entries, 0);
    kiln_program_release(&program);
    close_blob_scene(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_that_is_evicted_before_its_kernel_is_looked_up),
        cmocka_unit_test(test_program_that_is_replaced_meanwhile),
        cmocka_unit_test(test_blob_that_another_loads_meanwhile),
        cmocka_unit_test(test_blob_whose_build_fails_again_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
