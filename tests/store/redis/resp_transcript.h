/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes what a reader of RESP reports as text. The pieces of a blob are joined, so the text does
 * not depend on the pieces in which the bytes arrive.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "store/redis/resp.h"

static const char *const resp_kinds[] = {"text", "error", "integer", "nil",
                                         "list", "blob",  "piece",   "end"};

static inline void resp_describe(kilni_text *text, const kilni_resp_event *event)
{
    if (event->kind == KILNI_RESP_PIECE) {
        kilni_text_append_bytes(text, event->data, event->size);
        return;
    }
    kilni_text_append(text, resp_kinds[event->kind]);
    if (event->kind == KILNI_RESP_TEXT || event->kind == KILNI_RESP_ERROR) {
        kilni_text_append(text, " ");
        kilni_text_append_bytes(text, event->data, event->size);
    }
    if (event->kind == KILNI_RESP_INTEGER) {
        kilni_text_printf(text, " %lld", (long long)event->integer);
    }
    if (event->kind == KILNI_RESP_LIST || event->kind == KILNI_RESP_BLOB) {
        kilni_text_printf(text, " %llu", (unsigned long long)event->size);
    }
    kilni_text_printf(text, "%s%s%s\n", event->is_failure ? " failure" : "",
                      event->is_aside ? " aside" : "", event->ends_reply ? " ." : "");
}

/* Reads all of the input. Returns false if the reader rejects it. */
static inline bool resp_read_all(kilni_resp_reader *reader, const void *bytes, size_t size,
                                 kilni_text *text)
{
    kilni_byte_reader input = {.at = bytes, .left = size};
    for (;;) {
        kilni_resp_event event;
        switch (kilni_resp_next(reader, &input, &event)) {
        case KILNI_RESP_MORE:
            return input.left == 0;
        case KILNI_RESP_BROKEN:
            kilni_text_append(text, "broken\n");
            return false;
        case KILNI_RESP_EVENT:
            resp_describe(text, &event);
        }
    }
}

/* Reads at most @step bytes at a time. Each step is in a separate heap block, so that a sanitizer
 * reports a read beyond it. */
static inline bool resp_read_in_steps(kilni_resp_reader *reader, const unsigned char *bytes,
                                      size_t size, size_t step, kilni_text *text)
{
    for (size_t at = 0; at < size; at += step) {
        const size_t count = size - at < step ? size - at : step;
        unsigned char *copy = malloc(count);
        if (!copy) {
            abort();
        }
        memcpy(copy, bytes + at, count);
        const bool is_sound = resp_read_all(reader, copy, count, text);
        free(copy);
        if (!is_sound) {
            return false;
        }
    }
    return true;
}
