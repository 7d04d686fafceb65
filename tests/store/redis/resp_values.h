/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the values of a reply from its bytes, for tests and fuzzers of what reads them.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "store/redis/value.h"

#define RESP_VALUES_MAX 256u

typedef struct resp_values {
    kilni_redis_value values[RESP_VALUES_MAX];
    size_t count;
} resp_values;

static inline void resp_values_add(resp_values *reply, const kilni_resp_event *event)
{
    kilni_redis_value *value = &reply->values[reply->count++];
    *value = (kilni_redis_value){.kind = event->is_failure ? KILNI_RESP_ERROR : event->kind,
                                 .integer = event->integer,
                                 .size = (size_t)event->size};
    if (event->kind == KILNI_RESP_TEXT || event->kind == KILNI_RESP_ERROR ||
        event->kind == KILNI_RESP_BLOB) {
        value->data = calloc(value->size + 1, 1);
        if (!value->data) {
            abort();
        }
        if (event->data) {
            memcpy(value->data, event->data, value->size);
        }
    }
}

/* Reads the first reply. Returns whether it is complete. The caller calls resp_values_done in any
 * case. */
static inline bool resp_values_read(resp_values *reply, const void *bytes, size_t size)
{
    kilni_resp_reader reader = {.limits = {.max_blob = 4096, .max_values = RESP_VALUES_MAX - 1}};
    kilni_byte_reader input = {.at = bytes, .left = size};
    kilni_resp_event event;
    size_t arrived = 0;
    reply->count = 0;
    while (kilni_resp_next(&reader, &input, &event) == KILNI_RESP_EVENT) {
        if (!event.is_aside && event.kind == KILNI_RESP_PIECE) {
            memcpy(reply->values[reply->count - 1].data + arrived, event.data, event.size);
            arrived += event.size;
        } else if (!event.is_aside && event.kind != KILNI_RESP_BLOB_END) {
            resp_values_add(reply, &event);
            arrived = 0;
        }
        if (event.ends_reply) {
            return true;
        }
    }
    return false;
}

static inline void resp_values_done(resp_values *reply)
{
    for (size_t i = 0; i < reply->count; i++) {
        free(reply->values[i].data);
    }
}
