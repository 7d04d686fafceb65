/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that leaves its map just before one of its kernels is looked up: the kernel doesn't
 * stay, and is never one of another program of the same description.
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
    return __real_kiln_cache_reserve(cache, key, params, ret_reservation, error);
}

static void test_program_that_leaves_meanwhile(void **state)
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

/* The kernel that is in the map then is the other program's. */
static void test_program_that_another_follows_meanwhile(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_that_leaves_meanwhile),
        cmocka_unit_test(test_program_that_another_follows_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
