/* SPDX-License-Identifier: Apache-2.0
 *
 * How a Redis cluster divides the names: slots, the list of slots, and redirections.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "resp_values.h"
#include "store/redis/slots.h"

/* ---- slots ---- */

static const struct name {
    const char *text;
    unsigned slot; /* as a server's CLUSTER KEYSLOT says */
} names[] = {
    {"123456789", 12739},    {"foo", 12182},  {"{foo}:lease", 12182}, {"kiln:v1:{foo}", 12182},
    {"a{foo}b{bar}", 12182}, {"{}foo", 9500}, {"foo{", 7673},         {"foo}{bar}", 5061},
    {"{{bar}}", 4015},       {"", 0},
};

static void test_slots_of_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const unsigned slot = kilni_redis_slot_of(names[i].text, strlen(names[i].text));
        if (slot != names[i].slot) {
            fail_msg("%s: %u", names[i].text, slot);
        }
    }
    assert_int_equal(kilni_redis_slot_of("a{foo}", 5), kilni_redis_slot_of("a{foo", 5));
}

/* ---- the list of slots ---- */

/* The first slot, the last slot and the place of each range; a status other than KILN_MISS at the
 * end. */
static void describe(const resp_values *reply, kilni_text *text)
{
    size_t at = 0;
    kilni_redis_range range;
    kiln_status status;
    kilni_text_append(text, "");
    while ((status = kilni_redis_range_next(reply->values, reply->count, &at, &range)) == KILN_OK) {
        kilni_text_printf(text, "%u-%u %s:%u\n", range.first, range.last, range.place.host,
                          range.place.port);
    }
    kilni_text_append(text, status == KILN_MISS ? "" : "corrupt");
}

static void check_map(const char *bytes, const char *expected)
{
    resp_values reply;
    kilni_text text = {0};
    assert_true(resp_values_read(&reply, bytes, strlen(bytes)));
    describe(&reply, &text);
    assert_string_equal(text.bytes, expected);
    kilni_text_done(&text);
    resp_values_done(&reply);
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"

static const struct map {
    const char *bytes, *ranges;
} maps[] = {
    {"*0\r\n", ""},
    {"*1\r\n*3\r\n:0\r\n:16383\r\n" NODE("$1\r\na\r\n", "1"), "0-16383 a:1\n"},
    {"*2\r\n*4\r\n:0\r\n:9\r\n" NODE("$3\r\n::1\r\n", "65535") NODE("$1\r\nr\r\n", "2") //
     "*3\r\n:10\r\n:10\r\n" NODE("$3\r\nb-c\r\n", "7"),
     "0-9 ::1:65535\n10-10 b-c:7\n"},
    /* Redis 7 adds a list of further names; RESP3 makes it a map. */
    {"*1\r\n*3\r\n:1\r\n:2\r\n*4\r\n$1\r\na\r\n:6\r\n$2\r\nid\r\n*2\r\n$8\r\nhostname\r\n$"
     "1\r\nh\r\n",
     "1-2 a:6\n"},
    {"*1\r\n*3\r\n:1\r\n:2\r\n*4\r\n$1\r\na\r\n:6\r\n$2\r\nid\r\n%1\r\n$2\r\nip\r\n*1\r\n:1\r\n",
     "1-2 a:6\n"},
    /* The host of the node that answers. */
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("_\r\n", "6"), "1-2 :6\n"},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$0\r\n\r\n", "6"), "1-2 :6\n"},
    /* Nodes without a usable address. */
    {"*2\r\n*3\r\n:1\r\n:2\r\n" NODE("$1\r\n?\r\n", "6") "*3\r\n:3\r\n:4\r\n" NODE("$1\r\na\r\n",
                                                                                   "1"),
     "3-4 a:1\n"},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$3\r\na b\r\n", "6"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$3\r\na/b\r\n", "6"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$3\r\na%b\r\n", "6"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$1\r\na\r\n", "0"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$1\r\na\r\n", "65536"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("$1\r\na\r\n", "-1"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("+a\r\n", "6"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n" NODE("*1\r\n:4\r\n", "6"), ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n*2\r\n$1\r\na\r\n$1\r\n6\r\n", ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n*1\r\n$1\r\na\r\n", ""},
    {"*1\r\n*3\r\n:1\r\n:2\r\n*0\r\n", ""},
    {"*1\r\n*4\r\n:1\r\n:2\r\n*0\r\n:4\r\n", ""},
    /* What is not such a list. */
    {"-ERR This instance has cluster support disabled\r\n", "corrupt"},
    {"+OK\r\n", "corrupt"},
    {"*1\r\n:1\r\n", "corrupt"},
    {"*1\r\n*2\r\n:1\r\n:2\r\n", "corrupt"},
    {"*1\r\n*0\r\n", "corrupt"},
    {"*1\r\n*3\r\n:1\r\n$1\r\n2\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*1\r\n*3\r\n:2\r\n:1\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*1\r\n*3\r\n:-1\r\n:1\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*1\r\n*3\r\n:16384\r\n:16385\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*1\r\n*3\r\n:0\r\n:999999999999999999\r\n" NODE("$1\r\na\r\n", "1"), "corrupt"},
    {"*2\r\n*3\r\n:1\r\n:2\r\n" NODE("$1\r\na\r\n", "1") ":1\r\n", "1-2 a:1\ncorrupt"},
};

