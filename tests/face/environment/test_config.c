/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/config.h>
#include <kiln/persistent.h>

#include "support/failing_malloc.h"
#include "support/store_scene.h"

typedef struct variable {
    const char *name, *value;
} variable;

/* Returns a variable's value. @user is a list of variables that ends with a NULL name. */
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
    assert_null(config->dir);
    assert_true(config->max_bytes == (uint64_t)2 << 30);
    assert_int_equal(config->readonly, 0);
    assert_int_equal(config->disabled, 0);
    assert_null(config->trace);
    assert_null(config->stats);
    assert_null(config->key_file);
    assert_null(config->key_variables[0]);
    assert_null(config->warnings[0]);
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
               {"KILN_SIGNING_KEY_FILE", "/k"}, {"KILN_KEY_ENV", "A_1,b*,_"}, {"HOME", "/home/u"});
    assert_string_equal(config->dir, "/a/b/");
    assert_true(config->max_bytes == 3 << 20);
    assert_int_equal(config->readonly, 1);
    assert_int_equal(config->disabled, 1);
    assert_string_equal(config->trace, "-");
    assert_string_equal(config->stats, "/s");
    assert_string_equal(config->key_file, "/k");
    assert_string_equal(config->key_variables[0], "A_1");
    assert_string_equal(config->key_variables[1], "b*");
    assert_string_equal(config->key_variables[2], "_");
    assert_null(config->key_variables[3]);
    assert_null(config->warnings[0]);
    kiln_config_free(&config);
}

static void assert_dir(const char *kiln, const char *xdg, const char *home, const char *expected)
{
    variable variables[] = {
        {"KILN_DIR", kiln}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}, {NULL, NULL}};
    kiln_config *config = read_config(variables);
    assert_string_equal(config->dir, expected);
    assert_null(config->warnings[0]);
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
    /* Only KILN_DIR accepts a chain; in the other variables, '|' is part of a path. */
    assert_dir("/a|/b", "/x", "/h", "/a|/b");
    assert_dir(NULL, "/a|/b", "/h", "file:///a%7C/b/kiln");
    assert_dir(NULL, NULL, "/a?%|b", "file:///a%3F%25%7Cb/.cache/kiln");
    assert_dir(NULL, NULL, "/a?%b", "/a?%b/.cache/kiln");
}

static void test_empty_means_unset(void **state)
{
    (void)state;
    kiln_config *config =
        CONFIG({"KILN_DIR", ""}, {"KILN_MAX_SIZE", ""}, {"KILN_READONLY", ""}, {"KILN_DISABLE", ""},
               {"KILN_TRACE", ""}, {"KILN_STATS", ""}, {"KILN_KEY_ENV", ""}, {"HOME", ""});
    assert_null(config->dir);
    assert_true(config->max_bytes == (uint64_t)2 << 30);
    assert_int_equal(config->readonly, 0);
    assert_null(config->trace);
    assert_null(config->stats);
    assert_null(config->key_variables[0]);
    assert_null(config->warnings[0]);
    kiln_config_free(&config);
}

static void test_a_relative_directory_is_a_warning(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_DIR", "cache"}, {"XDG_CACHE_HOME", "./x"}, {"HOME", "/h"});
    assert_string_equal(config->dir, "/h/.cache/kiln");
    assert_string_equal(config->warnings[0],
                        "KILN_DIR=cache: expected an absolute path; /h/.cache/kiln is used");
    assert_string_equal(config->warnings[1],
                        "XDG_CACHE_HOME=./x: expected an absolute path; /h/.cache/kiln is used");
    assert_null(config->warnings[2]);
    kiln_config_free(&config);

    config = CONFIG({"HOME", "h"});
    assert_null(config->dir);
    assert_string_equal(config->warnings[0],
                        "HOME=h: expected an absolute path; nothing is stored on disk");
    kiln_config_free(&config);
}

static void test_a_wrong_size_is_a_warning(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_MAX_SIZE", "3X"});
    assert_true(config->max_bytes == (uint64_t)2 << 30);
    assert_string_equal(config->warnings[0],
                        "KILN_MAX_SIZE=3X: expected a number of bytes, with at most one suffix "
                        "K, M, G or T; 2G is used");
    assert_null(config->warnings[1]);
    kiln_config_free(&config);

    config = CONFIG({"KILN_MAX_SIZE", "0"});
    assert_true(config->max_bytes == 0);
    assert_null(config->warnings[0]);
    kiln_config_free(&config);
}

static void test_a_switch_is_0_or_1(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_READONLY", "0"}, {"KILN_DISABLE", "yes"});
    assert_int_equal(config->readonly, 0);
    assert_int_equal(config->disabled, 0);
    assert_string_equal(config->warnings[0], "KILN_DISABLE=yes: expected 0 or 1; 0 is used");
    assert_null(config->warnings[1]);
    kiln_config_free(&config);

    config = CONFIG({"KILN_READONLY", "01"}, {"KILN_DISABLE", "1 "});
    assert_int_equal(config->readonly, 0);
    assert_int_equal(config->disabled, 0);
    assert_non_null(config->warnings[1]);
    kiln_config_free(&config);
}

