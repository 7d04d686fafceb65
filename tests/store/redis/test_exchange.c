/* SPDX-License-Identifier: Apache-2.0
 *
 * The replies to an exchange: how much of them is kept in memory, and the hashes of values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "key/hash.h"
#include "store/redis/exchange.h"
#include "store/remote/connector.h"
#include "support/failing_malloc.h"

#define COMMANDS 128u
#define MAX_BYTES 65536u
#define MAX_VALUES 100000u

static kilni_redis_exchange *exchange_of(size_t commands)
{
    static const kilni_resp_argument ping = {"PING", 4};
    kilni_redis_exchange *exchange = NULL;
    assert_int_equal(kilni_redis_exchange_new(NULL, MAX_BYTES, 0, &exchange), KILN_OK);
    for (size_t i = 0; i < commands; i++) {
        assert_int_equal(kilni_redis_exchange_add(exchange, &ping, 1), KILN_OK);
    }
    return exchange;
}

/* Lets the exchange take a reply @times times, or until it refuses one. Returns its status. */
static kiln_status take(kilni_redis_exchange *exchange, const char *reply, size_t times)
{
    kilni_resp_reader reader = {.limits = {.max_blob = 2 * MAX_BYTES, .max_values = MAX_VALUES}};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < times && status == KILN_OK; i++) {
        kilni_byte_reader input = {.at = (const unsigned char *)reply, .left = strlen(reply)};
        kilni_resp_event event;
        while (status == KILN_OK && kilni_resp_next(&reader, &input, &event) == KILNI_RESP_EVENT) {
            status = kilni_redis_exchange_take(exchange, &event);
        }
    }
    return status;
}

static size_t memory_of(const kilni_redis_exchange *exchange)
{
    return exchange->value_capacity * sizeof *exchange->values;
}

/* A value may be as large as the limit, however many small replies come before it. */
static void test_what_is_allowed(void **state)
{
    (void)state;
    char large[MAX_BYTES + 32];
    const int length = snprintf(large, sizeof large, "$%u\r\n", MAX_BYTES);
    memset(large + length, 'x', MAX_BYTES);
    memcpy(large + length + MAX_BYTES, "\r\n", 3);
    for (unsigned i = 0; i < 2; i++) {
        kilni_redis_exchange *exchange = exchange_of(COMMANDS);
        assert_int_equal(take(exchange, ":1\r\n", COMMANDS - 1), KILN_OK);
        assert_int_equal(take(exchange, i == 0 ? large : "*2\r\n+a\r\n*1\r\n$1\r\nb\r\n", 1),
                         KILN_OK);
        assert_int_equal(exchange->replies_left, 0);
        kilni_call_release(&exchange->call);
    }
    kilni_redis_exchange *exchange = exchange_of(2);
    assert_int_equal(take(exchange, large, 2), KILN_E_TOO_LARGE);
    kilni_call_release(&exchange->call);
}

/* Each of these values has almost no data. */
static void test_many_small_values(void **state)
{
    (void)state;
    static const char *const values[] = {":1\r\n", "_\r\n", "*0\r\n", "+\r\n", "$0\r\n\r\n"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        kilni_redis_exchange *exchange = exchange_of(COMMANDS);
        kiln_status status = KILN_OK;
        for (unsigned j = 0; j < COMMANDS && status == KILN_OK; j++) {
            char list[16 + 8 * 1000];
            char *at = list + sprintf(list, "*1000\r\n");
            for (unsigned k = 0; k < 1000; k++) {
                at = stpcpy(at, values[i]);
            }
            status = take(exchange, list, 1);
        }
        assert_int_equal(status, KILN_E_TOO_LARGE);
        assert_in_range(memory_of(exchange), 1, MAX_BYTES);
        kilni_call_release(&exchange->call);
    }
}

/* After an exchange is sent again, as much is allowed as before. */
static void test_rewind(void **state)
{
    (void)state;
    kilni_redis_exchange *exchange = exchange_of(2);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(take(exchange, "*3\r\n:1\r\n:2\r\n$10\r\n0123456789\r\n", 2), KILN_OK);
        kilni_redis_exchange_rewind(exchange);
    }
    kilni_call_release(&exchange->call);
}

