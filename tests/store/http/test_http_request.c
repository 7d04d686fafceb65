/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of an answer's body a request keeps, and the hashes of bodies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "key/hash.h"
#include "store/http/request.h"
#include "store/remote/connector.h"
#include "support/failing_malloc.h"

enum { KEPT = 33, CHUNK = 0x2000, BODY = 0x20000 };

#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 131072\r\n\r\n"
#define CHUNKED_HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n"

/* The number of the first allocation that the head of an answer causes: the request is allocated
 * before it. */
#define FIRST_OF_BODY 2u

static kiln_status take(kilni_http_request *request, const char *bytes, size_t size)
{
    kilni_byte_reader input = {.at = (const unsigned char *)bytes, .left = size};
    return kilni_http_request_take(request, &input);
}

/* A chunk that is larger than what is kept, but fits in the memory that was allocated. */
static void test_a_large_chunk(void **state)
{
    (void)state;
    static const char begin[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "10\r\n0123456789abcdef\r\n2000\r\n";
    char chunk[CHUNK];
    size_t room;
    kilni_http_request *request;
    memset(chunk, 'x', sizeof chunk);
    assert_int_equal(kilni_http_request_new(NULL, 0, &request), KILN_OK);
    request->max_bytes = UINT64_MAX;
    request->kept_bytes = KEPT;
    assert_int_equal(take(request, begin, sizeof begin - 1), KILN_BUSY);
    assert_int_equal(request->size, 16);
    assert_true(request->capacity > CHUNK);
    assert_null(kilni_http_request_place(request, &room));
    assert_int_equal(take(request, chunk, sizeof chunk), KILN_OK);
    assert_int_equal(request->size, KEPT);
    assert_memory_equal(request->data, "0123456789abcdefxxxxxxxxxxxxxxxxx", KEPT);
    kilni_call_release(&request->call);
}

/* Returns a request that has received the head of an answer with BODY bytes. */
static kilni_http_request *request_with(const char *head, size_t kept_bytes)
{
    kilni_http_request *request;
    assert_int_equal(kilni_http_request_new(NULL, 0, &request), KILN_OK);
    request->max_bytes = UINT64_MAX;
    request->kept_bytes = kept_bytes;
    assert_int_equal(take(request, head, strlen(head)), KILN_BUSY);
    return request;
}

static void fill(char body[BODY])
{
    for (size_t i = 0; i < BODY; i++) {
        body[i] = (char)(i * i >> 3);
    }
}

/* A body whose size is announced is hashed while it arrives, except for its last bytes. */
static void test_hash_of_a_body(void **state)
{
    (void)state;
    enum { IN_BUFFER = 1000 };
    static char body[BODY];
    size_t room;
    fill(body);
    const kiln_digest expected = kilni_hash(body, BODY - KILNI_REMOTE_UNHASHED);
    for (size_t piece = 7; piece < BODY; piece *= 11) {
        kilni_http_request *request = request_with(HEAD, SIZE_MAX);
        assert_int_equal(take(request, body, IN_BUFFER), KILN_BUSY);
        for (size_t at = IN_BUFFER; at < BODY; at += piece) {
            const size_t count = BODY - at < piece ? BODY - at : piece;
            unsigned char *place = kilni_http_request_place(request, &room);
            assert_non_null(place);
            memcpy(place, body + at, count);
            assert_int_equal(kilni_http_request_arrived(request, count),
                             at + count < BODY ? KILN_BUSY : KILN_OK);
        }
        assert_true(request->is_hashed);
        assert_memory_equal(&request->digest, &expected, sizeof expected);
        kilni_call_release(&request->call);
    }
}

/* Without memory for the hash, a body arrives all the same. A body is not hashed if its size is not
 * announced, or if only a part of it is kept. */
static void test_bodies_without_a_hash(void **state)
{
    (void)state;
    static char body[BODY];
    fill(body);
    for (unsigned i = 0; i < 3; i++) {
        failing_malloc_arm(i == 0 ? FIRST_OF_BODY : SIZE_MAX);
        kilni_http_request *request =
            request_with(i == 1 ? CHUNKED_HEAD : HEAD, i == 2 ? BODY - 1 : SIZE_MAX);
        const kiln_status status = take(request, body, BODY);
        failing_malloc_disarm();
        assert_int_equal(status, i == 1 ? KILN_BUSY : KILN_OK);
        if (i == 1) {
            assert_int_equal(take(request, "\r\n0\r\n\r\n", 7), KILN_OK);
        }
        assert_false(request->is_hashed);
        assert_int_equal(request->size, i == 2 ? BODY - 1 : BODY);
        assert_memory_equal(request->data, body, request->size);
        kilni_call_release(&request->call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_chunk),
        cmocka_unit_test(test_hash_of_a_body),
        cmocka_unit_test(test_bodies_without_a_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