static void test_the_helper_is_on_unless_switched_off(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_TOOL", "/a/kiln"});
    assert_int_equal(config->helper, 1);
    assert_string_equal(config->tool, "/a/kiln");
    kiln_config_free(&config);

    config = CONFIG({"KILN_HELPER", "0"});
    assert_int_equal(config->helper, 0);
    assert_null(config->tool);
    kiln_config_free(&config);

    config = CONFIG({"KILN_HELPER", "no"});
    assert_int_equal(config->helper, 1);
    assert_string_equal(config->warnings[0], "KILN_HELPER=no: expected 0 or 1; 1 is used");
    kiln_config_free(&config);
}

static void test_last_miss_is_kept_on_request(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_DIR", "/a"});
    assert_int_equal(config->last_miss, 0);
    kiln_config_free(&config);
    config = CONFIG({"KILN_LAST_MISS", "1"});
    assert_int_equal(config->last_miss, 1);
    kiln_config_free(&config);
    config = CONFIG({"KILN_LAST_MISS", "yes"});
    assert_int_equal(config->last_miss, 0);
    assert_string_equal(config->warnings[0], "KILN_LAST_MISS=yes: expected 0 or 1; 0 is used");
    kiln_config_free(&config);
}

/* A wrong value must not be treated as if the variable were unset. */
static void test_key_file_is_passed_on_unchanged(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_SIGNING_KEY_FILE", ""});
    assert_string_equal(config->key_file, "");
    kiln_config_free(&config);
    config = CONFIG({"KILN_SIGNING_KEY_FILE", "relative/key"});
    assert_string_equal(config->key_file, "relative/key");
    kiln_config_free(&config);
    config = CONFIG({"KILN_SIGNING_KEY_FILE", "/a/key"});
    assert_string_equal(config->key_file, "/a/key");
    kiln_config_free(&config);
    config = CONFIG({"KILN_KEY_FILE", "/old/key"});
    assert_string_equal(config->key_file, "/old/key");
    kiln_config_free(&config);
    config = CONFIG({"KILN_KEY_FILE", "/old/key"}, {"KILN_SIGNING_KEY_FILE", "/a/key"});
    assert_string_equal(config->key_file, "/a/key");
    kiln_config_free(&config);
    config = CONFIG({"KILN_KEY_FILE", "/old/key"}, {"KILN_SIGNING_KEY_FILE", ""});
    assert_string_equal(config->key_file, "");
    kiln_config_free(&config);
}

static void test_credentials(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_HTTP_TOKEN_FILE", "/a/token"});
    assert_string_equal(config->credentials->http_token_file, "/a/token");
    kiln_config_free(&config);
    config = CONFIG({"KILN_HTTP_TOKEN_FILE", ""}, {"REDISCLI_AUTH", ""});
    assert_null(config->credentials->http_token_file);
    assert_null(config->credentials->redis_password);
    kiln_config_free(&config);
    config = CONFIG({"REDISCLI_AUTH", "a secret"});
    assert_string_equal(config->credentials->redis_password, "a secret");
    kiln_config_free(&config);
    config = CONFIG({"KILN_SECRET_KEY_FILE", "/a/secret"}, {"HOME", "/home/a"});
    assert_string_equal(config->credentials->secret_key_file, "/a/secret");
    assert_string_equal(config->credentials->trusted_key_files[0], "/etc/kiln/trusted-keys");
    assert_string_equal(config->credentials->trusted_key_files[1],
                        "/home/a/.config/kiln/trusted-keys");
    kiln_config_free(&config);
    config = CONFIG({"XDG_CONFIG_HOME", "/conf/"}, {"HOME", "/home/a"});
    assert_null(config->credentials->secret_key_file);
    assert_string_equal(config->credentials->trusted_key_files[1], "/conf/kiln/trusted-keys");
    kiln_store_params on_disk = {.struct_size = sizeof on_disk};
    assert_int_equal(kiln_config_get_store(config, &on_disk), KILN_OK);
    assert_ptr_equal(on_disk.credentials, config->credentials);
    kiln_config_free(&config);
    config = CONFIG({"XDG_CONFIG_HOME", "conf"}, {"HOME", "home"});
    assert_null(config->credentials->trusted_key_files[1]);
    kiln_config_free(&config);
    config = CONFIG({"AWS_ACCESS_KEY_ID", "a"}, {"AWS_SECRET_ACCESS_KEY", "b"},
                    {"AWS_SESSION_TOKEN", "c"}, {"AWS_SHARED_CREDENTIALS_FILE", "/d"},
                    {"AWS_DEFAULT_REGION", "e"}, {"KILN_DIR", "s3://bucket/x"});
    assert_string_equal(config->credentials->aws_access_key_id, "a");
    assert_string_equal(config->credentials->aws_secret_access_key, "b");
    assert_string_equal(config->credentials->aws_session_token, "c");
    assert_string_equal(config->credentials->aws_credentials_file, "/d");
    assert_string_equal(config->credentials->aws_region, "e");
    assert_string_equal(config->dir, "s3://bucket/x");
    kiln_config_free(&config);
    config = CONFIG({"AWS_DEFAULT_REGION", "e"}, {"AWS_REGION", "f"});
    assert_string_equal(config->credentials->aws_region, "f");
    kiln_config_free(&config);
    config = CONFIG({"KILN_DIR", "https://cache.example/kiln"});
    assert_string_equal(config->dir, "https://cache.example/kiln");
    kiln_config_free(&config);
}

