/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of the constants that a compilation folded, without a libnvrtc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/floating_point.h"
#include "device/watch/constant_folds.h"
#include "support/failing_malloc.h"

/* ---- folds ---- */

static kilni_fold fold_of(int function, double a, double b)
{
    kilni_fold fold = {.function = (uint8_t)function};
    memcpy(&fold.arguments[0], &a, sizeof a);
    if (kilni_math_arity(function) == 2) {
        memcpy(&fold.arguments[1], &b, sizeof b);
    }
    assert_true(kilni_math_call(&fold));
    return fold;
}

static kilni_fold fold_of_float(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    kilni_fold fold = {.function = KILNI_MATH_expf, .arguments = {bits}};
    assert_true(kilni_math_call(&fold));
    return fold;
}

static kilni_folds *new_folds(void)
{
    kilni_folds *folds = NULL;
    assert_int_equal(kilni_folds_new(&folds), KILN_OK);
    return folds;
}

static kilni_text finish(kilni_folds *folds)
{
    kilni_text encoded = {0};
    const char *why = NULL;
    assert_int_equal(kilni_folds_finish(folds, &encoded, &why), KILN_OK);
    kilni_folds_free(&folds);
    assert_null(folds);
    return encoded;
}

static kilni_text encode(const kilni_fold *folds, size_t count)
{
    kilni_folds *made = new_folds();
    for (size_t i = 0; i < count; i++) {
        kilni_folds_note(made, &folds[i]);
    }
    return finish(made);
}

static kiln_status hold(const kilni_text *encoded, const char **ret_changed)
{
    return kilni_folds_hold((kiln_bytes){encoded->bytes, encoded->length}, ret_changed);
}

static kiln_status hold_one(kilni_fold fold)
{
    kilni_text encoded = encode(&fold, 1);
    const char *changed = NULL;
    const kiln_status status = hold(&encoded, &changed);
    if (status == KILN_MISS) {
        assert_string_equal(changed, kilni_math_name(fold.function));
    }
    kilni_text_done(&encoded);
    return status;
}

static const char *failure_of(kilni_folds *folds)
{
    kilni_text encoded = {0};
    const char *why = "";
    assert_int_equal(kilni_folds_finish(folds, &encoded, &why), KILN_E_UNSUPPORTED);
    kilni_folds_free(&folds);
    return why;
}

/* ---- results ---- */

static void test_folds_hold(void **state)
{
    (void)state;
    const kilni_fold folds[] = {
        fold_of(KILNI_MATH_exp, 0.7, 0),
        fold_of(KILNI_MATH_exp, 1000, 0),
        fold_of(KILNI_MATH_log, 0, 0),
        fold_of(KILNI_MATH_log, -1, 0),
        fold_of(KILNI_MATH_pow, 2.1, 0.3),
        fold_of(KILNI_MATH_pow, 0, -1),
        fold_of_float(0.7f),
        fold_of_float(1000),
    };
    kilni_text none = encode(NULL, 0), all = encode(folds, sizeof folds / sizeof *folds);
    assert_int_equal(none.length, 4);
    assert_int_equal(hold(&none, NULL), KILN_OK);
    assert_int_equal(hold(&all, NULL), KILN_OK);
    kilni_text_done(&none);
    kilni_text_done(&all);
}

static void test_each_part_of_a_result_is_compared(void **state)
{
    (void)state;
    const kilni_fold right = fold_of(KILNI_MATH_exp, 0.7, 0);
    double result;
    memcpy(&result, &right.result, sizeof result);
    assert_true(result == exp(0.7) && right.error == 0 && right.raised == 0);
    assert_int_equal(hold_one(right), KILN_OK);
    kilni_fold wrong = right;
    wrong.result ^= 1;
    assert_int_equal(hold_one(wrong), KILN_MISS);
    wrong = right;
    wrong.error = ERANGE;
    assert_int_equal(hold_one(wrong), KILN_MISS);
    wrong = right;
    wrong.raised = KILNI_RAISED_UNDERFLOW;
    assert_int_equal(hold_one(wrong), KILN_MISS);
}

static void test_exceptions_and_errno_are_recorded(void **state)
{
    (void)state;
    const struct {
        kilni_fold fold;
        uint32_t error, raised;
    } calls[] = {
        {fold_of(KILNI_MATH_log, 0, 0), ERANGE, KILNI_RAISED_DIVISION},
        {fold_of(KILNI_MATH_log, -1, 0), EDOM, KILNI_RAISED_INVALID},
        {fold_of(KILNI_MATH_exp, 1000, 0), ERANGE, KILNI_RAISED_OVERFLOW},
        {fold_of(KILNI_MATH_exp, -1000, 0), ERANGE, KILNI_RAISED_UNDERFLOW},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_int_equal(calls[i].fold.error, calls[i].error);
        assert_int_equal(calls[i].fold.raised, calls[i].raised);
    }
}

