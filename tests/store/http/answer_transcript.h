/* SPDX-License-Identifier: Apache-2.0
 *
 * The events that a parser reports for an answer, as a text. Tests compare the texts for the same
 * bytes in steps of different sizes.
 */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "store/http/response.h"

static inline void answer_append_head(kilni_text *text, const kilni_http_head *head)
{
    kilni_text_printf(text, "%u size %d %llu chunked %d range %d %llu page %d encoded %d",
                      head->status, head->has_size, (unsigned long long)head->size,
                      head->is_chunked, head->is_range, (unsigned long long)head->whole_size,
                      head->is_page, head->is_encoded);
    kilni_text_printf(text, " retry %u last %d\n", head->retry_after_s, head->is_last);
}

/* Parses bytes in steps, up to the end of the first answer. Returns false if they are not an
 * answer. */
static inline bool answer_read_in_steps(kilni_http_reader *reader, const unsigned char *bytes,
                                        size_t size, size_t step, kilni_text *ret_text,
                                        size_t *ret_used)
{
    size_t used = 0;
    for (;;) {
        const size_t left = size - used < step ? size - used : step;
        kilni_byte_reader input = {.at = bytes + used, .left = left};
        kilni_byte_reader piece;
        kilni_http_result result;
        while ((result = kilni_http_next(reader, &input, &piece)) != KILNI_HTTP_MORE) {
            if (result == KILNI_HTTP_BROKEN || result == KILNI_HTTP_END) {
                kilni_text_append(ret_text, result == KILNI_HTTP_END ? "|end" : "|broken");
                *ret_used = used + left - input.left;
                return result == KILNI_HTTP_END;
            }
            if (result == KILNI_HTTP_HEAD) {
                answer_append_head(ret_text, &reader->head);
            } else {
                kilni_text_append_bytes(ret_text, piece.at, piece.left);
            }
        }
        used += left;
        if (used == size) {
            *ret_used = used;
            return true;
        }
    }
}