static void test_wrong_names_are_warned_about_and_ignored(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_KEY_ENV", "A,,*,B-C,D*E,F**,G*, H,9"});
    assert_string_equal(config->key_variables[0], "A");
    assert_string_equal(config->key_variables[1], "G*");
    assert_string_equal(config->key_variables[2], "9");
    assert_null(config->key_variables[3]);
    static const char *const left_out[] = {"element 2 is", "element 3 is", "element 4 is",
                                           "element 5 is", "element 6 is", "element 8 is"};
    for (size_t i = 0; i < 6; i++) {
        const char *warning = config->warnings[i];
        assert_non_null(warning);
        assert_ptr_equal(strstr(warning, "KILN_KEY_ENV=A,,*,B-C,D*E,F**,G*, H,9: expected names"),
                         warning);
        assert_non_null(strstr(warning, left_out[i]));
    }
    assert_null(config->warnings[6]);
    kiln_config_free(&config);

    config = CONFIG({"KILN_KEY_ENV", "A,"});
    assert_string_equal(config->key_variables[0], "A");
    assert_non_null(strstr(config->warnings[0], "element 2 is left out"));
    assert_null(config->warnings[1]);
    kiln_config_free(&config);
}

static void test_a_warning_is_one_short_line(void **state)
{
    (void)state;
    char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    kiln_config *config = CONFIG({"KILN_READONLY", "a\nb\x1b"}, {"KILN_DISABLE", endless});
    assert_string_equal(config->warnings[0],
                        "KILN_READONLY=a\\x0ab\\x1b: expected 0 or 1; 0 is used");
    const char *warning = config->warnings[1];
    assert_true(strlen(warning) < 300);
    assert_non_null(strstr(warning, "xxx...: expected 0 or 1; 0 is used"));
    kiln_config_free(&config);
}

/* ---- profiles ---- */

static kiln_config *read_profile(uint32_t profile, variable *variables)
{
    kiln_config *config = NULL;
    assert_int_equal(kiln_config_from_profile(profile, look_up, variables, &config), KILN_OK);
    return config;
}

static const char *policy_name(uint32_t policy)
{
    static const char *const names[] = {"cost", "lru", "fifo", "no_evict"};
    assert_in_range(policy, 0, 3);
    return names[policy];
}

static void test_included_files_have_a_bound(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_DIR", "/a"});
    assert_int_equal(config->included_max_bytes, 128 << 20);
    kiln_config_free(&config);
    config = CONFIG({"KILN_DIR", "/a"}, {"KILN_INCLUDED_MAX_SIZE", "3M"});
    assert_int_equal(config->included_max_bytes, 3 << 20);
    kiln_config_free(&config);
    config = CONFIG({"KILN_DIR", "/a"}, {"KILN_INCLUDED_MAX_SIZE", "0"});
    assert_int_equal(config->included_max_bytes, 0);
    kiln_config_free(&config);
}

static void test_a_journal_is_kept_unless_switched_off(void **state)
{
    (void)state;
    kiln_store_params store = {.struct_size = sizeof store};
    kiln_config *config = CONFIG({"KILN_DIR", "/a"});
    assert_int_equal(config->journal, 1);
    assert_null(config->record);
    assert_int_equal(kiln_config_get_store(config, &store), KILN_OK);
    assert_true(store.flags & KILN_STORE_JOURNAL);
    kiln_config_free(&config);
    config = CONFIG({"KILN_DIR", "/a"}, {"KILN_JOURNAL", "0"}, {"KILN_RECORD", "/b"});
    assert_int_equal(config->journal, 0);
    assert_string_equal(config->record, "/b");
    assert_int_equal(kiln_config_get_store(config, &store), KILN_OK);
    assert_false(store.flags & KILN_STORE_JOURNAL);
    kiln_config_free(&config);
}

/* Writes to @text how a store is opened: "LOCATION of SIZE, kiln cost", or "none, …". */
static void describe_store(const kiln_config *config, char *text, size_t size)
{
    kiln_store_params store = {.struct_size = sizeof store};
    assert_int_equal(kiln_config_get_store(config, &store), KILN_OK);
    assert_int_equal(store.struct_size, sizeof store);
    assert_true(store.max_bytes == config->max_bytes);
    const char *location = config->location;
    const int length = snprintf(
        text, size, "%s of %" PRIu64 ", %s %s%s%s, %" PRIu64 " s%s%s", location ? location : "none",
        store.max_bytes, store.layout ? store.layout : "kiln", policy_name(store.policy),
        store.flags & KILN_STORE_READONLY ? " read-only" : "",
        store.flags & KILN_STORE_NOTE_MISSES ? " noting misses" : "", store.max_age_s,
        store.key_file ? ", key " : "", store.key_file ? store.key_file : "");
    assert_in_range(length, 1, size - 1);
}

/* Writes to @text, in one line, everything that a profile decides. */
static void describe(const kiln_config *config, char *text, size_t size)
{
    char on_disk[512];
    describe_store(config, on_disk, sizeof on_disk);
    kiln_cache_params memory = {.struct_size = sizeof memory};
    assert_int_equal(kiln_config_get_memory(config, &memory), KILN_OK);
    assert_int_equal(memory.struct_size, sizeof memory);
    assert_null((void *)(uintptr_t)memory.destroy);
    const char *dir = config->dir, *trace = config->trace;
    const int length =
        snprintf(text, size,
                 "dir %s, store %s, images %" PRIu64 " to %" PRIu64 ", memory %s %" PRIu64
                 " %" PRIu64 "%s%s, trace %" PRIu32 " %s",
                 dir ? dir : "none", on_disk, config->min_image_bytes, config->max_image_bytes,
                 kiln_policy_name(memory.policy), memory.max_bytes, memory.max_entries,
                 memory.flags & KILN_CACHE_RETAIN_FAILURES ? " failures" : "",
                 memory.flags & KILN_CACHE_DISABLED ? " off" : "", config->trace_events,
                 trace ? trace : "none");
    assert_in_range(length, 1, size - 1);
}