/* Flags and errno are as if NVRTC had called the function itself. */
static void test_a_call_sets_flags_and_errno(void **state)
{
    (void)state;
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_DIVBYZERO);
    errno = EAGAIN;
    fold_of(KILNI_MATH_pow, 2, 3);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_DIVBYZERO);
    assert_int_equal(errno, EAGAIN);
    fold_of(KILNI_MATH_log, -1, 0);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_DIVBYZERO | FE_INVALID);
    assert_int_equal(errno, EDOM);
    feclearexcept(FE_ALL_EXCEPT);
}

/* kilni_folds_hold changes neither flags nor errno, and raises no trap. */
static void test_checking_keeps_flags_and_errno(void **state)
{
    (void)state;
    const kilni_fold folds[] = {fold_of(KILNI_MATH_log, 0, 0), fold_of(KILNI_MATH_log, -1, 0)};
    kilni_text encoded = encode(folds, 2);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_OVERFLOW);
    errno = EAGAIN;
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    const kiln_status status = hold(&encoded, NULL);
    fedisableexcept(FE_DIVBYZERO | FE_INVALID);
    assert_int_equal(status, KILN_OK);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_OVERFLOW);
    assert_int_equal(errno, EAGAIN);
    feclearexcept(FE_ALL_EXCEPT);
    kilni_text_done(&encoded);
}

/* Kiln calls each function that NVRTC has not called yet, in a program in which exceptions may
 * trap. */
static void test_trying_keeps_flags_and_errno(void **state)
{
    (void)state;
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_OVERFLOW);
    errno = EAGAIN;
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    kilni_math_try(KILNI_MATH_log, (void *)log);
    const int trapping = fedisableexcept(FE_DIVBYZERO | FE_INVALID);
    assert_int_equal(trapping, FE_DIVBYZERO | FE_INVALID);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT & ~FE_INEXACT), FE_OVERFLOW);
    assert_int_equal(errno, EAGAIN);
    feclearexcept(FE_ALL_EXCEPT);
}

static void test_a_function_that_nvrtc_does_not_call_is_not_accepted(void **state)
{
    (void)state;
    assert_null(kilni_math_get_function(KILNI_MATH_tgamma));
    const kilni_fold made_up = {.function = KILNI_MATH_tgamma};
    assert_int_equal(hold_one(made_up), KILN_MISS);
}

static void test_functions_are_set_once(void **state)
{
    (void)state;
    assert_true(kilni_math_set_function(KILNI_MATH_exp, (void *)exp));
    assert_false(kilni_math_set_function(KILNI_MATH_exp, (void *)log));
    assert_ptr_equal(kilni_math_get_function(KILNI_MATH_exp), (void *)exp);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const known[] = {"exp", "expf", "log2f", "atan2", "hypotf"};
    static const char *const unknown[] = {"expl",     "sincos",      "sincosf", "lgamma",
                                          "lgamma_r", "lgammaf_r",   "j0",      "ynf",
                                          "powl",     "__exp_finite"};
    static const char *const exact[] = {"sqrt",  "floor", "fmod",  "frexp",   "ldexp", "fabs",
                                        "round", "logb",  "feof",  "strtod",  "exit",  "login",
                                        "ceil",  "erff2", "yn_in", "fesetenv"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int function = kilni_math_find(known[i]);
        assert_true(function >= 0);
        assert_string_equal(kilni_math_name(function), known[i]);
        assert_false(kilni_math_is_unlisted(known[i]));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_int_equal(kilni_math_find(unknown[i]), -1);
        assert_true(kilni_math_is_unlisted(unknown[i]));
    }
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        assert_int_equal(kilni_math_find(exact[i]), -1);
        assert_false(kilni_math_is_unlisted(exact[i]));
    }
}

/* ---- encodings ---- */

static void test_the_order_of_calls_does_not_matter(void **state)
{
    (void)state;
    const kilni_fold a = fold_of(KILNI_MATH_exp, 0.7, 0), b = fold_of(KILNI_MATH_exp, -0.7, 0),
                     c = fold_of(KILNI_MATH_log, 0.7, 0);
    const kilni_fold forwards[] = {a, b, c, a}, backwards[] = {c, b, c, a, b};
    kilni_text first = encode(forwards, 4), second = encode(backwards, 5);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    assert_int_equal(first.length, 4 + (4 + 4 + 4) + 2 * 21 + (4 + 4 + 4) + 21);
    kilni_text_done(&first);
    kilni_text_done(&second);
}

