/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>

#include "device/floating_point.h"
#include "device/nvrtc/identity.h"
#include "device/opencl/identity.h"

/* ---- keys ---- */

typedef kiln_status add_fn(kiln_key_builder *key);

static kiln_status add_for_nvrtc(kiln_key_builder *key)
{
    return kilni_nvrtc_add_environment(NULL, key, NULL);
}

static kiln_status add_for_opencl(kiln_key_builder *key)
{
    return kilni_opencl_add_environment("Portable Computing Language", NULL, key, NULL);
}

static add_fn *const adders[] = {kilni_floating_point_add_to_key, add_for_nvrtc, add_for_opencl};
enum { ADDER_COUNT = sizeof adders / sizeof *adders };

static kiln_key *key_now(add_fn *add)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(add(builder), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static int has_part(const kiln_key *key)
{
    kiln_key_part part;
    int found = 0;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        found |= strcmp(part.name, KILNI_FLOATING_POINT_PART) == 0;
    }
    return found;
}

/* ---- modes ---- */

static void round_to_zero(void)
{
    assert_int_equal(fesetround(FE_TOWARDZERO), 0);
}

#ifdef __x86_64__
#include <pmmintrin.h>

static void trap_division(void)
{
    assert_int_not_equal(feenableexcept(FE_DIVBYZERO), -1);
}

static void flush(void)
{
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
}

static void take_for_zero(void)
{
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}

static void shorten(void)
{
    const uint16_t word = 0x007f;
    __asm__ volatile("fldcw %0" : : "m"(word));
}
#endif

static void (*const all_modes[])(void) = {
    round_to_zero,
#ifdef __x86_64__
    trap_division, flush, take_for_zero, shorten,
#endif
};
enum { ALL_MODES = sizeof all_modes / sizeof *all_modes };

/* ---- tests ---- */

static void test_the_default_mode_adds_nothing_to_keys(void **state)
{
    (void)state;
    assert_int_equal(fesetenv(FE_DFL_ENV), 0);
    feraiseexcept(FE_ALL_EXCEPT); /* raised flags are not a part of the mode */
    for (size_t a = 0; a < ADDER_COUNT; a++) {
        kiln_key *key = key_now(adders[a]);
        assert_false(has_part(key));
        kiln_key_release(&key);
    }
    assert_int_equal(fesetenv(FE_DFL_ENV), 0);
}

static void test_each_mode_has_separate_keys(void **state)
{
    (void)state;
    for (size_t a = 0; a < ADDER_COUNT; a++) {
        kiln_key *keys[ALL_MODES];
        for (size_t m = 0; m < ALL_MODES; m++) {
            all_modes[m]();
            keys[m] = key_now(adders[a]);
            assert_int_equal(fesetenv(FE_DFL_ENV), 0);
            assert_true(has_part(keys[m]));
            for (size_t other = 0; other < m; other++) {
                assert_false(kiln_key_equals(keys[m], keys[other]));
            }
        }
        for (size_t m = 0; m < ALL_MODES; m++) {
            kiln_key_release(&keys[m]);
        }
    }
}

static void test_setting_a_mode_keeps_the_flags(void **state)
{
    (void)state;
    for (size_t m = 0; m < ALL_MODES; m++) {
        all_modes[m]();
        const kilni_floating_point mode = kilni_floating_point_get();
        assert_int_equal(fesetenv(FE_DFL_ENV), 0);
        assert_false(kilni_floating_point_equals(mode, kilni_floating_point_get()));
        assert_true(kilni_floating_point_equals(kilni_floating_point_default(),
                                                kilni_floating_point_get()));
        feraiseexcept(FE_INEXACT);
        kilni_floating_point_set(mode);
        assert_true(kilni_floating_point_equals(mode, kilni_floating_point_get()));
        assert_int_equal(fetestexcept(FE_ALL_EXCEPT), FE_INEXACT);
        assert_int_equal(fesetenv(FE_DFL_ENV), 0);
    }
}

static void *mode_of_thread(void *ret_mode)
{
    round_to_zero();
    *(kilni_floating_point *)ret_mode = kilni_floating_point_get();
    return NULL;
}

static void test_threads_have_separate_modes(void **state)
{
    (void)state;
    pthread_t thread;
    kilni_floating_point of_thread;
    assert_int_equal(pthread_create(&thread, NULL, mode_of_thread, &of_thread), 0);
    pthread_join(thread, NULL);
    assert_false(kilni_floating_point_equals(of_thread, kilni_floating_point_get()));
}

/* Reading the part of a key returns the mode in which the key was made. */
static void test_reading(void **state)
{
    (void)state;
    for (size_t m = 0; m < ALL_MODES; m++) {
        kilni_floating_point read;
        kiln_key_part part;
        all_modes[m]();
        const kilni_floating_point mode = kilni_floating_point_get();
        kiln_key *key = key_now(kilni_floating_point_add_to_key);
        assert_int_equal(fesetenv(FE_DFL_ENV), 0);
        assert_int_equal(kiln_key_part_at(key, 0, &part), KILN_OK);
        assert_int_equal(kilni_floating_point_read(part.bytes, part.size, &read), KILN_OK);
        assert_true(kilni_floating_point_equals(read, mode));
        assert_int_equal(kilni_floating_point_read(part.bytes, part.size - 1, &read),
                         KILN_E_CORRUPT);
        kiln_key_release(&key);
    }
}

/* Setting a reserved bit would crash the process. */
static void test_invalid_modes_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "x",
                                        "MXCSR 11f80, x87 033f",
                                        "FPCR 400000 0",
                                        "rounding 00000000",
                                        "MXCSR 1f80, x87 1033f",
                                        "MXCSR 1f81, x87 033f",
                                        "MXCSR 1F80, x87 033f",
                                        "MXCSR -1f80, x87 033f",
                                        "MXCSR 1f80, x87 033f and more",
                                        "MXCSR 1f80, x87 033f, and much more than a mode ever has"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        kilni_floating_point read;
        assert_int_equal(kilni_floating_point_read(texts[t], strlen(texts[t]), &read),
                         KILN_E_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_default_mode_adds_nothing_to_keys),
        cmocka_unit_test(test_each_mode_has_separate_keys),
        cmocka_unit_test(test_setting_a_mode_keeps_the_flags),
        cmocka_unit_test(test_threads_have_separate_modes),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_invalid_modes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