/* What one variable's value causes: the resulting configuration, or a warning. */
typedef struct effect {
    variable set;
    const char *said;
    const char *warning; /* after "NAME=value: "; NULL: none */
} effect;

static void check_effect(uint32_t profile, const variable *others, const effect *made)
{
    variable variables[8] = {made->set};
    for (size_t i = 0; others[i].name; i++) {
        variables[i + 1] = others[i];
    }
    kiln_config *config = read_profile(profile, variables);
    char text[1024];
    describe(config, text, sizeof text);
    if (!strstr(text, made->said)) {
        fail_msg("%s=%s: \"%s\" is not in \"%s\"", made->set.name, made->set.value, made->said,
                 text);
    }
    if (made->warning) {
        char expected[512];
        snprintf(expected, sizeof expected, "%s=%s: %s", made->set.name, made->set.value,
                 made->warning);
        assert_non_null(config->warnings[0]);
        assert_string_equal(config->warnings[0], expected);
        assert_null(config->warnings[1]);
    } else {
        assert_null(config->warnings[0]);
    }
    kiln_config_free(&config);
}

#define CHECK_EFFECTS(profile, others, effects)                                                    \
    for (size_t effect_index = 0; effect_index < sizeof(effects) / sizeof(effects)[0];             \
         effect_index++) {                                                                         \
        check_effect(profile, others, &(effects)[effect_index]);                                   \
    }

#define A_SIZE "expected a number of bytes, with at most one suffix K, M, G or T; "
#define A_SWITCH "expected 0 or 1; "
#define UNLIMITED "18446744073709551615"

static void test_profiles_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"kiln", "sycl", "onednn"};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t profile = 100;
        assert_string_equal(kiln_profile_name(i), names[i]);
        assert_int_equal(kiln_profile_parse(names[i], &profile), KILN_OK);
        assert_int_equal(profile, i);
    }
    uint32_t profile = 100;
    assert_null(kiln_profile_name(3));
    assert_int_equal(kiln_profile_parse("SYCL", &profile), KILN_E_PARSE);
    assert_int_equal(kiln_profile_parse("", &profile), KILN_E_PARSE);
    assert_int_equal(kiln_profile_parse(NULL, &profile), KILN_E_PARSE);
    assert_int_equal(profile, 100);
    assert_int_equal(kiln_profile_parse("sycl", NULL), KILN_E_INVALID);
    kiln_config *config = NULL;
    assert_int_equal(kiln_config_from_profile(3, look_up, (variable[]){{NULL, NULL}}, &config),
                     KILN_E_INVALID);
    assert_null(config);
}

static void test_profile_kiln(void **state)
{
    (void)state;
    static const variable others[] = {{"HOME", "/h"}, {NULL, NULL}};
    static const effect effects[] = {
        {{"OTHER", "1"},
         "dir /h/.cache/kiln, store /h/.cache/kiln of 2147483648, kiln cost, 0 s, images 0 "
         "to " UNLIMITED ", memory cost 0 0, trace 0 none",
         NULL},
        {{"KILN_DIR", "/a b/%?#|&=+"}, "store /a b/%?#|&=+ of 2147483648,", NULL},
        {{"KILN_MAX_SIZE", "1k"}, "store /h/.cache/kiln of 1024,", NULL},
        {{"KILN_MAX_SIZE", "0"}, "dir /h/.cache/kiln, store none of 0,", NULL},
        {{"KILN_MAX_SIZE", "-1"}, "of 2147483648,", A_SIZE "2G is used"},
        {{"KILN_READONLY", "1"}, "of 2147483648, kiln cost read-only, 0 s,", NULL},
        {{"KILN_READONLY", "on"}, "of 2147483648, kiln cost, 0 s,", A_SWITCH "0 is used"},
        {{"KILN_DISABLE", "1"},
         "store none of 2147483648, kiln cost, 0 s, images 0 to " UNLIMITED
         ", memory cost 0 0 off,",
         NULL},
        {{"KILN_DIR", "file:///k?layout=sycl"}, "store file:///k?layout=sycl of 2147483648,", NULL},
        {{"KILN_DIR", "file:/k?layout=sycl"}, "store file:/k?layout=sycl of 2147483648,", NULL},
        {{"KILN_DIR", "file://./k"},
         "store /h/.cache/kiln of",
         "expected an absolute path; /h/.cache/kiln is used"},
        {{"KILN_DIR", "pack:/p"}, "dir pack:/p, store pack:/p of 2147483648,", NULL},
        {{"KILN_DIR", "rediss://h"}, "dir rediss://h, store rediss://h of 2147483648,", NULL},
        {{"KILN_DIR", "rediss-cluster://h,i"},
         "dir rediss-cluster://h,i, store rediss-cluster://h,i of 2147483648,",
         NULL},
        {{"KILN_DIR", "/a b|pack:/c"}, "dir /a b|pack:/c, store /a b|pack:/c of 2147483648,", NULL},
        {{"KILN_DIR", "pack:p"},
         "store /h/.cache/kiln of",
         "expected an absolute path; /h/.cache/kiln is used"},
        {{"KILN_LAST_MISS", "1"}, "kiln cost noting misses, 0 s,", NULL},
        {{"KILN_SIGNING_KEY_FILE", "/k y"}, "kiln cost, 0 s, key /k y,", NULL},
        {{"KILN_DIR", "ftp://k"},
         "store /h/.cache/kiln of",
         "expected an absolute path; /h/.cache/kiln is used"},
        {{"KILN_TRACE", "/t"}, "trace 0 /t", NULL},
        {{"SYCL_CACHE_DIR", "/s"}, "dir /h/.cache/kiln,", NULL},
    };
    CHECK_EFFECTS(KILN_PROFILE_KILN, others, effects);
}

