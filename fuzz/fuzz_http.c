/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses any bytes as an answer of an HTTP server: as a whole, and again in steps whose size is the
 * first byte. Both must report the same, and a body is never larger than announced.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/store/http/answer_transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void check_limits(const uint8_t *bytes, size_t size, bool answers_head)
{
    kilni_http_reader reader = {.answers_head = answers_head};
    kilni_byte_reader input = {.at = bytes, .left = size};
    kilni_byte_reader piece;
    kilni_http_result result;
    uint64_t arrived = 0;
    bool has_head = false;
    do {
        const uint64_t left = kilni_http_body_left(&reader);
        result = kilni_http_next(&reader, &input, &piece);
        require(reader.line_bytes <= KILNI_HTTP_MAX_HEAD);
        if (result == KILNI_HTTP_HEAD) {
            require(!has_head && reader.head.status >= 200 && reader.head.status <= 599);
            require(!(reader.head.has_size && reader.head.is_chunked));
            has_head = true;
        } else if (result == KILNI_HTTP_PIECE) {
            require(has_head && !answers_head && piece.left > 0);
            require(left == 0 || piece.left <= left);
            arrived += piece.left;
            require(!reader.head.has_size || arrived <= reader.head.size);
        } else if (result == KILNI_HTTP_END) {
            require(has_head && kilni_http_body_left(&reader) == 0);
            require(!reader.head.has_size || arrived == 0 || arrived == reader.head.size);
        }
    } while (result == KILNI_HTTP_HEAD || result == KILNI_HTTP_PIECE);
    require(result != KILNI_HTTP_MORE || input.left == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const size_t step = 1u + data[0] / 2;
    const bool answers_head = data[0] & 1;
    kilni_http_reader whole = {.answers_head = answers_head};
    kilni_http_reader stepwise = {.answers_head = answers_head};
    kilni_text a = {0};
    kilni_text b = {0};
    size_t used_a = 0;
    size_t used_b = 0;
    const bool is_sound = answer_read_in_steps(&whole, data + 1, size - 1, size, &a, &used_a);
    require(answer_read_in_steps(&stepwise, data + 1, size - 1, step, &b, &used_b) == is_sound);
    require(!is_sound || used_a == used_b);
    require(a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0));
    check_limits(data + 1, size - 1, answers_head);
    kilni_text_done(&a);
    kilni_text_done(&b);
    return 0;
}
