/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>

#include "support/failing_malloc.h"

typedef struct variable {
    const char *name, *value;
} variable;

/* @user is a list of variables that ends with a NULL name. */
static const char *look_up(void *user, const char *name)
{
    for (const variable *each = user; each->name; each++) {
        if (strcmp(each->name, name) == 0) {
            return each->value;
        }
    }
    return NULL;
}

static kiln_config *read_config(variable *variables)
{
    kiln_config *config = NULL;
    assert_int_equal(kiln_config_from_env(look_up, variables, &config), KILN_OK);
    assert_non_null(config);
    return config;
}

#define CONFIG(...) read_config((variable[]){__VA_ARGS__, {NULL, NULL}})

static void test_nothing_set_gives_the_defaults(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"OTHER", "1"});
    assert_null(kiln_config_dir(config));
    assert_true(kiln_config_max_bytes(config) == (uint64_t)2 << 30);
    assert_int_equal(kiln_config_readonly(config), 0);
    assert_int_equal(kiln_config_disabled(config), 0);
    assert_null(kiln_config_trace(config));
    assert_null(kiln_config_stats(config));
    assert_null(kiln_config_key_variable(config, 0));
    assert_null(kiln_config_complaint(config, 0));
    kiln_config_free(&config);
    assert_null(config);
    kiln_config_free(&config);
    kiln_config_free(NULL);
}

static void test_all_is_read(void **state)
{
    (void)state;
    kiln_config *config =
        CONFIG({"KILN_DIR", "/a/b/"}, {"KILN_MAX_SIZE", "3m"}, {"KILN_READONLY", "1"},
               {"KILN_DISABLE", "1"}, {"KILN_TRACE", "-"}, {"KILN_STATS", "/s"},
               {"KILN_KEY_ENV", "A_1,b*,_"}, {"HOME", "/home/u"});
    assert_string_equal(kiln_config_dir(config), "/a/b/");
    assert_true(kiln_config_max_bytes(config) == 3 << 20);
    assert_int_equal(kiln_config_readonly(config), 1);
    assert_int_equal(kiln_config_disabled(config), 1);
    assert_string_equal(kiln_config_trace(config), "-");
    assert_string_equal(kiln_config_stats(config), "/s");
    assert_string_equal(kiln_config_key_variable(config, 0), "A_1");
    assert_string_equal(kiln_config_key_variable(config, 1), "b*");
    assert_string_equal(kiln_config_key_variable(config, 2), "_");
    assert_null(kiln_config_key_variable(config, 3));
    assert_null(kiln_config_key_variable(config, SIZE_MAX));
    assert_null(kiln_config_complaint(config, 0));
    kiln_config_free(&config);
}

static void assert_dir(const char *kiln, const char *xdg, const char *home, const char *expected)
{
    variable variables[] = {
        {"KILN_DIR", kiln}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}, {NULL, NULL}};
    kiln_config *config = read_config(variables);
    assert_string_equal(kiln_config_dir(config), expected);
    assert_null(kiln_config_complaint(config, 0));
    kiln_config_free(&config);
}

static void test_the_directory_is_the_first_that_is_given(void **state)
{
    (void)state;
    assert_dir("/k", "/x", "/h", "/k");
    assert_dir(NULL, "/x", "/h", "/x/kiln");
    assert_dir("", "/x//", "/h", "/x/kiln");
    assert_dir(NULL, NULL, "/h", "/h/.cache/kiln");
    assert_dir("", "", "/", "/.cache/kiln");
    assert_dir("/k", "relative", NULL, "/k");
    assert_dir("file:///k?layout=sycl", "/x", "/h", "file:///k?layout=sycl");
}