static kilni_folds *noted(int count)
{
    kilni_folds *folds = new_folds();
    for (int i = 0; i < count; i++) {
        const kilni_fold fold = fold_of(KILNI_MATH_exp, 1.0 / (i + 1), 0);
        kilni_folds_note(folds, &fold);
        kilni_folds_note(folds, &fold);
    }
    return folds;
}

static void test_too_many_folds(void **state)
{
    (void)state;
    kilni_text most = finish(noted(KILNI_FOLDS_MAX));
    assert_int_equal(hold(&most, NULL), KILN_OK);
    kilni_text_done(&most);
    assert_string_equal(failure_of(noted(KILNI_FOLDS_MAX + 1)), "too many constants are folded");
}

static void test_other_modes_make_folds_fail(void **state)
{
    (void)state;
    kilni_folds *folds = new_folds();
    const kilni_fold fold = fold_of(KILNI_MATH_exp, 0.7, 0);
    fesetround(FE_UPWARD);
    kilni_folds_note(folds, &fold);
    fesetround(FE_TONEAREST);
    assert_string_equal(failure_of(folds),
                        "constants are folded in a different floating-point mode");
}

static void test_varying_results_make_folds_fail(void **state)
{
    (void)state;
    kilni_folds *folds = new_folds();
    kilni_fold fold = fold_of(KILNI_MATH_exp, 0.7, 0);
    kilni_folds_note(folds, &fold);
    fold.result++;
    kilni_folds_note(folds, &fold);
    assert_string_equal(
        failure_of(folds),
        "a function of the C library returns different results for equal arguments");
}

static void test_damaged_folds(void **state)
{
    (void)state;
    const kilni_fold folds[] = {fold_of(KILNI_MATH_exp, 0.7, 0), fold_of(KILNI_MATH_pow, 2.1, 0.3)};
    kilni_text whole = encode(folds, 2);
    char longer[256] = "";
    assert_true(whole.length < sizeof longer);
    memcpy(longer, whole.bytes, whole.length);
    for (size_t size = 0; size <= whole.length + 1; size++) {
        assert_int_equal(kilni_folds_hold((kiln_bytes){longer, size}, NULL),
                         size == whole.length ? KILN_OK : KILN_E_CORRUPT);
    }
    for (size_t i = 0; i < whole.length; i++) {
        char changed[256];
        memcpy(changed, whole.bytes, whole.length);
        changed[i] ^= 1;
        const kiln_status status = kilni_folds_hold((kiln_bytes){changed, whole.length}, NULL);
        /* Some arguments have neighbours with the same result. */
        assert_true(status == KILN_E_CORRUPT || status == KILN_MISS || status == KILN_OK);
    }
    kilni_text_done(&whole);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    kiln_status status = KILN_E_NO_MEMORY;
    size_t n = 1;
    for (; status == KILN_E_NO_MEMORY; n++) {
        kilni_folds *folds = NULL;
        kilni_text encoded = {0};
        const char *why = NULL;
        failing_malloc_arm(n);
        status = kilni_folds_new(&folds);
        for (int i = 0; i < 40 && status == KILN_OK; i++) {
            const kilni_fold fold = fold_of(KILNI_MATH_exp, i, 0);
            kilni_folds_note(folds, &fold);
        }
        if (status == KILN_OK) {
            status = kilni_folds_finish(folds, &encoded, &why);
        }
        failing_malloc_disarm();
        kilni_folds_free(&folds);
        kilni_text_done(&encoded);
    }
    assert_int_equal(status, KILN_OK);
    assert_true(n > 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds_hold),
        cmocka_unit_test(test_each_part_of_a_result_is_compared),
        cmocka_unit_test(test_exceptions_and_errno_are_recorded),
        cmocka_unit_test(test_a_call_sets_flags_and_errno),
        cmocka_unit_test(test_checking_keeps_flags_and_errno),
        cmocka_unit_test(test_trying_keeps_flags_and_errno),
        cmocka_unit_test(test_a_function_that_nvrtc_does_not_call_is_not_accepted),
        cmocka_unit_test(test_functions_are_set_once),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_order_of_calls_does_not_matter),
        cmocka_unit_test(test_too_many_folds),
        cmocka_unit_test(test_other_modes_make_folds_fail),
        cmocka_unit_test(test_varying_results_make_folds_fail),
        cmocka_unit_test(test_damaged_folds),
        cmocka_unit_test(test_memory_runs_out),
    };
    kilni_math_set_function(KILNI_MATH_exp, (void *)exp);
    kilni_math_set_function(KILNI_MATH_expf, (void *)expf);
    kilni_math_set_function(KILNI_MATH_log, (void *)log);
    kilni_math_set_function(KILNI_MATH_pow, (void *)pow);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
