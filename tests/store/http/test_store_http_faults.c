/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on an HTTP server whose answers are late, truncated, wrong or missing: every call
 * returns, no call returns a wrong value, and calls succeed again as soon as the server works.
 */
#include "support/store_scene.h"

#include <pthread.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/fault_proxy.h"
#include "support/nginx_server.h"

#define LOG_SIZE 512

static char scratch[SCRATCH_DIRECTORY_SIZE];
static nginx_server server;
static fault_proxy proxy;
static kiln_store *store;  /* through the proxy */
static size_t answer_size; /* of a get of entry 1 */

/* Opens a new store for each fault, because the breaker of a store remembers earlier faults. */
static void open_with(const kiln_store_params *params)
{
    char location[128];
    snprintf(location, sizeof location, "http://127.0.0.1:%u/open?trust=any", proxy.port);
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(location, params, &store, NULL), KILN_OK);
}

static void reopen(void)
{
    open_with(NULL);
}

/* A busy machine may miss the store's deadline, after which the store asks again later. */
static void expect(kiln_status (*do_it)(void))
{
    kiln_status status = KILN_E_IO;
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    for (unsigned i = 0; i < 20 && status == KILN_E_IO; i++) {
        reopen();
        status = do_it();
    }
    assert_int_equal(status, KILN_OK);
}

static kiln_status put_first(void)
{
    return scratch_put(store, 1, 3000);
}

static kiln_status put_second(void)
{
    return scratch_put(store, 2, 200);
}

static kiln_status get_first(void)
{
    return scratch_get(store, 1);
}

static kiln_status get_second(void)
{
    return scratch_get(store, 2);
}

static void expect_well(void)
{
    expect(get_first);
    expect(get_second);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    if (!nginx_start(&server, scratch, NULL)) {
        return -1;
    }
    fault_proxy_start(&proxy, server.port);
    expect(put_first);
    expect(put_second);
    answer_size = 3300; /* a head of 300 bytes, and 3,000 that cannot be compressed */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    fault_proxy_stop(&proxy);
    nginx_stop(&server);
    scratch_remove(scratch);
    return 0;
}

static void test_cuts_everywhere(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET};
    for (size_t after = 0; after < answer_size - 300; after += after < 40 ? 3 : 97) {
        for (size_t i = 0; i < 2; i++) {
            reopen();
            fault_proxy_set(&proxy, kinds[i], after, "");
            assert_int_equal(scratch_get(store, 1), KILN_E_IO);
            /* The answers to a put are shorter. */
            const kiln_status status = scratch_put(store, 3, 100);
            assert_true(status == KILN_E_IO || (status == KILN_OK && after > 100));
        }
    }
    expect_well();
}

/* A flipped bit may turn the answer into a different one, even a refusal or none, but never into a
 * wrong value: either the bit does not matter, or the change is detected. */
static void test_flips_everywhere(void **state)
{
    (void)state;
    for (size_t after = 0; after < answer_size; after += after < 300 ? 5 : 97) {
        reopen();
        fault_proxy_set(&proxy, FAULT_FLIP, after, "");
        assert_int_not_equal(scratch_get(store, 1), KILN_E_REFUSED);
    }
    expect_well();
}

static void test_silence(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, 30, 2000};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_SILENCE, places[i], "");
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        const unsigned accepted = atomic_load(&proxy.accepted);
        for (unsigned j = 0; j < 100; j++) {
            assert_int_equal(scratch_get(store, 1), KILN_E_IO);
        }
        /* The server is not contacted. */
        assert_in_range(atomic_load(&proxy.accepted), accepted, accepted + 2);
    }
    expect_well();
}

static void keep_text(void *user, kiln_log_level level, const char *text)
{
    (void)level;
    snprintf(user, LOG_SIZE, "%s", text);
}

/* The server keeps sending, and never finishes its answer. */
static void test_drip(void **state)
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

#define OK "HTTP/1.1 200 OK\r\n"

/* None of these answers contains a value. */
static void test_answers_without_a_value(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        kiln_status to_get;
    } answers[] = {
        {"-ERR unknown command\r\n", KILN_E_IO},
        {"<html>Please sign in to the network</html>", KILN_E_IO},
        {OK "Content-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", KILN_E_IO},
        {OK "Content-Length: 1099511627776\r\n\r\nx", KILN_MISS},
        {OK "Content-Length: 20000000\r\n\r\nx", KILN_MISS},
        {OK "Content-Length: 99999999999999999999\r\n\r\nx", KILN_E_IO},
        {OK "Content-Length: 100\r\n\r\nshort", KILN_E_IO},
        {OK "Content-Length: 2\r\n\r\nlonger", KILN_E_IO},
        {OK "Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\nzz", KILN_E_IO},
        {OK "\r\nuntil the end", KILN_E_IO},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", KILN_E_IO},
        {OK "Transfer-Encoding: chunked\r\n\r\nffffffffffffff\r\nhello", KILN_E_IO},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", KILN_E_CORRUPT},
        {OK "Content-Length: 5\r\n\r\nhello", KILN_E_CORRUPT},
        {OK "Content-Length: 0\r\n\r\n", KILN_E_CORRUPT},
        {"HTTP/1.1 206 x\r\nContent-Range: bytes 0-4/5\r\nContent-Length: 5\r\n\r\nhello",
         KILN_E_IO},
        {"HTTP/1.1 204 No Content\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 304 Not Modified\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", KILN_E_DENIED},
        {"HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", KILN_E_DENIED},
        {"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", KILN_MISS},
        {"HTTP/1.1 410 x\r\nContent-Length: 5\r\n\r\nnever", KILN_MISS},
        {"HTTP/1.1 405 x\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 507 x\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 503 x\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n", KILN_E_IO},
        {"HTTP/1.1 404 x\r\nContent-Length: 1099511627776\r\n\r\nx", KILN_E_IO},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_TEXT, 0, answers[i].text);
        const kiln_status got = scratch_get(store, 1);
        if (got != answers[i].to_get && got != KILN_E_IO) {
            fail_msg("%s: %s", answers[i].text, kiln_status_name(got));
        }
    }
    expect_well();
}

