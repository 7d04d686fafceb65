/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/exchange.h"

#include <stdlib.h>
#include <string.h>

/* How much memory a value takes apart from its data: its struct, the unused half of the list, and
 * the overhead of an allocation. */
#define VALUE_BYTES (2 * sizeof(kilni_redis_value) + 32)

static void drop_values(kilni_redis_exchange *exchange)
{
    for (size_t i = 0; i < exchange->value_count; i++) {
        free(exchange->values[i].data);
    }
    exchange->value_count = 0;
}

static void destroy(kilni_call *call)
{
    kilni_redis_exchange *exchange = (kilni_redis_exchange *)call;
    drop_values(exchange);
    kilni_value_hash_done(&exchange->hash);
    free(exchange->values);
    kilni_text_done(&exchange->commands);
    if (exchange->owner) {
        exchange->forget(exchange->owner);
    }
    free(exchange);
}

kiln_status kilni_redis_exchange_new(void (*run)(kilni_task *task), uint64_t max_bytes,
                                     uint64_t deadline_ns, kilni_redis_exchange **ret_exchange)
{
    kilni_redis_exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange || kilni_call_init(&exchange->call, run, destroy, deadline_ns) != KILN_OK) {
        free(exchange);
        return KILN_E_NO_MEMORY;
    }
    exchange->max_bytes = max_bytes;
    exchange->bytes_left = max_bytes;
    *ret_exchange = exchange;
    return KILN_OK;
}

kiln_status kilni_redis_exchange_add(kilni_redis_exchange *exchange,
                                     const kilni_resp_argument *arguments, size_t count)
{
    const size_t begin = exchange->commands.length;
    const kiln_status status = kilni_resp_append_command(&exchange->commands, arguments, count);
    if (status == KILN_OK) {
        exchange->second_at = exchange->command_count == 1 ? begin : exchange->second_at;
        exchange->command_count++;
        exchange->replies_left++;
    }
    return status;
}

static size_t count_expected_replies(const kilni_redis_exchange *exchange)
{
    return exchange->is_asking ? 2 * exchange->command_count : exchange->command_count;
}

/* Appends a value. One value for each command is free. All others count as data, since a reply can
 * consist of millions of small values. */
static kiln_status add_value(kilni_redis_exchange *exchange, kilni_resp_kind kind,
                             kilni_redis_value **ret_value)
{
    if (exchange->value_count >= count_expected_replies(exchange)) {
        if (exchange->bytes_left < VALUE_BYTES) {
            return KILN_E_TOO_LARGE;
        }
        exchange->bytes_left -= VALUE_BYTES;
    }
    if (exchange->value_count == exchange->value_capacity) {
        const size_t capacity = exchange->value_capacity > 0 ? 2 * exchange->value_capacity : 4;
        kilni_redis_value *values = realloc(exchange->values, capacity * sizeof *values);
        if (!values) {
            return KILN_E_NO_MEMORY;
        }
        exchange->values = values;
        exchange->value_capacity = capacity;
    }
    kilni_redis_value *value = &exchange->values[exchange->value_count++];
    *value = (kilni_redis_value){.kind = kind};
    *ret_value = value;
    return KILN_OK;
}

/* Adds a value with data. The size is checked before memory is allocated. */
static kiln_status add_data(kilni_redis_exchange *exchange, kilni_resp_kind kind,
                            const kilni_resp_event *event)
{
    kilni_redis_value *value;
    const kiln_status status = add_value(exchange, kind, &value);
    if (status != KILN_OK) {
        return status;
    }
    if (event->size > exchange->bytes_left) {
        return KILN_E_TOO_LARGE;
    }
    unsigned char *data = malloc((size_t)event->size + KILNI_RESP_BLOB_END_SIZE + 1);
    if (!data) {
        return KILN_E_NO_MEMORY;
    }
    exchange->bytes_left -= event->size;
    data[event->size] = '\0';
    if (event->data) {
        memcpy(data, event->data, (size_t)event->size);
    }
    value->data = data;
    value->size = (size_t)event->size;
    return KILN_OK;
}

static void end_blob(kilni_redis_exchange *exchange)
{
    kilni_redis_value *value = &exchange->values[exchange->value_count - 1];
    value->is_hashed = kilni_value_hash_end(&exchange->hash, &value->hash);
    value->data[value->size] = '\0';
    exchange->is_in_blob = false;
}