static void test_profile_sycl_is_off_by_default(void **state)
{
    (void)state;
    static const variable others[] = {{"HOME", "/h"}, {NULL, NULL}};
    static const effect effects[] = {
        {{"OTHER", "1"},
         "dir /h/.cache/libsycl_cache, store none of 8589934592, sycl lru, 604800 s, "
         "images 0 to 1073741824, "
         "memory lru 0 0 failures, trace 0 none",
         NULL},
        {{"SYCL_CACHE_PERSISTENT", "0"}, "store none of", NULL},
        {{"SYCL_CACHE_PERSISTENT", "true"}, "store none of", A_SWITCH "0 is used"},
        {{"SYCL_CACHE_PERSISTENT", "1"},
         "store /h/.cache/libsycl_cache of 8589934592, sycl lru, 604800 s,",
         NULL},
        {{"XDG_CACHE_HOME", "/x"}, "dir /x/libsycl_cache, store none of", NULL},
        {{"KILN_DIR", "/k"}, "dir /h/.cache/libsycl_cache,", NULL},
    };
    CHECK_EFFECTS(KILN_PROFILE_SYCL, others, effects);

    /* Each of three variables suffices to name a directory. If none is set, there is no cache. */
    static const variable on[] = {{"SYCL_CACHE_PERSISTENT", "1"}, {NULL, NULL}};
    static const effect directories[] = {
        {{"OTHER", "1"}, "dir none, store none of", NULL},
        {{"SYCL_CACHE_DIR", "/s"}, "dir /s, store /s of", NULL},
        {{"XDG_CACHE_HOME", "/x"}, "store /x/libsycl_cache of", NULL},
        {{"HOME", "/h"}, "store /h/.cache/libsycl_cache of", NULL},
    };
    CHECK_EFFECTS(KILN_PROFILE_SYCL, on, directories);
}