/* A reply whose value has @size bytes. The caller frees it. */
static unsigned char *reply_of(size_t size, size_t *ret_begin, size_t *ret_size)
{
    unsigned char *reply = malloc(size + 32);
    assert_non_null(reply);
    *ret_begin = (size_t)sprintf((char *)reply, "$%zu\r\n", size);
    for (size_t i = 0; i < size; i++) {
        reply[*ret_begin + i] = (unsigned char)(i * i >> 3);
    }
    memcpy(reply + *ret_begin + size, "\r\n", 2);
    *ret_size = *ret_begin + size + 2;
    return reply;
}

/* Lets the exchange take a part of a reply, in pieces of @piece bytes. */
static void take_in_pieces(kilni_redis_exchange *exchange, kilni_resp_reader *reader,
                           const unsigned char *reply, size_t size, size_t piece)
{
    for (size_t at = 0; at < size; at += piece) {
        kilni_byte_reader input = {.at = reply + at, .left = size - at < piece ? size - at : piece};
        kilni_resp_event event;
        while (kilni_resp_next(reader, &input, &event) == KILNI_RESP_EVENT) {
            assert_int_equal(kilni_redis_exchange_take(exchange, &event), KILN_OK);
        }
    }
}

/* A large value is hashed while it arrives, except for its last bytes. */
static void test_hash_of_a_value(void **state)
{
    (void)state;
    static const size_t pieces[] = {MAX_BYTES + 32, 16384, 1001, 1};
    size_t begin, size;
    unsigned char *reply = reply_of(MAX_BYTES, &begin, &size);
    const kiln_digest expected = kilni_hash(reply + begin, MAX_BYTES - KILNI_REMOTE_UNHASHED);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        kilni_resp_reader reader = {.limits = {.max_blob = MAX_BYTES, .max_values = MAX_VALUES}};
        kilni_redis_exchange *exchange = exchange_of(1);
        take_in_pieces(exchange, &reader, reply, size, pieces[i]);
        assert_int_equal(exchange->replies_left, 0);
        assert_true(exchange->values[0].is_hashed);
        assert_memory_equal(&exchange->values[0].hash, &expected, sizeof expected);
        kilni_call_release(&exchange->call);
    }
    free(reply);
}

/* A connection ended within a value, and the value arrives again over a different one. */
static void test_hash_after_a_rewind(void **state)
{
    (void)state;
    size_t begin, size;
    unsigned char *reply = reply_of(MAX_BYTES, &begin, &size);
    const kiln_digest expected = kilni_hash(reply + begin, MAX_BYTES - KILNI_REMOTE_UNHASHED);
    kilni_redis_exchange *exchange = exchange_of(1);
    for (unsigned i = 0; i < 2; i++) {
        kilni_resp_reader reader = {.limits = {.max_blob = MAX_BYTES, .max_values = MAX_VALUES}};
        take_in_pieces(exchange, &reader, reply, size / 2, size);
        kilni_redis_exchange_rewind(exchange);
    }
    kilni_resp_reader reader = {.limits = {.max_blob = MAX_BYTES, .max_values = MAX_VALUES}};
    take_in_pieces(exchange, &reader, reply, size, 5000);
    assert_true(exchange->values[0].is_hashed);
    assert_memory_equal(&exchange->values[0].hash, &expected, sizeof expected);
    kilni_call_release(&exchange->call);
    free(reply);
}

/* Without memory for the hash, a value arrives all the same. Small values are not hashed. */
static void test_values_without_a_hash(void **state)
{
    (void)state;
    size_t begin, size;
    for (unsigned is_small = 0; is_small < 2; is_small++) {
        kilni_resp_reader reader = {.limits = {.max_blob = MAX_BYTES, .max_values = MAX_VALUES}};
        unsigned char *reply = reply_of(is_small ? 1000 : MAX_BYTES, &begin, &size);
        kilni_redis_exchange *exchange = exchange_of(1);
        failing_malloc_arm(is_small ? SIZE_MAX : 1);
        take_in_pieces(exchange, &reader, reply, size, size);
        failing_malloc_disarm();
        assert_int_equal(exchange->replies_left, 0);
        assert_false(exchange->values[0].is_hashed);
        assert_memory_equal(exchange->values[0].data, reply + begin, exchange->values[0].size);
        kilni_call_release(&exchange->call);
        free(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_allowed),
        cmocka_unit_test(test_many_small_values),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_hash_of_a_value),
        cmocka_unit_test(test_hash_after_a_rewind),
        cmocka_unit_test(test_values_without_a_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
