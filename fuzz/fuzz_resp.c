/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads any bytes as the replies of a Redis server: as a whole, and again in steps whose size is
 * the first byte. Both must report the same, and nothing may exceed the limits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/store/redis/resp_transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const kilni_resp_limits limits = {.max_blob = 1u << 20, .max_values = 64};

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* Returns how many replies arrived whole. */
static size_t check_limits(const uint8_t *bytes, size_t size)
{
    kilni_resp_reader reader = {.limits = limits};
    kilni_byte_reader input = {.at = bytes, .left = size};
    kilni_resp_event event;
    uint64_t blob_left = 0;
    size_t replies = 0;
    while (kilni_resp_next(&reader, &input, &event) == KILNI_RESP_EVENT) {
        require(event.kind == KILNI_RESP_PIECE ? event.size <= blob_left : blob_left == 0);
        require(event.kind != KILNI_RESP_BLOB || event.size <= limits.max_blob);
        require(event.kind != KILNI_RESP_LIST || event.size <= limits.max_values);
        require(!event.is_aside || !event.ends_reply);
        require(!event.ends_reply || kilni_resp_is_between_replies(&reader));
        blob_left = kilni_resp_blob_left(&reader);
        replies += event.ends_reply;
    }
    require(reader.is_broken || input.left == 0);
    return replies;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const size_t step = 1u + data[0];
    kilni_resp_reader whole = {.limits = limits};
    kilni_resp_reader stepwise = {.limits = limits};
    kilni_text a = {0};
    kilni_text b = {0};
    const bool is_sound = resp_read_in_steps(&whole, data + 1, size - 1, size, &a);
    require(resp_read_in_steps(&stepwise, data + 1, size - 1, step, &b) == is_sound);
    require(a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0));
    check_limits(data + 1, size - 1);
    kilni_text_done(&a);
    kilni_text_done(&b);
    return 0;
}