static void test_profile_sycl(void **state)
{
    (void)state;
    static const variable others[] = {{"HOME", "/h"}, {"SYCL_CACHE_PERSISTENT", "1"}, {NULL, NULL}};
    static const char a_day[] = "expected a number of days, at most 36500; 7 is used";
    static const char events[] = "expected a number of events added up, at most 7; 0 is used";
    const effect effects[] = {
        {{"SYCL_CACHE_DIR", "/s"}, "dir /s, store /s of 8589934592, sycl lru, 604800 s,", NULL},
        {{"SYCL_CACHE_DIR", "s"},
         "dir /h/.cache/libsycl_cache,",
         "expected an absolute path; /h/.cache/libsycl_cache is used"},
        {{"SYCL_CACHE_MAX_SIZE", "23000"}, " of 23000,", NULL},
        {{"SYCL_CACHE_MAX_SIZE", "3G"}, " of 3221225472,", NULL},
        {{"SYCL_CACHE_MAX_SIZE", "0"}, " of " UNLIMITED ", sycl lru, 604800 s,", NULL},
        {{"SYCL_CACHE_MAX_SIZE", "-1"}, " of 8589934592, sycl lru, 604800 s,", A_SIZE "8G is used"},
        {{"SYCL_CACHE_MAX_SIZE", "8 GB"},
         " of 8589934592, sycl lru, 604800 s,",
         A_SIZE "8G is used"},
        {{"SYCL_CACHE_THRESHOLD", "30"}, "sycl lru, 2592000 s,", NULL},
        {{"SYCL_CACHE_THRESHOLD", "0"}, "sycl lru, 0 s,", NULL},
        {{"SYCL_CACHE_THRESHOLD", "7d"}, "sycl lru, 604800 s,", a_day},
        {{"SYCL_CACHE_THRESHOLD", "1K"}, "sycl lru, 604800 s,", a_day},
        {{"SYCL_CACHE_THRESHOLD", "-1"}, "sycl lru, 604800 s,", a_day},
        {{"SYCL_CACHE_THRESHOLD", "36501"}, "sycl lru, 604800 s,", a_day},
        {{"SYCL_CACHE_EVICTION_DISABLE", "1"}, " of " UNLIMITED ", sycl lru, 0 s,", NULL},
        {{"SYCL_CACHE_EVICTION_DISABLE", "0"}, " of 8589934592, sycl lru, 604800 s,", NULL},
        {{"SYCL_CACHE_EVICTION_DISABLE", "ON"},
         " of 8589934592, sycl lru, 604800 s,",
         A_SWITCH "0 is used"},
        {{"SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE", "1000000"}, "images 1000000 to 1073741824,", NULL},
        {{"SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE", "x"}, "images 0 to", A_SIZE "0 is used"},
        {{"SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE", "1000"}, "images 0 to 1000,", NULL},
        {{"SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE", "0"}, "images 0 to " UNLIMITED ",", NULL},
        {{"SYCL_CACHE_MAX_DEVICE_IMAGE_SIZE", "1e9"},
         "images 0 to 1073741824,",
         A_SIZE "1G is used"},
        {{"SYCL_CACHE_IN_MEM", "0"}, "memory lru 0 0 failures off,", NULL},
        {{"SYCL_CACHE_IN_MEM", "1"}, "memory lru 0 0 failures,", NULL},
        {{"SYCL_CACHE_IN_MEM", "2"}, "memory lru 0 0 failures,", A_SWITCH "1 is used"},
        {{"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "20005"}, "memory lru 20005 0 failures,", NULL},
        {{"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "4G"}, "memory lru 4294967296 0 ", NULL},
        {{"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "0"},
         "memory lru " UNLIMITED " " UNLIMITED " failures,",
         NULL},
        {{"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "a"},
         "memory lru 0 0 failures,",
         A_SIZE "256M is used"},
        {{"SYCL_CACHE_TRACE", "5"}, "trace 5 -", NULL},
        {{"SYCL_CACHE_TRACE", "0"}, "trace 0 none", NULL},
        {{"SYCL_CACHE_TRACE", "8"}, "trace 0 none", events},
        {{"SYCL_CACHE_TRACE", "random"}, "trace 0 none", events},
        {{"SYCL_CACHE_DISABLE_PERSISTENT", "1"},
         "store /h/",
         "no longer has any effect; SYCL_CACHE_PERSISTENT decides"},
        {{"KILN_DISABLE", "1"},
         "store none of 8589934592, sycl lru, 604800 s, images 0 to 1073741824, "
         "memory lru 0 0 failures off,",
         NULL},
        {{"KILN_READONLY", "1"}, "sycl lru read-only, 604800 s,", NULL},
    };
    CHECK_EFFECTS(KILN_PROFILE_SYCL, others, effects);
}

static void test_profile_onednn(void **state)
{
    (void)state;
    static const variable none[] = {{"HOME", "/h"}, {NULL, NULL}};
    static const char mib[] = "expected a number of MiB, at most 17592186044415; 0 is used";
    static const char entries[] = "expected a number of entries, at most 2147483647; 1024 is used";
    const effect effects[] = {
        {{"OTHER", "1"},
         "dir ./kiln_persistent_cache, store none of 0, onednn fifo, 0 s, images 0 to " UNLIMITED
         ", memory lru " UNLIMITED " 1024, trace 0 none",
         NULL},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "10"},
         "store ./kiln_persistent_cache of 10485760, onednn fifo, 0 s,",
         NULL},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "0"}, "store none of", NULL},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "10M"}, "store none of", mib},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "-1"}, "store none of", mib},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "17592186044416"}, "store none of", mib},
        {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "17592186044415"}, " of 18446744073708503040,", NULL},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8"}, "memory lru " UNLIMITED " 8,", NULL},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0"}, "memory lru " UNLIMITED " 0 off,", NULL},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "abc"}, "1024,", entries},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "-1"}, "1024,", entries},
        {{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "10abc"}, "1024,", entries},
        {{"DNNL_PRIMITIVE_CACHE_CAPACITY", "9"}, "memory lru " UNLIMITED " 9,", NULL},
        {{"DNNL_PRIMITIVE_CACHE_CAPACITY", "x"}, "1024,", entries},
    };
    CHECK_EFFECTS(KILN_PROFILE_ONEDNN, none, effects);

    static const variable on[] = {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "1"},
                                  {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "11"},
                                  {NULL, NULL}};
    static const effect effects_on[] = {
        {{"ONEDNN_PERSISTENT_CACHE_DIR", "/o"}, "dir /o, store /o of 1048576,", NULL},
        {{"ONEDNN_PERSISTENT_CACHE_DIR", "o"},
         "store ./kiln_persistent_cache of 1048576,",
         "expected an absolute path; ./kiln_persistent_cache is used"},
        {{"ONEDNN_PERSISTENT_CACHE_POLICY", "fifo"}, "onednn fifo,", NULL},
        {{"ONEDNN_PERSISTENT_CACHE_POLICY", "no_evict"}, "onednn no_evict,", NULL},
        {{"ONEDNN_PERSISTENT_CACHE_POLICY", "lru"},
         "onednn fifo,",
         "expected fifo or no_evict; fifo is used"},
        {{"DNNL_PRIMITIVE_CACHE_CAPACITY", "9"}, "memory lru " UNLIMITED " 11,", NULL},
    };
    CHECK_EFFECTS(KILN_PROFILE_ONEDNN, on, effects_on);
}