static void test_empty_means_unset(void **state)
{
    (void)state;
    kiln_config *config =
        CONFIG({"KILN_DIR", ""}, {"KILN_MAX_SIZE", ""}, {"KILN_READONLY", ""}, {"KILN_DISABLE", ""},
               {"KILN_TRACE", ""}, {"KILN_STATS", ""}, {"KILN_KEY_ENV", ""}, {"HOME", ""});
    assert_null(kiln_config_dir(config));
    assert_true(kiln_config_max_bytes(config) == (uint64_t)2 << 30);
    assert_int_equal(kiln_config_readonly(config), 0);
    assert_null(kiln_config_trace(config));
    assert_null(kiln_config_stats(config));
    assert_null(kiln_config_key_variable(config, 0));
    assert_null(kiln_config_complaint(config, 0));
    kiln_config_free(&config);
}

static void test_a_relative_directory_is_a_complaint(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_DIR", "cache"}, {"XDG_CACHE_HOME", "./x"}, {"HOME", "/h"});
    assert_string_equal(kiln_config_dir(config), "/h/.cache/kiln");
    assert_string_equal(kiln_config_complaint(config, 0),
                        "KILN_DIR=cache: expected an absolute path; /h/.cache/kiln is used");
    assert_string_equal(kiln_config_complaint(config, 1),
                        "XDG_CACHE_HOME=./x: expected an absolute path; /h/.cache/kiln is used");
    assert_null(kiln_config_complaint(config, 2));
    kiln_config_free(&config);

    config = CONFIG({"HOME", "h"});
    assert_null(kiln_config_dir(config));
    assert_string_equal(kiln_config_complaint(config, 0),
                        "HOME=h: expected an absolute path; nothing is stored on disk");
    kiln_config_free(&config);
}

static void test_a_wrong_size_is_a_complaint(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_MAX_SIZE", "3X"});
    assert_true(kiln_config_max_bytes(config) == (uint64_t)2 << 30);
    assert_string_equal(kiln_config_complaint(config, 0),
                        "KILN_MAX_SIZE=3X: expected a number of bytes, with at most one suffix "
                        "K, M, G or T; 2G is used");
    assert_null(kiln_config_complaint(config, 1));
    kiln_config_free(&config);

    config = CONFIG({"KILN_MAX_SIZE", "0"});
    assert_true(kiln_config_max_bytes(config) == 0);
    assert_null(kiln_config_complaint(config, 0));
    kiln_config_free(&config);
}

static void test_a_switch_is_0_or_1(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_READONLY", "0"}, {"KILN_DISABLE", "yes"});
    assert_int_equal(kiln_config_readonly(config), 0);
    assert_int_equal(kiln_config_disabled(config), 0);
    assert_string_equal(kiln_config_complaint(config, 0),
                        "KILN_DISABLE=yes: expected 0 or 1; 0 is used");
    assert_null(kiln_config_complaint(config, 1));
    kiln_config_free(&config);

    config = CONFIG({"KILN_READONLY", "01"}, {"KILN_DISABLE", "1 "});
    assert_int_equal(kiln_config_readonly(config), 0);
    assert_int_equal(kiln_config_disabled(config), 0);
    assert_non_null(kiln_config_complaint(config, 1));
    kiln_config_free(&config);
}

static void test_the_helper_is_on_unless_switched_off(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_TOOL", "/a/kiln"});
    assert_int_equal(kiln_config_helper(config), 1);
    assert_string_equal(kiln_config_tool(config), "/a/kiln");
    kiln_config_free(&config);

    config = CONFIG({"KILN_HELPER", "0"});
    assert_int_equal(kiln_config_helper(config), 0);
    assert_null(kiln_config_tool(config));
    kiln_config_free(&config);

    config = CONFIG({"KILN_HELPER", "no"});
    assert_int_equal(kiln_config_helper(config), 1);
    assert_string_equal(kiln_config_complaint(config, 0),
                        "KILN_HELPER=no: expected 0 or 1; 1 is used");
    kiln_config_free(&config);
}

