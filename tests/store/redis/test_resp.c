/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "resp_transcript.h"
#include "support/failing_malloc.h"

static const kilni_resp_limits limits = {.max_blob = 1000, .max_values = 6};

/* Replies, and what the reader reports for each. */
static const struct reply {
    const char *bytes, *transcript;
} replies[] = {
    {"+OK\r\n", "text OK .\n"},
    {"+\r\n", "text  .\n"},
    {"-NOPERM no\r\n", "error NOPERM no .\n"},
    {":0\r\n", "integer 0 .\n"},
    {":-42\r\n", "integer -42 .\n"},
    {":999999999999999999\r\n", "integer 999999999999999999 .\n"},
    {"$5\r\nab\r\nc\r\n", "blob 5\nab\r\ncend .\n"},
    {"$0\r\n\r\n", "blob 0\nend .\n"},
    {"$-1\r\n", "nil .\n"},
    {"*-1\r\n", "nil .\n"},
    {"*0\r\n", "list 0 .\n"},
    {"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
     "list 2\nblob 1\n0end\nlist 2\nblob 1\naend\nblob 1\nbend .\n"},
    {"*2\r\n*0\r\n:1\r\n", "list 2\nlist 0\ninteger 1 .\n"},
    {"*1\r\n*1\r\n$-1\r\n", "list 1\nlist 1\nnil .\n"},
    /* RESP3 */
    {"_\r\n", "nil .\n"},
    {"#t\r\n", "integer 1 .\n"},
    {"#f\r\n", "integer 0 .\n"},
    {",1.5\r\n", "text 1.5 .\n"},
    {"(123456789012345678901234567890\r\n", "text 123456789012345678901234567890 .\n"},
    {"=5\r\ntxt:a\r\n", "blob 5\ntxt:aend .\n"},
    {"!5\r\nERR a\r\n", "blob 5 failure\nERR aend .\n"},
    {"~2\r\n:1\r\n:2\r\n", "list 2\ninteger 1\ninteger 2 .\n"},
    {"%1\r\n+a\r\n:1\r\n", "list 2\ntext a\ninteger 1 .\n"},
    /* Data that the server sends beside a reply does not end the reply. */
    {">2\r\n+a\r\n$1\r\nb\r\n:7\r\n", "list 2 aside\ntext a aside\nblob 1 aside\nb"
                                      "end aside\ninteger 7 .\n"},
    {"|1\r\n+a\r\n*1\r\n:1\r\n:7\r\n",
     "list 2 aside\ntext a aside\nlist 1 aside\ninteger 1 aside\ninteger 7 .\n"},
    {"*2\r\n|1\r\n+a\r\n:1\r\n:7\r\n:8\r\n",
     "list 2\nlist 2 aside\ntext a aside\ninteger 1 aside\ninteger 7\ninteger 8 .\n"},
    {"*1\r\n|0\r\n:8\r\n", "list 1\nlist 0 aside\ninteger 8 .\n"},
    /* Several replies in a row: the limit on values applies to each reply alone. */
    {"*6\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n*1\r\n:1\r\n",
     "list 6\nnil\nnil\nnil\nnil\nnil\nnil .\nlist 1\ninteger 1 .\n"},
    {">6\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n>1\r\n:1\r\n",
     "list 6 aside\nnil aside\nnil aside\nnil aside\nnil aside\nnil aside\nnil aside\n"
     "list 1 aside\ninteger 1 aside\n"},
};