static void test_memory_of_another_version(void **state)
{
    (void)state;
    kiln_config *config = read_profile(KILN_PROFILE_SYCL, (variable[]){{NULL, NULL}});
    struct {
        kiln_cache_params params;
        uint64_t unknown;
    } longer = {.params.struct_size = sizeof longer, .unknown = 1};
    assert_int_equal(kiln_config_get_memory(config, &longer.params), KILN_OK);
    assert_int_equal(longer.params.struct_size, sizeof longer);
    assert_int_equal(longer.unknown, 0);
    kiln_cache_params first = {.struct_size = offsetof(kiln_cache_params, flags), .flags = 77};
    assert_int_equal(kiln_config_get_memory(config, &first), KILN_OK);
    assert_int_equal(first.policy, KILN_POLICY_LRU);
    assert_int_equal(first.flags, 77);
    kiln_cache_params shorter = {.struct_size = 1, .policy = 77};
    assert_int_equal(kiln_config_get_memory(config, &shorter), KILN_E_INVALID);
    assert_int_equal(shorter.policy, 77);
    assert_int_equal(kiln_config_get_memory(config, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_config_get_memory(NULL, &shorter), KILN_E_INVALID);
    kiln_config_free(&config);
}

static void test_store_of_another_version(void **state)
{
    (void)state;
    kiln_config *config = read_profile(KILN_PROFILE_SYCL, (variable[]){{NULL, NULL}});
    struct {
        kiln_store_params params;
        uint64_t unknown;
    } longer = {.params.struct_size = sizeof longer, .unknown = 1};
    assert_int_equal(kiln_config_get_store(config, &longer.params), KILN_OK);
    assert_int_equal(longer.params.struct_size, sizeof longer);
    assert_int_equal(longer.unknown, 0);
    kiln_store_params first = {.struct_size = offsetof(kiln_store_params, flags), .flags = 77};
    assert_int_equal(kiln_config_get_store(config, &first), KILN_OK);
    assert_true(first.max_bytes == UINT64_C(8) << 30);
    assert_int_equal(first.flags, 77);
    kiln_store_params shorter = {.struct_size = 1, .max_bytes = 77};
    assert_int_equal(kiln_config_get_store(config, &shorter), KILN_E_INVALID);
    assert_int_equal(shorter.max_bytes, 77);
    assert_int_equal(kiln_config_get_store(config, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_config_get_store(NULL, &shorter), KILN_E_INVALID);
    kiln_config_free(&config);
}

static void test_other_profiles_read_no_chains(void **state)
{
    (void)state;
    variable sycl[] = {{"SYCL_CACHE_DIR", "/a|b"}, {NULL, NULL}};
    kiln_config *config = read_profile(KILN_PROFILE_SYCL, sycl);
    assert_string_equal(config->dir, "file:///a%7Cb");
    kiln_config_free(&config);
    variable onednn[] = {{"ONEDNN_PERSISTENT_CACHE_DIR", "/a|b"}, {NULL, NULL}};
    config = read_profile(KILN_PROFILE_ONEDNN, onednn);
    assert_string_equal(config->dir, "file:///a%7Cb");
    kiln_config_free(&config);
}

/* If a store opened with an empty key file, it would accept unsigned entries. */
static void test_no_store_opens_with_an_empty_key_file(void **state)
{
    (void)state;
    kiln_config *config = CONFIG({"KILN_DIR", "/nowhere"}, {"KILN_SIGNING_KEY_FILE", ""});
    kiln_store_params params = {.struct_size = sizeof params};
    kiln_store *store = NULL;
    assert_string_equal(config->key_file, "");
    assert_int_equal(kiln_config_get_store(config, &params), KILN_OK);
    assert_int_equal(kiln_store_open(config->location, &params, &store, NULL), KILN_E_INVALID);
    assert_null(store);
    kiln_config_free(&config);
}

/* Checks that the configuration of a profile opens both the store and the cache in memory. */
static void check_opening(uint32_t profile, variable *variables, uint64_t max_bytes,
                          uint64_t max_entries)
{
    kiln_config *config = read_profile(profile, variables);
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_store_params params = {.struct_size = sizeof params};
    assert_int_equal(kiln_config_get_store(config, &params), KILN_OK);
    kiln_status status = kiln_store_open(config->location, &params, &store, &error);
    if (status != KILN_OK) {
        fail_msg("%s: %s", config->location, error.text);
    }
    assert_int_equal(scratch_put(store, 1, 1000), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_true(stat.max_bytes == config->max_bytes);
    kiln_store_close(&store);

    kiln_cache_params memory = {.struct_size = sizeof memory};
    kiln_cache *cache = NULL;
    assert_int_equal(kiln_config_get_memory(config, &memory), KILN_OK);
    assert_int_equal(kiln_cache_new(&memory, &cache), KILN_OK);
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_cache_get_stats(cache, &stats), KILN_OK);
    assert_true(stats.max_bytes == max_bytes);
    assert_true(stats.max_entries == max_entries);
    assert_int_equal(stats.policy, memory.policy);
    kiln_cache_free(&cache);
    kiln_config_free(&config);
}

static void test_both_levels_open(void **state)
{
    (void)state;
    char scratch[SCRATCH_DIRECTORY_SIZE];
    scratch_make(scratch);
    variable of_kiln[] = {{"KILN_DIR", scratch_path(scratch, "k & l")}, {NULL, NULL}};
    check_opening(KILN_PROFILE_KILN, of_kiln, 256 << 20, 65536);
    variable of_sycl[] = {{"SYCL_CACHE_DIR", scratch_path(scratch, "s")},
                          {"SYCL_CACHE_PERSISTENT", "1"},
                          {"SYCL_IN_MEM_CACHE_EVICTION_THRESHOLD", "20005"},
                          {NULL, NULL},
                          {NULL, NULL}};
    check_opening(KILN_PROFILE_SYCL, of_sycl, 20005, 65536);
    of_sycl[3] = (variable){"SYCL_CACHE_EVICTION_DISABLE", "1"};
    check_opening(KILN_PROFILE_SYCL, of_sycl, 20005, 65536);
    variable of_onednn[] = {{"ONEDNN_PERSISTENT_CACHE_DIR", scratch_path(scratch, "o")},
                            {"ONEDNN_PERSISTENT_CACHE_CAPACITY", "3"},
                            {NULL, NULL},
                            {NULL, NULL}};
    check_opening(KILN_PROFILE_ONEDNN, of_onednn, KILN_UNLIMITED, 1024);
    of_onednn[2] = (variable){"ONEDNN_PERSISTENT_CACHE_POLICY", "no_evict"};
    check_opening(KILN_PROFILE_ONEDNN, of_onednn, KILN_UNLIMITED, 1024);
    scratch_remove(scratch);
}

/* The default directory of profile onednn starts at the working directory. */
static void test_the_working_directory_opens(void **state)
{
    (void)state;
    char scratch[SCRATCH_DIRECTORY_SIZE];
    scratch_make(scratch);
    const int start = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(start >= 0);
    assert_int_equal(chdir(scratch), 0);
    variable capacity[] = {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "3"}, {NULL, NULL}};
    check_opening(KILN_PROFILE_ONEDNN, capacity, KILN_UNLIMITED, 1024);
    assert_int_equal(fchdir(start), 0);
    close(start);
    assert_int_equal(access(scratch_path(scratch, "kiln_persistent_cache"), F_OK), 0);
    scratch_remove(scratch);
}

static void test_the_default_is_the_environment(void **state)
{
    (void)state;
    setenv("KILN_DIR", "/from/environment", 1);
    kiln_config *config = NULL;
    assert_int_equal(kiln_config_from_env(NULL, NULL, &config), KILN_OK);
    assert_string_equal(config->dir, "/from/environment");
    kiln_config_free(&config);
    unsetenv("KILN_DIR");
    assert_int_equal(kiln_config_from_env(NULL, NULL, NULL), KILN_E_INVALID);
}

static void check_failing_allocations(uint32_t profile, variable *variables)
{
    size_t n = 1;
    for (;; n++) {
        kiln_config *config = NULL;
        failing_malloc_arm(n);
        kiln_status status = kiln_config_from_profile(profile, look_up, variables, &config);
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

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    variable of_kiln[] = {{"KILN_DIR", "relative"},
                          {"HOME", "/h"},
                          {"KILN_MAX_SIZE", "x"},
                          {"KILN_READONLY", "x"},
                          {"KILN_TRACE", "/t"},
                          {"KILN_STATS", "/s"},
                          {"KILN_KEY_ENV", "A,,B*,"},
                          {"KILN_SIGNING_KEY_FILE", "/k"},
                          {"AWS_ACCESS_KEY_ID", "a"},
                          {"AWS_REGION", "r"},
                          {NULL, NULL}};
    check_failing_allocations(KILN_PROFILE_KILN, of_kiln);
    variable of_sycl[] = {{"HOME", "/h"},
                          {"SYCL_CACHE_PERSISTENT", "1"},
                          {"SYCL_CACHE_DIR", "relative"},
                          {"SYCL_CACHE_MAX_SIZE", "x"},
                          {"SYCL_CACHE_THRESHOLD", "x"},
                          {"SYCL_CACHE_IN_MEM", "x"},
                          {"SYCL_CACHE_TRACE", "1"},
                          {"SYCL_PROGRAM_COMPILE_OPTIONS", "-a"},
                          {"SYCL_PROGRAM_APPEND_LINK_OPTIONS", "-b"},
                          {NULL, NULL}};
    check_failing_allocations(KILN_PROFILE_SYCL, of_sycl);
    variable of_onednn[] = {{"ONEDNN_PERSISTENT_CACHE_CAPACITY", "1"},
                            {"ONEDNN_PERSISTENT_CACHE_DIR", "relative"},
                            {"ONEDNN_PERSISTENT_CACHE_POLICY", "x"},
                            {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "x"},
                            {NULL, NULL}};
    check_failing_allocations(KILN_PROFILE_ONEDNN, of_onednn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_set_gives_the_defaults),
        cmocka_unit_test(test_all_is_read),
        cmocka_unit_test(test_the_directory_is_the_first_that_is_given),
        cmocka_unit_test(test_other_profiles_read_no_chains),
        cmocka_unit_test(test_no_store_opens_with_an_empty_key_file),
        cmocka_unit_test(test_empty_means_unset),
        cmocka_unit_test(test_a_relative_directory_is_a_warning),
        cmocka_unit_test(test_a_wrong_size_is_a_warning),
        cmocka_unit_test(test_a_switch_is_0_or_1),
        cmocka_unit_test(test_the_helper_is_on_unless_switched_off),
        cmocka_unit_test(test_last_miss_is_kept_on_request),
        cmocka_unit_test(test_included_files_have_a_bound),
        cmocka_unit_test(test_a_journal_is_kept_unless_switched_off),
        cmocka_unit_test(test_key_file_is_passed_on_unchanged),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_wrong_names_are_warned_about_and_ignored),
        cmocka_unit_test(test_a_warning_is_one_short_line),
        cmocka_unit_test(test_profiles_have_names),
        cmocka_unit_test(test_profile_kiln),
        cmocka_unit_test(test_profile_sycl_is_off_by_default),
        cmocka_unit_test(test_profile_sycl),
        cmocka_unit_test(test_profile_onednn),
        cmocka_unit_test(test_memory_of_another_version),
        cmocka_unit_test(test_store_of_another_version),
        cmocka_unit_test(test_both_levels_open),
        cmocka_unit_test(test_the_working_directory_opens),
        cmocka_unit_test(test_the_default_is_the_environment),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
