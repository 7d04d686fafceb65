/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's answers are late, cut off, wrong or missing: the store never returns a wrong value,
 * every call returns, and the store works again as soon as the server does.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/fault_proxy.h"
#include "support/redis_server.h"

#define LOG_SIZE 512

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static fault_proxy proxy;
static kiln_store *store; /* through the proxy */
static size_t value_size; /* of entry 1, on the server */

/* Opens a new store for each fault, because the breaker of a store remembers earlier faults. */
static void open_with(const kiln_store_params *params)
{
    char location[128];
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any", proxy.port);
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(location, params, &store, NULL), KILN_OK);
}

static void reopen(void)
{
    open_with(NULL);
}

static int take_size(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    *(size_t *)user = (size_t)info.stored_bytes;
    return 0;
}

static size_t stored_size(void)
{
    size_t size = 0;
    assert_int_equal(kiln_store_each(store, take_size, &size), KILN_OK);
    assert_true(size > 500);
    return size;
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!redis_start(&server, scratch, no_options)) {
        return -1;
    }
    fault_proxy_start(&proxy, server.port);
    reopen();
    assert_int_equal(scratch_put(store, 1, 3000), KILN_OK);
    value_size = stored_size();
    assert_int_equal(scratch_put(store, 2, 200), KILN_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    fault_proxy_stop(&proxy);
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* A busy machine may miss the store's deadline, after which the store asks again later. */
static void expect_well(void)
{
    kiln_status status = KILN_E_IO;
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        status = scratch_get(store, 1);
    }
    assert_int_equal(status, KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

static void test_cuts_everywhere(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET};
    for (size_t after = 0; after < value_size; after += after < 30 ? 1 : 97) {
        for (size_t i = 0; i < 2; i++) {
            reopen();
            fault_proxy_set(&proxy, kinds[i], after, "");
            assert_int_equal(scratch_get(store, 1), KILN_E_IO);
            /* The answers to a put are shorter. */
            const kiln_status status = scratch_put(store, 3, 100);
            assert_true(status == KILN_E_IO || (status == KILN_OK && after > 4));
        }
    }
    expect_well();
}

/* A flipped bit may turn the answer into a different one, or into a miss, but never into a wrong
 * value. */
static void test_flips_everywhere(void **state)
{
    (void)state;
    for (size_t after = 0; after < value_size; after += after < 30 ? 1 : 31) {
        reopen();
        fault_proxy_set(&proxy, FAULT_FLIP, after, "");
        const kiln_status status = scratch_get(store, 1);
        assert_true(status == KILN_E_IO || status == KILN_E_CORRUPT || status == KILN_MISS ||
                    status == KILN_E_VERSION);
    }
    expect_well();
}

/* Gets entry 4 with a fault. Tries again, since a busy machine may miss the store's deadline. */
static kiln_status get_despite(fault kind, size_t after)
{
    kiln_status status = KILN_E_IO;
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        fault_proxy_set(&proxy, kind, after, "");
        status = scratch_get(store, 4);
    }
    return status;
}

/* The end of a value that is received into its final place: the last two bytes of the value, and
 * the two bytes after it. They are changed, they are missing, or they arrive one by one. */
static void test_the_end_of_a_large_value(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_entry(4, 100000);
    const size_t value = kiln_entry_encoding(entry).size;
    char head[32];
    const size_t end = (size_t)snprintf(head, sizeof head, "$%zu\r\n", value) + value;
    kiln_entry_release(&entry);
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    reopen();
    assert_int_equal(scratch_put(store, 4, 100000), KILN_OK);
    atomic_store(&proxy.drip_ns, UINT64_C(1000000));
    for (size_t after = end - 2; after < end + 2; after++) {
        assert_int_equal(get_despite(FAULT_FLIP, after), after < end ? KILN_E_CORRUPT : KILN_E_IO);
        assert_int_equal(get_despite(FAULT_CUT, after), KILN_E_IO);
        assert_int_equal(get_despite(FAULT_DRIP, after), KILN_OK);
    }
    expect_well();
}

static void test_a_server_that_stops_answering(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, 10, 2000};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_SILENCE, places[i], "");
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        const unsigned accepted = atomic_load(&proxy.accepted);
        for (unsigned j = 0; j < 100; j++) {
            assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        }
        /* The store hardly connects any more. */
        assert_in_range(atomic_load(&proxy.accepted), accepted, accepted + 2);
    }
    expect_well();
}

static void keep_text(void *user, kiln_log_level level, const char *text)
{
    (void)level;
    snprintf(user, LOG_SIZE, "%s", text);
}

#define NEWER 9u

/* Repeats a call that must succeed, since a busy machine may miss the store's deadline. */
#define PATIENTLY(call)                                                                            \
    do {                                                                                           \
        kiln_status tried = (call);                                                                \
        for (unsigned tries = 0; tries < 1000 && tried == KILN_E_IO; tries++) {                    \
            kilni_sleep_ns(10000000);                                                              \
            tried = (call);                                                                        \
        }                                                                                          \
        assert_int_equal(tried, KILN_OK);                                                          \
    } while (false)