static void test_wrong_names_are_complaints_and_the_others_stay(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_KEY_ENV", "A,,*,B-C,D*E,F**,G*, H,9"});
    assert_string_equal(kiln_config_key_variable(config, 0), "A");
    assert_string_equal(kiln_config_key_variable(config, 1), "G*");
    assert_string_equal(kiln_config_key_variable(config, 2), "9");
    assert_null(kiln_config_key_variable(config, 3));
    static const char *const left_out[] = {"element 2 is", "element 3 is", "element 4 is",
                                           "element 5 is", "element 6 is", "element 8 is"};
    for (size_t i = 0; i < 6; i++) {
        const char *complaint = kiln_config_complaint(config, i);
        assert_non_null(complaint);
        assert_ptr_equal(strstr(complaint, "KILN_KEY_ENV=A,,*,B-C,D*E,F**,G*, H,9: expected names"),
                         complaint);
        assert_non_null(strstr(complaint, left_out[i]));
    }
    assert_null(kiln_config_complaint(config, 6));
    kiln_config_free(&config);

    config = CONFIG({"KILN_KEY_ENV", "A,"});
    assert_string_equal(kiln_config_key_variable(config, 0), "A");
    assert_non_null(strstr(kiln_config_complaint(config, 0), "element 2 is left out"));
    assert_null(kiln_config_complaint(config, 1));
    kiln_config_free(&config);
}

static void test_a_complaint_is_one_short_line(void **state)
{
    (void)state;
    char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    kiln_config *config = CONFIG({"KILN_READONLY", "a\nb\x1b"}, {"KILN_DISABLE", endless});
    assert_string_equal(kiln_config_complaint(config, 0),
                        "KILN_READONLY=a\\x0ab\\x1b: expected 0 or 1; 0 is used");
    const char *complaint = kiln_config_complaint(config, 1);
    assert_true(strlen(complaint) < 300);
    assert_non_null(strstr(complaint, "xxx...: expected 0 or 1; 0 is used"));
    kiln_config_free(&config);
}

static void test_the_default_is_the_environment(void **state)
{
    (void)state;
    setenv("KILN_DIR", "/from/environment", 1);
    kiln_config *config = NULL;
    assert_int_equal(kiln_config_from_env(NULL, NULL, &config), KILN_OK);
    assert_string_equal(kiln_config_dir(config), "/from/environment");
    kiln_config_free(&config);
    unsetenv("KILN_DIR");
    assert_int_equal(kiln_config_from_env(NULL, NULL, NULL), KILN_E_INVALID);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    variable variables[] = {{"KILN_DIR", "relative"},   {"HOME", "/h"},
                            {"KILN_MAX_SIZE", "x"},     {"KILN_READONLY", "x"},
                            {"KILN_TRACE", "/t"},       {"KILN_STATS", "/s"},
                            {"KILN_KEY_ENV", "A,,B*,"}, {NULL, NULL}};
    size_t n = 1;
    for (;; n++) {
        kiln_config *config = NULL;
        failing_malloc_arm(n);
        kiln_status status = kiln_config_from_env(look_up, variables, &config);
        if (failing_malloc_disarm() < n) {
            assert_int_equal(status, KILN_OK);
            kiln_config_free(&config);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
        assert_null(config);
    }
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_set_gives_the_defaults),
        cmocka_unit_test(test_all_is_read),
        cmocka_unit_test(test_the_directory_is_the_first_that_is_given),
        cmocka_unit_test(test_empty_means_unset),
        cmocka_unit_test(test_a_relative_directory_is_a_complaint),
        cmocka_unit_test(test_a_wrong_size_is_a_complaint),
        cmocka_unit_test(test_a_switch_is_0_or_1),
        cmocka_unit_test(test_the_helper_is_on_unless_switched_off),
        cmocka_unit_test(test_wrong_names_are_complaints_and_the_others_stay),
        cmocka_unit_test(test_a_complaint_is_one_short_line),
        cmocka_unit_test(test_the_default_is_the_environment),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
