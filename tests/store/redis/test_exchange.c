/* SPDX-License-Identifier: Apache-2.0
 *
 * The replies to an exchange: how much of them is kept in memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/redis/exchange.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_allowed),
        cmocka_unit_test(test_many_small_values),
        cmocka_unit_test(test_rewind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