static kiln_status take_value(kilni_redis_exchange *exchange, const kilni_resp_event *event)
{
    kilni_redis_value *value;
    kiln_status status;
    switch (event->kind) {
    case KILNI_RESP_TEXT:
    case KILNI_RESP_ERROR:
        return add_data(exchange, event->kind, event);
    case KILNI_RESP_BLOB:
        exchange->is_in_blob = true;
        exchange->blob_arrived = 0;
        kilni_value_hash_begin(&exchange->hash, (size_t)event->size);
        return add_data(exchange, event->is_failure ? KILNI_RESP_ERROR : KILNI_RESP_BLOB, event);
    case KILNI_RESP_PIECE:
        memcpy(kilni_redis_exchange_place(exchange), event->data, (size_t)event->size);
        kilni_redis_exchange_arrived(exchange, (size_t)event->size);
        return KILN_OK;
    case KILNI_RESP_BLOB_END:
        end_blob(exchange);
        return KILN_OK;
    default:
        status = add_value(exchange, event->kind, &value);
        if (status == KILN_OK) {
            value->integer = event->integer;
            value->size = (size_t)event->size;
        }
        return status;
    }
}

kiln_status kilni_redis_exchange_take(kilni_redis_exchange *exchange, const kilni_resp_event *event)
{
    const kiln_status status = take_value(exchange, event);
    if (status == KILN_OK && event->ends_reply) {
        exchange->replies_left--;
    }
    return status;
}

unsigned char *kilni_redis_exchange_place(kilni_redis_exchange *exchange)
{
    return exchange->is_in_blob
               ? exchange->values[exchange->value_count - 1].data + exchange->blob_arrived
               : NULL;
}

void kilni_redis_exchange_arrived(kilni_redis_exchange *exchange, size_t count)
{
    kilni_value_hash_add(&exchange->hash, kilni_redis_exchange_place(exchange), count);
    exchange->blob_arrived += count;
}

bool kilni_redis_exchange_is_unanswered(const kilni_redis_exchange *exchange)
{
    return exchange->value_count == 0;
}

void kilni_redis_exchange_rewind(kilni_redis_exchange *exchange)
{
    drop_values(exchange);
    exchange->sent = 0;
    exchange->replies_left = count_expected_replies(exchange);
    exchange->bytes_left = exchange->max_bytes;
    exchange->is_in_blob = false;
    kilni_value_hash_done(&exchange->hash);
}

kiln_status kilni_redis_exchange_rewind_asking(kilni_redis_exchange *exchange)
{
    static const kilni_resp_argument asking = {"ASKING", 6};
    const kilni_text *plain = &exchange->commands;
    const size_t second_at = exchange->second_at;
    kilni_text text = {0};
    if (!exchange->is_asking) {
        kilni_resp_append_command(&text, &asking, 1);
        kilni_text_append_bytes(&text, plain->bytes, second_at ? second_at : plain->length);
        if (second_at > 0) {
            kilni_resp_append_command(&text, &asking, 1);
            kilni_text_append_bytes(&text, plain->bytes + second_at, plain->length - second_at);
        }
        if (text.has_failed) {
            kilni_text_done(&text);
            return KILN_E_NO_MEMORY;
        }
        kilni_text_done(&exchange->commands);
        exchange->commands = text;
        exchange->is_asking = true;
    }
    kilni_redis_exchange_rewind(exchange);
    return KILN_OK;
}

/* Drops the replies to ASKING. The reply to each command must be a single value. */
static void drop_replies_to_asking(kilni_redis_exchange *exchange)
{
    if (exchange->value_count != 2 * exchange->command_count) {
        return;
    }
    for (size_t i = 0; i < exchange->command_count; i++) {
        free(exchange->values[2 * i].data);
        exchange->values[i] = exchange->values[2 * i + 1];
    }
    exchange->value_count = exchange->command_count;
}

void kilni_redis_exchange_end(kilni_redis_exchange *exchange, kiln_status status)
{
    if (status == KILN_OK && exchange->is_asking) {
        drop_replies_to_asking(exchange);
    }
    exchange->status = status;
    if (exchange->ended) {
        exchange->ended(exchange);
    } else {
        kilni_call_finish(&exchange->call);
    }
}

void kilni_redis_exchange_end_all(kilni_redis_exchange *exchange, kiln_status status)
{
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        kilni_redis_exchange_end(exchange, status);
        exchange = next;
    }
}