static void test_maps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        check_map(maps[i].bytes, maps[i].ranges);
    }
}

/* The values end too early, and a list says that it has more values than there are. */
static void test_incomplete_maps(void **state)
{
    (void)state;
    static const char bytes[] = "*2\r\n*4\r\n:0\r\n:9\r\n" NODE("$1\r\na\r\n", "1")
        NODE("$1\r\nr\r\n", "2") "*3\r\n:10\r\n:10\r\n" NODE("$1\r\nb\r\n", "7");
    static const size_t sizes[] = {0, 1, 2, 5, 1000, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX};
    resp_values reply;
    kilni_redis_range range;
    assert_true(resp_values_read(&reply, bytes, strlen(bytes)));
    const size_t count = reply.count;
    for (size_t i = 0; i < count; i++) {
        const size_t size = reply.values[i].size;
        for (size_t j = 0; reply.values[i].kind == KILNI_RESP_LIST && j < 8; j++) {
            reply.values[i].size = sizes[j];
            size_t at = 0;
            unsigned ranges = 0;
            while (kilni_redis_range_next(reply.values, count, &at, &range) == KILN_OK) {
                assert_true(at <= count);
                ranges++;
            }
            assert_true(ranges <= 2);
        }
        reply.values[i].size = size;
        size_t at = 0;
        unsigned ranges = 0;
        while (kilni_redis_range_next(reply.values, i, &at, &range) == KILN_OK) {
            ranges++;
        }
        assert_true(ranges < 2);
    }
    resp_values_done(&reply);
}

static void test_long_hosts(void **state)
{
    (void)state;
    for (size_t length = 254; length <= 257; length++) {
        char host[300], bytes[400], expected[400];
        memset(host, 'h', length);
        host[length] = '\0';
        snprintf(bytes, sizeof bytes, "*1\r\n*3\r\n:1\r\n:2\r\n*2\r\n$%zu\r\n%s\r\n:5\r\n", length,
                 host);
        snprintf(expected, sizeof expected, "1-2 %s:5\n", host);
        check_map(bytes, length <= 255 ? expected : "");
    }
}

/* ---- redirections ---- */

static const struct redirection {
    const char *bytes;
    kilni_redis_redirection kind;
    unsigned slot;
    const char *host;
    unsigned port;
} redirections[] = {
    {"-MOVED 3999 127.0.0.1:6381\r\n", KILNI_REDIS_MOVED, 3999, "127.0.0.1", 6381},
    {"-ASK 0 cache-1.example:1\r\n", KILNI_REDIS_ASK, 0, "cache-1.example", 1},
    {"-MOVED 16383 ::1:65535\r\n", KILNI_REDIS_MOVED, 16383, "::1", 65535},
    {"-MOVED 1 :7000\r\n", KILNI_REDIS_MOVED, 1, "", 7000},
    {"!14\r\nMOVED 7 host:8\r\n", KILNI_REDIS_MOVED, 7, "host", 8},
    {"-MOVED\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED \r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 \r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host:\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host:0\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host:65536\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host:99999999999999999999\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 host:7 \r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 ho st:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 1 ?:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 16384 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED -1 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED 99999999999999999999 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVED a:7 host\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-MOVEDX 1 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-ASKING 1 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"-CLUSTERDOWN The cluster is down\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"+MOVED 1 host:7\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"$14\r\nMOVED 7 host:8\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
    {"_\r\n", KILNI_REDIS_STAYS, 0, NULL, 0},
};

static void test_redirections(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof redirections / sizeof redirections[0]; i++) {
        const struct redirection *expected = &redirections[i];
        resp_values reply;
        uint16_t slot = 0;
        kilni_redis_place place;
        assert_true(resp_values_read(&reply, expected->bytes, strlen(expected->bytes)));
        const kilni_redis_redirection kind =
            kilni_redis_redirection_read(&reply.values[0], &slot, &place);
        if (kind != expected->kind) {
            fail_msg("%s: %d", expected->bytes, kind);
        }
        if (kind != KILNI_REDIS_STAYS) {
            assert_int_equal(slot, expected->slot);
            assert_string_equal(place.host, expected->host);
            assert_int_equal(place.port, expected->port);
        }
        resp_values_done(&reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_of_names),  cmocka_unit_test(test_maps),
        cmocka_unit_test(test_incomplete_maps), cmocka_unit_test(test_long_hosts),
        cmocka_unit_test(test_redirections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
