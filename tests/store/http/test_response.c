/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of HTTP answers: what it reports, in whatever steps the bytes arrive, and what it
 * refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "answer_transcript.h"
#include "store/http/date.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define PLAIN "size 0 0 chunked 0 range 0 0 page 0 encoded 0 retry 0 last "

static const struct answer {
    const char *bytes, *report;
    bool answers_head;
} answers[] = {
    {OK "Content-Length: 5\r\n\r\nhello",
     "200 size 1 5 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\nhello|end", false},
    {OK "content-length:5 \t\r\nContent-Length: 5\r\nConnection: Keep-Alive, CLOSE\r\n\r\nhello",
     "200 size 1 5 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 1\nhello|end", false},
    {OK "Content-Length: 5\r\n\r\n",
     "200 size 1 5 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\n|end", true},
    {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "200 size 0 0 chunked 1 range 0 0 page 0 encoded 0 retry 0 last 1\n|end", true},
    {OK "Content-Length: 0\r\n\r\n",
     "200 size 1 0 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\n|end", false},
    {"HTTP/1.1 204 No Content\r\n\r\n", "204 " PLAIN "0\n|end", false},
    {"HTTP/1.1 404\r\n\r\n", "404 " PLAIN "1\n|end", false},
    {"HTTP/1.0 200 \r\n\r\nall until the end", "200 " PLAIN "1\n|end", false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
     "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
     "201 size 1 0 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\n|end", false},
    {OK "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n00a\r\n, everyone\r\n0\r\n"
        "Content-Length: 3\r\n\r\n",
     "200 size 0 0 chunked 1 range 0 0 page 0 encoded 0 retry 0 last 0\nhello, everyone|end",
     false},
    {"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/100\r\nContent-Length: "
     "4\r\n\r\nabcd",
     "206 size 1 4 chunked 0 range 1 100 page 0 encoded 0 retry 0 last 0\nabcd|end", false},
    {"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Type: text/HTML; charset=x\r\n"
     "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\n<",
     "503 size 1 1 chunked 0 range 0 0 page 1 encoded 1 retry 7 last 0\n<|end", false},
    {"HTTP/1.1 429 x\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 0\r\n\r\n",
     "429 size 1 0 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\n|end", false},
    {"HTTP/1.1 416 x\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n",
     "416 size 1 0 chunked 0 range 0 0 page 0 encoded 0 retry 0 last 0\n|end", false},
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const unsigned char *bytes = (const unsigned char *)answers[i].bytes;
        const size_t size = strlen(answers[i].bytes);
        for (size_t step = 1; step <= size; step++) {
            kilni_http_reader reader = {.answers_head = answers[i].answers_head};
            kilni_text text = {0};
            size_t used;
            answer_read_in_steps(&reader, bytes, size, step, &text, &used);
            assert_string_equal(text.bytes, answers[i].report);
            kilni_text_done(&text);
        }
    }
}

/* Bytes after the end of an answer are not read. */
static void test_the_end_is_exact(void **state)
{
    (void)state;
    static const char bytes[] = OK "Content-Length: 2\r\n\r\nabHTTP/1.1 200";
    kilni_http_reader reader = {.answers_head = false};
    kilni_text text = {0};
    size_t used = 0;
    assert_true(answer_read_in_steps(&reader, (const unsigned char *)bytes, sizeof bytes - 1, 1000,
                                     &text, &used));
    assert_string_equal(bytes + used, "HTTP/1.1 200");
    kilni_text_done(&text);
}

static const char *const refused[] = {
    "HTTP/2 200 OK\r\n",
    "HTTP/1.1 20 OK\r\n",
    "HTTP/1.1 2000 OK\r\n",
    "HTTP/1.1 600 x\r\n",
    "HTTP/1.1 099 x\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.1200 OK\r\n",
    "<html>\r\n",
    "\r\n",
    "-ERR unknown command\r\n",
    "HTTP/1.1 200 OK\n",
    "HTTP/1.1 200 OK\rx",
    OK "Content-Length: 5\r\nContent-Length: 6\r\n",
    OK "Content-Length: 5, 5\r\n",
    OK "Content-Length: +5\r\n",
    OK "Content-Length: -5\r\n",
    OK "Content-Length: 0x5\r\n",
    OK "Content-Length: 5 5\r\n",
    OK "Content-Length:\r\n",
    OK "Content-Length: 1000000000000000000\r\n",
    OK "Content-Length : 5\r\n",
    OK " Content-Length: 5\r\n",
    OK "X: y\r\n\tContent-Length: 5\r\n",
    OK "no name\r\n",
    OK ": no name\r\n",
    OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    OK "Transfer-Encoding: gzip, chunked\r\n",
    OK "Transfer-Encoding: identity\r\n",
    OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\nx\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\n\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\n",
    "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\n",
    "HTTP/1.1 206 x\r\nContent-Range: bytes 0-9/5\r\n",
    "HTTP/1.1 206 x\r\nContent-Range: bytes 0-9/*\r\n",
    "HTTP/1.1 206 x\r\nContent-Range: pages 0-9/10\r\n",
    "HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\n",
};

