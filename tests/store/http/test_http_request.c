/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of an answer's body a request keeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/http/request.h"

enum { KEPT = 33, CHUNK = 0x2000 };

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