static const char *say_of(uint64_t number, const char *command, const char *rest)
{
    char line[256], text[KILN_DIGEST_TEXT_SIZE];
    kiln_key *key = scratch_key(number);
    const kiln_digest digest = kiln_key_digest(key);
    kiln_digest_format(&digest, text);
    kiln_key_release(&key);
    snprintf(line, sizeof line, "%s kiln:v1:{%s}%s", command, text, rest);
    return redis_say(&server, line);
}

/* The answers to a trim end at each place. It fails, or is complete. An entry of a newer format
 * stays, and the next trim finishes the work. */
static void test_cuts_while_trimming(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET};
    char location[128];
    kiln_store *direct = NULL;
    unsigned failures = 0;
    snprintf(location, sizeof location, "redis://127.0.0.1:%u?trust=any", server.port);
    assert_int_equal(kiln_store_open(location, NULL, &direct, NULL), KILN_OK);
    PATIENTLY(scratch_put(direct, NEWER, 200));
    assert_string_not_equal(say_of(NEWER, "SETRANGE", " 8 \"\\x02\""), "");
    for (size_t after = 0; after < value_size + 2000; after += after < 200 ? 7 : 97) {
        kiln_trim_report report = {.struct_size = sizeof report};
        for (uint64_t i = 1; i < 4; i++) {
            PATIENTLY(scratch_put(direct, i, 300));
        }
        reopen();
        fault_proxy_set(&proxy, kinds[after % 2], after, "");
        const kiln_status status = trim_to(store, 0, &report);
        assert_true(status == KILN_E_IO || (status == KILN_OK && report.entries == 1));
        failures += status == KILN_E_IO;
        PATIENTLY(trim_to(direct, 0, &report));
        assert_int_equal(report.entries, 1);
        assert_string_equal(say_of(NEWER, "EXISTS", ""), ":1\r\n");
    }
    assert_in_range(failures, 20, 1000);
    PATIENTLY(scratch_put(direct, 1, 3000));
    PATIENTLY(scratch_put(direct, 2, 200));
    kiln_store_close(&direct);
    expect_well();
}

/* The server sends a byte now and then, so it is never silent, but its answer never ends. */
static void test_one_byte_at_a_time(void **state)
{
    (void)state;
    char logged[LOG_SIZE] = "";
    const kiln_store_params params = {.struct_size = sizeof params, .log = {keep_text, logged}};
    fault_proxy_set(&proxy, FAULT_DRIP, 0, "");
    open_with(&params);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    assert_non_null(strstr(logged, "it did not answer in time"));
    expect_well();
}

static void test_answers_outside_the_protocol(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>",
        "$1099511627776\r\n",
        "$20000000\r\n",
        "$-1000\r\n",
        "*1000000\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        "\x16\x03\x01\x02",
        "+PONG\r\n",
        ":1\r\n",
        "*0\r\n",
        "-ERR unknown command\r\n",
        "-MOVED 7638 127.0.0.1:1\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_TEXT, 0, texts[i]);
        const kiln_status status = scratch_get(store, 1);
        /* A value that is larger than an entry may be is a miss. */
        assert_true(status == KILN_E_IO || status == KILN_MISS);
    }
    expect_well();
}

static void test_answers_that_never_end(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "+xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ">1\r\n+aside\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_ENDLESS, 0, texts[i]);
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    }
    expect_well();
}

/* There is one extra answer: from then on, each command gets the answer to the command before
 * it. */
static void test_swapped_answers(void **state)
{
    (void)state;
    static const char *const texts[] = {"$-1\r\n", ":1\r\n", "+OK\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_INSERT, 0, texts[i]);
        for (unsigned j = 0; j < 20; j++) {
            const kiln_status status = scratch_get(store, 1 + j % 2);
            assert_true(status != KILN_E_REFUSED); /* a value of a different key */
        }
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    }
    expect_well();
}

/* If a kept connection ends before an answer, the look-up is repeated and succeeds. */
static void test_a_kept_connection_ends(void **state)
{
    (void)state;
    reopen();
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    char script[] = "CLIENT KILL TYPE normal";
    for (unsigned i = 0; i < 20; i++) {
        redis_say(&server, script);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
}

static void *get_all(void *argument)
{
    uintptr_t wrong = 0;
    (void)argument;
    for (unsigned i = 0; i < 200; i++) {
        wrong += scratch_get(store, 1 + i % 2) == KILN_E_REFUSED;
    }
    return (void *)wrong; /* NOLINT */
}

/* All threads share a connection, which is closed again and again. */
static void test_threads_share_the_faults(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_FLIP, FAULT_RESET, FAULT_INSERT, FAULT_NONE};
    pthread_t threads[6];
    reopen();
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get_all, NULL), 0);
    }
    for (unsigned i = 0; i < 50; i++) {
        fault_proxy_set(&proxy, kinds[i % 5], 997 * i % 9000, "$-1\r\n");
        kilni_sleep_ns(5000000);
    }
    for (unsigned i = 0; i < 6; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    expect_well();
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cuts_everywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flips_everywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_large_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_server_that_stops_answering, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cuts_while_trimming, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_byte_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers_outside_the_protocol, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers_that_never_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_swapped_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_kept_connection_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_share_the_faults, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
