/* SPDX-License-Identifier: Apache-2.0
 *
 * Which server a URL names, and which parts of a URL appear in messages.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <kiln/store.h>

#include "store/remote/loader.h"
#include "store/remote/server.h"

static const struct location {
    const char *text, *user, *host;
    unsigned port, database;
} locations[] = {
    {"cache", "", "cache", 6379, 0},
    {"cache/", "", "cache", 6379, 0},
    {"cache.example:7000/12", "", "cache.example", 7000, 12},
    {"writer@10.0.0.1", "writer", "10.0.0.1", 6379, 0},
    {"writer@[::1]:65535/0", "writer", "::1", 65535, 0},
    {"[fe80::1]", "", "fe80::1", 6379, 0},
};

/* NULL: there is no such path. */
static const struct path {
    const char *text, *path, *bucket_path;
} paths[] = {
    {"", "", NULL},
    {"/", "", NULL},
    {"a", "/a", NULL},
    {"abc", "/abc", "/abc"},
    {"abc/", "/abc", "/abc"},
    {"abc/d/e-._~=,+9", "/abc/d/e-._~=,+9", "/abc/d/e-._~=,+9"},
    {"Abc/d", "/Abc/d", NULL},
    {"a.b_c-d", "/a.b_c-d", "/a.b_c-d"},
    {"abc//d", NULL, NULL},
    {"/abc", NULL, NULL},
    {"abc//", NULL, NULL},
    {"abc/./d", NULL, NULL},
    {"abc/../d", NULL, NULL},
    {"..", NULL, NULL},
    {"abc/...", "/abc/...", "/abc/..."},
    {"abc/d e", NULL, NULL},
    {"abc/%64", NULL, NULL},
    {"abc/d&e", NULL, NULL},
    {"abc/<d>", NULL, NULL},
    {"abc/\xc3\xa4", NULL, NULL},
};

static void check_path(bool is_read, const char *path, const char *expected)
{
    assert_int_equal(is_read, expected != NULL);
    if (expected) {
        assert_string_equal(path, expected);
    }
}

static void test_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const size_t length = strlen(paths[i].text);
        char path[32];
        check_path(kilni_remote_path_read(paths[i].text, length, path, sizeof path), path,
                   paths[i].path);
        check_path(kilni_remote_bucket_read(paths[i].text, length, path, sizeof path), path,
                   paths[i].bucket_path);
    }
    char path[5];
    assert_true(kilni_remote_path_read("abc", 3, path, sizeof path));
    assert_false(kilni_remote_path_read("abcd", 4, path, sizeof path));
}

static void test_http_locations(void **state)
{
    (void)state;
    static const char text[] = "writer@[::1]:8080/a/b/";
    kilni_remote_server server;
    assert_int_equal(kilni_remote_server_parse_http(text, sizeof text - 1, 80, &server, NULL),
                     KILN_OK);
    assert_string_equal(server.user, "writer");
    assert_string_equal(server.host, "::1");
    assert_int_equal(server.port, 8080);
    assert_string_equal(server.path, "/a/b");
    assert_int_equal(kilni_remote_server_parse_http("cache", 5, 443, &server, NULL), KILN_OK);
    assert_int_equal(server.port, 443);
    assert_string_equal(server.path, "");
    assert_int_equal(kilni_remote_server_parse_http("cache/a b", 9, 443, &server, NULL),
                     KILN_E_PARSE);
}

static const char *const wrong[] = {
    "",        "/1",       ":6379",      "cache:",       "cache:0",       "cache:65536",
    "cache:a", "cache/a",  "cache/1/2",  "cache/-1",     "cache/1000001", "@cache",
    "[::1",    "[::1]x",   "[::1]:",     "[]",           "ca che",        "ca%63he",
    "us er@c", "cache:-1", "a@b@cache:", "cache:6379:1",
};

static void test_locations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
        const struct location *expected = &locations[i];
        kilni_remote_server server;
        assert_int_equal(
            kilni_remote_server_parse(expected->text, strlen(expected->text), 6379, &server, NULL),
            KILN_OK);
        assert_string_equal(server.user, expected->user);
        assert_string_equal(server.host, expected->host);
        assert_int_equal(server.port, expected->port);
        assert_int_equal(server.database, expected->database);
        assert_string_equal(server.socket, "");
    }
}