/* Bytes that no server sends, or more values than the limits allow. */
static const struct broken {
    const char *bytes, *transcript;
} broken[] = {
    {"HTTP/1.1 400 Bad Request\r\n", "broken\n"},
    {"\r\n", "broken\n"},
    {"+OK\n", "broken\n"},
    {"+O\nK\r\n", "broken\n"},
    {"+O\rK\r\n", "broken\n"},
    {":\r\n", "broken\n"},
    {":-\r\n", "broken\n"},
    {":1a\r\n", "broken\n"},
    {": 1\r\n", "broken\n"},
    {":+1\r\n", "broken\n"},
    {":1000000000000000000\r\n", "broken\n"},
    {"$\r\n", "broken\n"},
    {"$-2\r\n", "broken\n"},
    {"$1001\r\n", "broken\n"},
    {"$1099511627776\r\n", "broken\n"},
    {"$?\r\n", "broken\n"},
    {"$1\r\nab\r\n", "blob 1\nabroken\n"},
    {"$1\r\na\n\n", "blob 1\nabroken\n"},
    {"$1\r\na\r\r", "blob 1\nabroken\n"},
    {"*7\r\n", "broken\n"},
    {"%4\r\n", "broken\n"},
    {"%999999999999999999\r\n", "broken\n"},
    {"*-2\r\n", "broken\n"},
    {"*4\r\n*3\r\n", "list 4\nbroken\n"},
    {"*1\r\n>1\r\n", "list 1\nbroken\n"},
    {">-1\r\n", "broken\n"},
    {"_x\r\n", "broken\n"},
    {"#\r\n", "broken\n"},
    {"#tt\r\n", "broken\n"},
    {"#x\r\n", "broken\n"},
};

static void expect(const char *bytes, size_t step, const char *transcript, bool is_sound)
{
    kilni_resp_reader reader = {.limits = limits};
    kilni_text text = {0};
    kilni_text_append(&text, "");
    assert_int_equal(
        resp_read_in_steps(&reader, (const unsigned char *)bytes, strlen(bytes), step, &text),
        is_sound);
    assert_string_equal(text.bytes, transcript);
    assert_int_equal(kilni_resp_is_between_replies(&reader), is_sound);
    kilni_text_done(&text);
}

static void test_replies_however_they_arrive(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        for (size_t step = 1; step <= strlen(replies[i].bytes); step++) {
            expect(replies[i].bytes, step, replies[i].transcript, true);
        }
    }
}

static void test_invalid_replies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        for (size_t step = 1; step <= strlen(broken[i].bytes); step++) {
            expect(broken[i].bytes, step, broken[i].transcript, false);
        }
    }
}

static void test_a_broken_reader_stays_broken(void **state)
{
    (void)state;
    kilni_resp_reader reader = {.limits = limits};
    kilni_text text = {0};
    assert_false(resp_read_all(&reader, "?\r\n", 3, &text));
    assert_false(resp_read_all(&reader, "+OK\r\n", 5, &text));
    assert_false(kilni_resp_is_between_replies(&reader));
    assert_string_equal(text.bytes, "broken\nbroken\n");
    kilni_text_done(&text);
}

static void test_the_depth_of_nested_lists_is_limited(void **state)
{
    (void)state;
    const kilni_resp_limits wide = {.max_values = 1000};
    kilni_resp_reader reader = {.limits = wide};
    kilni_text text = {0};
    for (unsigned i = 0; i < KILNI_RESP_MAX_DEPTH; i++) {
        assert_true(resp_read_all(&reader, "*1\r\n", 4, &text));
    }
    assert_false(resp_read_all(&reader, "*1\r\n", 4, &text));
    reader = (kilni_resp_reader){.limits = wide};
    for (unsigned i = 0; i < KILNI_RESP_MAX_DEPTH; i++) {
        assert_true(resp_read_all(&reader, "*1\r\n", 4, &text));
    }
    assert_true(resp_read_all(&reader, ":1\r\n", 4, &text));
    assert_true(kilni_resp_is_between_replies(&reader));
    kilni_text_done(&text);
}