static void test_what_never_ends(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 100 Continue\r\n\r\n",
        "X-Header: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n4\r\nxxxx\r\n",
        OK "Content-Length: 16000000\r\n\r\n",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        reopen();
        fault_proxy_set(&proxy, FAULT_ENDLESS, 0, texts[i]);
        const kiln_status status = scratch_get(store, 1);
        assert_true(status == KILN_E_IO || status == KILN_E_CORRUPT);
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    }
    expect_well();
}

/* Writes the beginning of an answer, and a chunk of 65,536 bytes after it. */
static void write_chunk(char text[66000], const char *beginning)
{
    const int length = snprintf(text, 66000, "%s10000\r\n", beginning);
    memset(text + length, 'x', 65536);
    memcpy(text + length + 65536, "\r\n", 3);
}

/* Chunks without an end are refused when they exceed the size of an entry. */
static void test_endless_chunks(void **state)
{
    (void)state;
    static char texts[2][66000]; /* threads of the proxy may read them until it is stopped */
    write_chunk(texts[0], OK "Transfer-Encoding: chunked\r\n\r\n");
    write_chunk(texts[1], "");
    for (size_t i = 0; i < 2; i++) {
        reopen();
        /* Sends the head once, and then the same chunk again and again. */
        fault_proxy_set(&proxy, FAULT_ENDLESS, 0, texts[i]);
        const kiln_status status = scratch_get(store, 1);
        assert_true(status == KILN_E_IO || status == KILN_MISS);
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
        expect_well();
    }
}

/* One answer too many: from then on, each request would get the answer to the previous request. */
static void test_swapped_answers(void **state)
{
    (void)state;
    static const char *const texts[] = {"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n",
                                        OK "Content-Length: 5\r\n\r\nhello",
                                        "HTTP/1.1 100 Continue\r\n\r\n"};
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

/* Looks up eight keys together, of which the server has two. Returns how many were found. */
static unsigned get_many(void)
{
    enum { COUNT = 8 };
    kiln_key *keys[COUNT];
    kiln_entry *entries[COUNT];
    unsigned found = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = scratch_key(i);
    }
    assert_int_equal(
        kiln_store_get_many(store, (const kiln_key *const *)keys, COUNT, entries, NULL), KILN_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(!entries[i] || (kiln_key_equals(keys[i], kiln_entry_key(entries[i])) &&
                                    scratch_entry_is(entries[i], i)));
        assert_true(!entries[i] || i == 1 || i == 2);
        found += entries[i] != NULL;
        kiln_entry_release(&entries[i]);
        kiln_key_release(&keys[i]);
    }
    return found;
}

static kiln_status get_both(void)
{
    return get_many() == 2 ? KILN_OK : KILN_E_IO;
}

static void test_many_keys(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET, FAULT_FLIP, FAULT_INSERT, FAULT_SILENCE};
    static const char text[] = OK "Content-Length: 5\r\n\r\nhello";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t step = kinds[i] == FAULT_SILENCE ? 1500 : 151;
        for (size_t after = 0; after < answer_size; after += step) {
            reopen();
            fault_proxy_set(&proxy, kinds[i], after, text);
            get_many(); /* checks what is found */
        }
        fault_proxy_set(&proxy, FAULT_NONE, 0, "");
        expect(get_both);
    }
}

/* The server says how long it must not be contacted. */
static void test_a_busy_server_is_left_alone(void **state)
{
    (void)state;
    reopen();
    fault_proxy_set(&proxy, FAULT_TEXT, 0,
                    "HTTP/1.1 503 x\r\nRetry-After: 50\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    fault_proxy_set(&proxy, FAULT_NONE, 0, "");
    const unsigned accepted = atomic_load(&proxy.accepted);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    }
    assert_int_equal(atomic_load(&proxy.accepted), accepted);
    expect_well();
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

/* All threads share the connections, which are closed again and again. */
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
        fault_proxy_set(&proxy, kinds[i % 5], 997 * i % 9000,
                        "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
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
        cmocka_unit_test_setup_teardown(test_silence, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers_without_a_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_never_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endless_chunks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_swapped_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_busy_server_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_share_the_faults, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    nginx_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