static void test_clusters(void **state)
{
    (void)state;
    static const char text[] = "writer@a,[::1],10.0.0.1:7000,[fe80::1]:7001";
    static const char *const not_clusters[] = {"",
                                               ",",
                                               "a,",
                                               ",a",
                                               "a,,b",
                                               "a:0",
                                               "a,b:0",
                                               "a,b:65536",
                                               "a/1",
                                               "a,b/1",
                                               "a,b/",
                                               "a@",
                                               "u:secret@a,b",
                                               "a,u:secret@b",
                                               "a,u@b:1,[",
                                               "a,%31",
                                               "a,b,c,d,e,f,g,h,i"};
    kilni_remote_server server;
    assert_int_equal(kilni_remote_server_parse_cluster(text, strlen(text), 6379, &server, NULL),
                     KILN_OK);
    assert_true(server.is_cluster);
    assert_string_equal(server.user, "writer");
    assert_string_equal(server.host, "a");
    assert_int_equal(server.port, 6379);
    assert_int_equal(server.other_count, 3);
    assert_string_equal(server.others[0].host, "::1");
    assert_int_equal(server.others[0].port, 6379);
    assert_string_equal(server.others[1].host, "10.0.0.1");
    assert_int_equal(server.others[1].port, 7000);
    assert_string_equal(server.others[2].host, "fe80::1");
    assert_int_equal(server.others[2].port, 7001);
    assert_int_equal(kilni_remote_server_parse_cluster("a,b,c,d,e,f,g,h", 15, 1, &server, NULL),
                     KILN_OK);
    assert_int_equal(server.other_count, KILNI_REMOTE_OTHERS_MAX);
    for (size_t i = 0; i < sizeof not_clusters / sizeof not_clusters[0]; i++) {
        kiln_error error = {.struct_size = sizeof error};
        if (kilni_remote_server_parse_cluster(not_clusters[i], strlen(not_clusters[i]), 6379,
                                              &server, &error) != KILN_E_PARSE) {
            fail_msg("\"%s\" was accepted", not_clusters[i]);
        }
        assert_null(strstr(error.text, "secret"));
    }
}

static void test_wrong_locations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        kilni_remote_server server;
        kiln_error error = {.struct_size = sizeof error};
        if (kilni_remote_server_parse(wrong[i], strlen(wrong[i]), 6379, &server, &error) !=
            KILN_E_PARSE) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
        assert_true(error.text[0] != '\0');
    }
    char long_host[300];
    memset(long_host, 'a', sizeof long_host);
    kilni_remote_server server;
    assert_int_equal(kilni_remote_server_parse(long_host, 255, 1, &server, NULL), KILN_OK);
    assert_int_equal(kilni_remote_server_parse(long_host, 256, 1, &server, NULL), KILN_E_PARSE);
}

static void test_sockets(void **state)
{
    (void)state;
    kilni_remote_server server;
    char path[200];
    assert_int_equal(kilni_remote_server_parse_socket("/run/redis", &server, NULL), KILN_OK);
    assert_string_equal(server.socket, "/run/redis");
    assert_string_equal(server.host, "");
    assert_int_equal(kilni_remote_server_parse_socket("run", &server, NULL), KILN_E_PARSE);
    memset(path, '/', sizeof path);
    path[108] = '\0';
    assert_int_equal(kilni_remote_server_parse_socket(path, &server, NULL), KILN_E_PARSE);
    path[107] = '\0';
    assert_int_equal(kilni_remote_server_parse_socket(path, &server, NULL), KILN_OK);
}

static void expect_refused(const char *location, kiln_status expected, const char *word)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_store_open(location, NULL, &store, &error);
    if (status != expected || !strstr(error.text, word) || strstr(error.text, "secret")) {
        fail_msg("%s: status %d: %s", location, status, error.text);
    }
}

/* No message repeats the password of a URL, whatever is wrong with the URL. */
static void test_passwords_are_refused_and_not_repeated(void **state)
{
    (void)state;
    static const char *const with_password[] = {
        "redis://user:secret@cache",     "redis://:secret@cache/1?trust=any",
        "redis://user:12?secret@cache",  "redis://user:a@secret@cache",
        "redis://user:a/secret@cache",   "/tmp/never-made|redis://user:secret@cache?trust=any",
        "redis://user:12|secret@cache",  "redis://user:12?secret|x@cache",
        "redis://user:a|secret:b@cache", "/tmp/never-made|redis://u:12?trust=any|secret@cache",
    };
    for (size_t i = 0; i < sizeof with_password / sizeof with_password[0]; i++) {
        expect_refused(with_password[i], KILN_E_PARSE, "password");
    }
    expect_refused("redis://:secret", KILN_E_PARSE, "host");
}

static void test_required_parts_of_a_url(void **state)
{
    (void)state;
    expect_refused("redis://cache", KILN_E_DENIED, "trust=any");
    expect_refused("redis+unix:///run/redis", KILN_E_DENIED, "trust=any");
    expect_refused("redis://cache?trust=signed", KILN_E_DENIED, "key-file=");
    expect_refused("redis://cache?trust=some", KILN_E_PARSE, "signed or any");
    expect_refused("redis:cache?trust=any", KILN_E_PARSE, "//");
    expect_refused("redis+unix:run?trust=any", KILN_E_PARSE, "absolute");
    expect_refused("redis://cache?trust=any&max-size=1G", KILN_E_UNSUPPORTED, "max-size");
    expect_refused("redis://cache?trust=any&password-file=a", KILN_E_PARSE, "absolute path");
    expect_refused("redis://cache?trust=any&expire=soon", KILN_E_PARSE, "days");
    expect_refused("file:///tmp/a?trust=any", KILN_E_UNSUPPORTED, "trust");
}

static void test_without_the_library(void **state)
{
    (void)state;
    kilni_remote_set_library("/nowhere/libkiln_remote.so");
    expect_refused("redis://cache?trust=any", KILN_E_UNSUPPORTED, "/nowhere/libkiln_remote.so");
    kilni_remote_set_library(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locations),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_http_locations),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_wrong_locations),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_passwords_are_refused_and_not_repeated),
        cmocka_unit_test(test_required_parts_of_a_url),
        cmocka_unit_test(test_without_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