static void test_a_long_line_is_cut_and_an_endless_one_breaks(void **state)
{
    (void)state;
    kilni_resp_reader reader = {.limits = limits};
    char line[2000];
    memset(line, 'x', sizeof line);
    line[0] = '-';
    memcpy(line + sizeof line - 2, "\r\n", 2);
    kilni_byte_reader input = {.at = (const unsigned char *)line, .left = sizeof line};
    kilni_resp_event event;
    assert_int_equal(kilni_resp_next(&reader, &input, &event), KILNI_RESP_EVENT);
    assert_int_equal(event.kind, KILNI_RESP_ERROR);
    assert_int_equal(event.size, KILNI_RESP_LINE_SIZE - 1);
    memset(line, 'x', sizeof line);
    line[0] = '+';
    size_t fed = 0;
    kilni_resp_result result = KILNI_RESP_MORE;
    while (result == KILNI_RESP_MORE && fed < (1u << 20)) {
        input = (kilni_byte_reader){.at = (const unsigned char *)line, .left = sizeof line};
        result = kilni_resp_next(&reader, &input, &event);
        fed += sizeof line;
    }
    assert_int_equal(result, KILNI_RESP_BROKEN);
    assert_in_range(fed, KILNI_RESP_MAX_LINE, KILNI_RESP_MAX_LINE + sizeof line);
}

/* The caller reads a part of the blob directly into its own buffer. */
static void test_a_blob_is_received_in_place(void **state)
{
    (void)state;
    kilni_resp_reader reader = {.limits = limits};
    kilni_text text = {0};
    assert_int_equal(kilni_resp_blob_left(&reader), 0);
    assert_true(resp_read_all(&reader, "$10\r\nabc", 8, &text));
    assert_int_equal(kilni_resp_blob_left(&reader), 7);
    kilni_resp_skip(&reader, 7);
    assert_int_equal(kilni_resp_blob_left(&reader), 0);
    assert_false(kilni_resp_is_between_replies(&reader));
    assert_true(resp_read_all(&reader, "\r\n+OK\r\n", 7, &text));
    assert_string_equal(text.bytes, "blob 10\nabcend .\ntext OK .\n");
    kilni_text_done(&text);
}

static void test_announced_lengths(void **state)
{
    (void)state;
    static const char bytes[12345];
    static const size_t sizes[] = {0, 9, 10, 99, 100, sizeof bytes};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        kilni_text text = {0};
        char expected[32];
        const kilni_resp_argument argument = {bytes, sizes[i]};
        assert_int_equal(kilni_resp_append_command(&text, &argument, 1), KILN_OK);
        const int length = snprintf(expected, sizeof expected, "*1\r\n$%zu\r\n", sizes[i]);
        assert_memory_equal(text.bytes, expected, (size_t)length);
        assert_int_equal(text.length, (size_t)length + sizes[i] + 2);
        kilni_text_done(&text);
    }
}

static void test_commands(void **state)
{
    (void)state;
    kilni_text text = {0};
    const kilni_resp_argument arguments[] = {{"SET", 3}, {"k", 1}, {"a\0\r\n", 4}, {NULL, 0}};
    assert_int_equal(kilni_resp_append_command(&text, arguments, 4), KILN_OK);
    static const char expected[] = "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\0\r\n\r\n$0\r\n\r\n";
    assert_int_equal(text.length, sizeof expected - 1);
    assert_memory_equal(text.bytes, expected, sizeof expected);
    const size_t before = text.length;
    failing_malloc_arm(1);
    const kilni_resp_argument large[] = {{expected, sizeof expected - 1}, {expected, 10}};
    assert_int_equal(kilni_resp_append_command(&text, large, 2), KILN_E_NO_MEMORY);
    assert_int_equal(failing_malloc_disarm(), 1);
    assert_int_equal(text.length, before);
    const kilni_resp_argument huge[] = {{expected, SIZE_MAX - 10}};
    assert_int_equal(kilni_resp_append_command(&text, huge, 1), KILN_E_NO_MEMORY);
    assert_int_equal(text.length, before);
    kilni_text_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies_however_they_arrive),
        cmocka_unit_test(test_invalid_replies),
        cmocka_unit_test(test_a_broken_reader_stays_broken),
        cmocka_unit_test(test_the_depth_of_nested_lists_is_limited),
        cmocka_unit_test(test_a_long_line_is_cut_and_an_endless_one_breaks),
        cmocka_unit_test(test_a_blob_is_received_in_place),
        cmocka_unit_test(test_announced_lengths),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