static void test_what_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const unsigned char *bytes = (const unsigned char *)refused[i];
        for (size_t step = 1; step <= strlen(refused[i]); step++) {
            kilni_http_reader reader = {.answers_head = false};
            kilni_text text = {0};
            size_t used;
            if (answer_read_in_steps(&reader, bytes, strlen(refused[i]), step, &text, &used)) {
                fail_msg("%s", refused[i]);
            }
            /* The reader refuses all further bytes. */
            assert_false(
                answer_read_in_steps(&reader, (const unsigned char *)OK, 17, 17, &text, &used));
            kilni_text_done(&text);
        }
    }
    kilni_http_reader reader = {.answers_head = false};
    kilni_text text = {0};
    size_t used;
    assert_false(answer_read_in_steps(&reader, (const unsigned char *)"HTTP/1.1 200 O\0K\r\n", 18,
                                      18, &text, &used));
    kilni_text_done(&text);
}

static const struct date {
    const char *text;
    uint64_t time_s; /* 0: the text is not a date */
} dates[] = {
    {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
    {"Thu, 01 Jan 1970 00:00:01 GMT", 1},
    {"Tue, 29 Feb 2000 23:59:59 GMT", 951868799},
    {"Wed, 01 Mar 2000 00:00:00 GMT", 951868800},
    {"Mon, 01 Mar 2100 00:00:00 GMT", 4107542400},
    {"Fri, 31 Dec 9999 23:59:60 GMT", 253402300800},
    {"Sun, 06 Nov 1994 08:49:37 GMT ", 0},
    {"Sun, 06 Nov 1994 08:49:37 UTC", 0},
    {"Sun, 06 Nox 1994 08:49:37 GMT", 0},
    {"Sun, 06 ovD 1994 08:49:37 GMT", 0},
    {"Sun, 00 Nov 1994 08:49:37 GMT", 0},
    {"Thu, 29 Feb 2100 08:49:37 GMT", 0},
    {"Sun, 06 Nov 1969 08:49:37 GMT", 0},
    {"Sun, 06 Nov 1994 24:49:37 GMT", 0},
    {"Sun, 06 Nov 1994 08:60:37 GMT", 0},
    {"Sun, 06 Nov 1994 08:49:61 GMT", 0},
    {"Sun, -6 Nov 1994 08:49:37 GMT", 0},
    {"Sunday, 06-Nov-94 08:49:37 GMT", 0},
    {"Sun Nov  6 08:49:37 1994", 0},
    {"", 0},
};

static void test_dates(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
        uint64_t time_s = 0;
        const bool is_date = kilni_http_date_read(dates[i].text, strlen(dates[i].text), &time_s);
        if (is_date != (dates[i].time_s != 0) || time_s != dates[i].time_s) {
            fail_msg("%s: %llu", dates[i].text, (unsigned long long)time_s);
        }
    }
}

static void test_dates_of_answers(void **state)
{
    (void)state;
    static const char bytes[] = OK "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                   "last-modified:\tSun, 06 Nov 1994 08:49:30 GMT \r\n"
                                   "Date-Of: Sun, 06 Nov 1994 09:00:00 GMT\r\n"
                                   "Date: yesterday\r\nContent-Length: 0\r\n\r\n";
    kilni_http_reader reader = {.answers_head = false};
    kilni_text text = {0};
    size_t used = 0;
    assert_true(answer_read_in_steps(&reader, (const unsigned char *)bytes, sizeof bytes - 1, 1,
                                     &text, &used));
    assert_int_equal(reader.head.sent_s, 784111777);
    assert_int_equal(reader.head.modified_s, 784111770);
    kilni_text_done(&text);
}

/* Long lines are skipped, unless they matter; the total size of a head is limited. */
static void test_long_heads(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        unsigned count;
        bool is_read;
    } heads[] = {{"Set-Cookie", 1, true},
                 {"Set-Cookie", 12, true},
                 {"Set-Cookie", 14, false},
                 {"Content-Type", 1, false}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        kilni_text bytes = {0};
        kilni_text text = {0};
        char *value = malloc(5001);
        size_t used;
        memset(value, 'x', 5000);
        value[5000] = '\0';
        kilni_text_append(&bytes, OK);
        for (unsigned j = 0; j < heads[i].count; j++) {
            kilni_text_printf(&bytes, "%s: %s\r\n", heads[i].line, value);
        }
        kilni_text_append(&bytes, "Content-Length: 1\r\n\r\nx");
        kilni_http_reader reader = {.answers_head = false};
        assert_int_equal(answer_read_in_steps(&reader, (const unsigned char *)bytes.bytes,
                                              bytes.length, 100, &text, &used),
                         heads[i].is_read);
        free(value);
        kilni_text_done(&bytes);
        kilni_text_done(&text);
    }
}

/* Interim answers and trailers are limited. */
static void test_what_never_ends(void **state)
{
    (void)state;
    static const char *const pieces[][2] = {
        {"", "HTTP/1.1 100 Continue\r\n\r\n"},
        {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n"},
        {OK "Transfer-Encoding: chunked\r\n\r\n", "1;extension\r\nx\r\n"},
        {OK, "X: y\r\n"},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        kilni_http_reader reader = {.answers_head = false};
        kilni_text text = {0};
        size_t used;
        bool is_sound = answer_read_in_steps(&reader, (const unsigned char *)pieces[i][0],
                                             strlen(pieces[i][0]), 100, &text, &used);
        unsigned count = 0;
        while (is_sound && count++ < 100000) {
            is_sound = answer_read_in_steps(&reader, (const unsigned char *)pieces[i][1],
                                            strlen(pieces[i][1]), 100, &text, &used);
        }
        assert_false(is_sound);
        kilni_text_done(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),          cmocka_unit_test(test_the_end_is_exact),
        cmocka_unit_test(test_what_is_refused),  cmocka_unit_test(test_dates),
        cmocka_unit_test(test_dates_of_answers), cmocka_unit_test(test_long_heads),
        cmocka_unit_test(test_what_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
