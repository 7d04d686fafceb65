/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the connector's functions with commands of Redis.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/network/secret_file.h"
#include "store/redis/client.h"
#include "store/redis/lease.h"
#include "store/redis/node.h"
#include "store/redis/slots.h"
#include "store/remote/connector.h"

#define SMALL_REPLY_BYTES 65536u
#define PAGE_BYTES (UINT64_C(8) << 20) /* the maximum size of a SCAN reply in memory */

/* The largest value may use this fraction (1/n) of the server's memory. If a value filled the
 * memory, the server would evict all other values. */
#define LARGEST_SHARE 16u

struct kilni_remote {
    kilni_redis_client *client;
    /* The largest size of a value; 0: not known, because the server has not been asked yet. Only a
     * hint, so accesses are relaxed. */
    _Atomic uint64_t max_value;
};

#define ARGUMENT(text) ((kilni_resp_argument){text, sizeof(text) - 1})

static kilni_resp_argument argument_of(const char *text)
{
    return (kilni_resp_argument){text, strlen(text)};
}

/* ---- what went wrong ---- */

static const struct failure {
    const char *word; /* the word with which the server's reply begins */
    kiln_status status;
} failures[] = {
    {"NOPERM", KILN_E_DENIED}, {"NOAUTH", KILN_E_DENIED}, {"WRONGPASS", KILN_E_DENIED},
    {"DENIED", KILN_E_DENIED}, {"OOM", KILN_E_FULL},      {"READONLY", KILN_E_READONLY},
    {"WRONGTYPE", KILN_MISS}, /* the value does not belong to Kiln */
};

static kiln_status status_of_failure(const kilni_redis_value *value)
{
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        if (kilni_redis_value_is_error(value, failures[i].word)) {
            return failures[i].status;
        }
    }
    return KILN_E_IO;
}

/* Checks that the replies of an exchange are values of the given kinds. NIL is always allowed.
 * Returns KILN_OK; the status for an error reply; KILN_E_IO: a reply is of a different kind. */
static kiln_status expect(const kilni_redis_exchange *exchange, const kilni_resp_kind *kinds,
                          size_t count)
{
    for (size_t i = 0; i < exchange->value_count; i++) {
        if (exchange->values[i].kind == KILNI_RESP_ERROR) {
            return status_of_failure(&exchange->values[i]);
        }
    }
    if (exchange->value_count != count) {
        return KILN_E_IO;
    }
    for (size_t i = 0; i < count; i++) {
        const kilni_resp_kind kind = exchange->values[i].kind;
        if (kind != kinds[i] && kind != KILNI_RESP_NIL) {
            return KILN_E_IO;
        }
    }
    return KILN_OK;
}

/* ---- asking ---- */

typedef struct redis_question {
    unsigned lane, slot;
    uint64_t max_bytes, deadline_ns;
    const kilni_resp_argument *command;
    size_t count;
} redis_question;

/* Sends a request and waits for the replies. Also sets @ret_exchange on failure, but possibly to
 * NULL. The caller must release the exchange. */
static kiln_status ask(kilni_remote *remote, const redis_question *question,
                       kilni_redis_exchange **ret_exchange)
{
    kilni_redis_exchange *exchange = NULL;
    kiln_status status =
        kilni_redis_client_prepare(remote->client, question->lane, question->slot,
                                   question->max_bytes, question->deadline_ns, &exchange);
    if (status == KILN_OK) {
        status = kilni_redis_exchange_add(exchange, question->command, question->count);
    }
    if (status == KILN_OK) {
        status = kilni_redis_client_ask(remote->client, exchange);
    }
    *ret_exchange = exchange;
    return status;
}

static void release(kilni_redis_exchange *exchange)
{
    if (exchange) {
        kilni_call_release(&exchange->call);
    }
}

static void take_data(kilni_redis_value *value, kilni_remote_bytes *ret_bytes)
{
    *ret_bytes = (kilni_remote_bytes){.data = value->data,
                                      .size = value->size,
                                      .is_hashed = value->is_hashed,
                                      .hash = value->hash};
    value->data = NULL;
}

static unsigned slot_of(const char *name)
{
    return kilni_redis_slot_of(name, strlen(name));
}

/* Sends one command that has a number as its reply.
 *
 * @name  a name in the command; in a cluster, it determines the node */
static kiln_status ask_number(kilni_remote *remote, unsigned lane, const char *name,
                              const kilni_resp_argument *command, size_t count,
                              uint64_t deadline_ns, int64_t *ret_number)
{
    static const kilni_resp_kind kinds[] = {KILNI_RESP_INTEGER};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = lane,
                                     .slot = slot_of(name),
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = count};
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(exchange, kinds, 1);
    }
    if (status == KILN_OK) {
        *ret_number = exchange->values[0].integer;
    }
    release(exchange);
    return status;
}

/* ---- reading ---- */

static kiln_status add_question(kilni_redis_exchange *exchange,
                                const kilni_remote_question *question)
{
    const kilni_resp_argument name = argument_of(question->name);
    if (question->only_presence || question->head_size == 0) {
        const kilni_resp_argument get[] = {
            question->only_presence ? ARGUMENT("EXISTS") : ARGUMENT("GET"), name};
        return kilni_redis_exchange_add(exchange, get, 2);
    }
    char last[24];
    snprintf(last, sizeof last, "%zu", question->head_size - 1);
    const kilni_resp_argument length[] = {ARGUMENT("STRLEN"), name};
    const kilni_resp_argument range[] = {ARGUMENT("GETRANGE"), name, ARGUMENT("0"),
                                         argument_of(last)};
    const kiln_status status = kilni_redis_exchange_add(exchange, length, 2);
    return status == KILN_OK ? kilni_redis_exchange_add(exchange, range, 4) : status;
}

static kiln_status status_of_value(const kilni_redis_value *value, kilni_resp_kind kind)
{
    if (value->kind == KILNI_RESP_ERROR) {
        return status_of_failure(value);
    }
    return value->kind == KILNI_RESP_NIL ? KILN_MISS : value->kind == kind ? KILN_OK : KILN_E_IO;
}

/* Takes the replies to a request for the beginning of a value. The first reply is the length of the
 * value, and the second has the bytes. If the value does not exist, the length is 0. */
static void take_head(kilni_redis_value values[2], kilni_remote_question *question)
{
    question->status = status_of_value(&values[0], KILNI_RESP_INTEGER);
    if (question->status == KILN_OK) {
        question->status = status_of_value(&values[1], KILNI_RESP_BLOB);
    }
    if (question->status == KILN_OK && values[0].integer <= 0) {
        question->status = KILN_MISS;
    }
    if (question->status == KILN_OK) {
        question->whole_size = (uint64_t)values[0].integer;
        take_data(&values[1], &question->bytes);
    }
}

static void take_whole(kilni_redis_value *value, kilni_remote_question *question)
{
    question->status = status_of_value(value, KILNI_RESP_BLOB);
    if (question->status == KILN_OK) {
        question->whole_size = value->size;
        take_data(value, &question->bytes);
    }
}

static void take_presence(const kilni_redis_value *value, kilni_remote_question *question)
{
    question->status = status_of_value(value, KILNI_RESP_INTEGER);
    if (question->status == KILN_OK && value->integer == 0) {
        question->status = KILN_MISS;
    }
}

static size_t count_replies(const kilni_remote_question *question)
{
    return question->head_size > 0 && !question->only_presence ? 2 : 1;
}

static void take_answer(kilni_redis_value *values, kilni_remote_question *question)
{
    if (question->only_presence) {
        take_presence(values, question);
    } else if (question->head_size > 0) {
        take_head(values, question);
    } else {
        take_whole(values, question);
    }
}

/* Returns KILN_OK if the reply to each command is a single value. */
static kiln_status check_count(const kilni_redis_exchange *exchange)
{
    return exchange->value_count == exchange->command_count ? KILN_OK : KILN_E_IO;
}

static kiln_status ask_one(kilni_remote *remote, kilni_remote_question *question,
                           uint64_t deadline_ns)
{
    kilni_redis_exchange *exchange = NULL;
    question->status = kilni_redis_client_prepare(remote->client, KILNI_REDIS_LANE_LOOKUPS,
                                                  slot_of(question->name), question->max_bytes,
                                                  deadline_ns, &exchange);
    if (question->status == KILN_OK) {
        question->status = add_question(exchange, question);
    }
    if (question->status == KILN_OK) {
        question->status = kilni_redis_client_ask(remote->client, exchange);
    }
    if (question->status == KILN_OK) {
        question->status = check_count(exchange);
    }
    if (question->status == KILN_OK) {
        take_answer(exchange->values, question);
    }
    release(exchange);
    return question->status;
}

/* The questions that go to one node of a cluster. A single server is one node. */
typedef struct node_part {
    unsigned node; /* the number of the node */
    unsigned slot; /* of the first question */
    size_t count;
    uint64_t max_bytes;
    kilni_redis_exchange *exchange;
    size_t taken; /* how many values have been used */
    kiln_status status;
} node_part;

typedef struct node_batch {
    node_part *parts;
    size_t part_count;
    size_t *part_of; /* the index of the part that has each question */
} node_batch;

/* Adds a question to the part for its node, and returns the index of this part. */
static size_t add_to_part(kilni_remote *remote, node_batch *batch,
                          const kilni_remote_question *question)
{
    const unsigned slot = slot_of(question->name);
    const unsigned node = kilni_redis_client_node_of(remote->client, slot);
    size_t i = 0;
    while (i < batch->part_count && batch->parts[i].node != node) {
        i++;
    }
    if (i == batch->part_count) {
        batch->parts[batch->part_count++] = (node_part){.node = node, .slot = slot};
    }
    batch->parts[i].count++;
    batch->parts[i].max_bytes += question->max_bytes;
    return i;
}

/* Makes the exchange of each part, without commands. An exchange with one question is redirected
 * like that of a single look-up. */
static void prepare_parts(kilni_remote *remote, node_batch *batch, uint64_t deadline_ns)
{
    for (size_t i = 0; i < batch->part_count; i++) {
        node_part *part = &batch->parts[i];
        part->status =
            kilni_redis_client_prepare(remote->client, KILNI_REDIS_LANE_LOOKUPS, part->slot,
                                       part->max_bytes, deadline_ns, &part->exchange);
        if (part->status == KILN_OK) {
            part->exchange->has_many_names = part->count > 1;
        }
    }
}

/* Sends each node its questions, and then waits for the answers of all nodes. */
static void ask_nodes(kilni_remote *remote, node_batch *batch)
{
    for (size_t i = 0; i < batch->part_count; i++) {
        node_part *part = &batch->parts[i];
        if (part->status == KILN_OK) {
            part->status = kilni_redis_client_start(remote->client, part->exchange);
        }
    }
    for (size_t i = 0; i < batch->part_count; i++) {
        node_part *part = &batch->parts[i];
        if (part->status == KILN_OK) {
            part->status = kilni_redis_client_wait(part->exchange);
        }
        if (part->status == KILN_OK) {
            part->status = check_count(part->exchange);
        }
    }
}

static bool is_elsewhere(const kilni_redis_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kilni_redis_value_is_error(&values[i], "MOVED") ||
            kilni_redis_value_is_error(&values[i], "ASK")) {
            return true;
        }
    }
    return false;
}

/* Takes the answer to one question. If the name is on a different node, asks that node. */
static void take_part(kilni_remote *remote, node_part *part, kilni_remote_question *question,
                      uint64_t deadline_ns)
{
    const size_t count = count_replies(question);
    question->status = part->status;
    if (part->status != KILN_OK) {
        return;
    }
    kilni_redis_value *values = part->exchange->values + part->taken;
    part->taken += count;
    if (is_elsewhere(values, count)) {
        ask_one(remote, question, deadline_ns);
    } else {
        take_answer(values, question);
    }
}

static void ask_parts(kilni_remote *remote, node_batch *batch, kilni_remote_question *questions,
                      size_t count, uint64_t deadline_ns)
{
    for (size_t i = 0; i < count; i++) {
        batch->part_of[i] = add_to_part(remote, batch, &questions[i]);
    }
    prepare_parts(remote, batch, deadline_ns);
    for (size_t i = 0; i < count; i++) {
        node_part *part = &batch->parts[batch->part_of[i]];
        if (part->status == KILN_OK) {
            part->status = add_question(part->exchange, &questions[i]);
        }
    }
    ask_nodes(remote, batch);
    for (size_t i = 0; i < count; i++) {
        take_part(remote, &batch->parts[batch->part_of[i]], &questions[i], deadline_ns);
    }
    for (size_t i = 0; i < batch->part_count; i++) {
        release(batch->parts[i].exchange);
    }
}

static void ask_together(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                         uint64_t deadline_ns)
{
    node_batch batch = {.parts = calloc(count, sizeof *batch.parts),
                        .part_of = calloc(count, sizeof *batch.part_of)};
    if (batch.parts && batch.part_of) {
        ask_parts(remote, &batch, questions, count, deadline_ns);
    } else {
        for (size_t i = 0; i < count; i++) {
            questions[i].status = KILN_E_NO_MEMORY;
        }
    }
    free(batch.parts);
    free(batch.part_of);
}

/* The questions can only be divided among the nodes of a cluster once it is known which node has
 * which slot. The first question alone finds this out. */
static void redis_ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                           uint64_t deadline_ns)
{
    const size_t alone = kilni_redis_client_needs_map(remote->client) ? 1 : 0;
    if (alone > 0) {
        ask_one(remote, &questions[0], deadline_ns);
    }
    if (count > alone) {
        ask_together(remote, questions + alone, count - alone, deadline_ns);
    }
}

static kiln_status redis_get(kilni_remote *remote, const char *name, uint64_t max_bytes,
                             uint64_t deadline_ns, kilni_remote_bytes *ret_bytes)
{
    kilni_remote_question question = {.name = name, .max_bytes = max_bytes};
    const kiln_status status = ask_one(remote, &question, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
    }
    return status;
}

static kiln_status redis_get_head(kilni_remote *remote, const char *name, size_t size,
                                  uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                                  uint64_t *ret_whole_size)
{
    kilni_remote_question question = {
        .name = name, .head_size = size, .max_bytes = SMALL_REPLY_BYTES + size};
    const kiln_status status = ask_one(remote, &question, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
        *ret_whole_size = question.whole_size;
    }
    return status;
}

static kiln_status redis_contains(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    kilni_remote_question question = {
        .name = name, .only_presence = true, .max_bytes = SMALL_REPLY_BYTES};
    return ask_one(remote, &question, deadline_ns);
}

/* How far a listing has come. The nodes of a cluster are visited in the order of their lowest
 * slots. So a replica that takes over a node's slots also takes that node's place in the order. */
typedef struct scan_position {
    unsigned slot;   /* the lowest slot of the node that is being listed */
    unsigned node;   /* the number of this node; 0: none is being listed yet */
    char cursor[24]; /* the cursor of SCAN on that node */
} scan_position;

/* Reads a cursor. If a different node now has the slot, such as a replica that has taken over, the
 * listing of that node begins anew. */
static scan_position read_position(const kilni_remote *remote, const char *cursor)
{
    scan_position position = {.cursor = "0"};
    if (sscanf(cursor, "%u %u %23s", &position.slot, &position.node, position.cursor) != 3 ||
        position.slot >= KILNI_REDIS_SLOTS) {
        position = (scan_position){.cursor = "0"};
    }
    const unsigned node = kilni_redis_client_node_of(remote->client, position.slot);
    if (position.node != node) {
        snprintf(position.cursor, sizeof position.cursor, "0");
    }
    return position;
}

/* Writes the cursor for the next page.
 *
 * @next  the cursor from SCAN; 0 after the last names */
static void write_position(const kilni_remote *remote, unsigned slot, uint64_t next,
                           char cursor[KILNI_REMOTE_CURSOR_SIZE])
{
    cursor[0] = '\0';
    if (next != 0) {
        const unsigned node = kilni_redis_client_node_of(remote->client, slot);
        snprintf(cursor, KILNI_REMOTE_CURSOR_SIZE, "%u %u %" PRIu64, slot, node, next);
        return;
    }
    const unsigned next_slot = kilni_redis_client_next_node(remote->client, slot);
    if (next_slot < KILNI_REDIS_SLOTS) {
        snprintf(cursor, KILNI_REMOTE_CURSOR_SIZE, "%u 0 0", next_slot);
    }
}

/* Visits the names in the reply to SCAN. The reply is a list with two elements: the next cursor,
 * and a list of names. */
static kiln_status visit_page(const kilni_redis_exchange *exchange, kilni_remote_visit_fn *visit,
                              void *user, uint64_t *ret_next)
{
    const kilni_redis_value *values = exchange->values;
    const size_t count = exchange->value_count;
    if (count == 1 && values[0].kind == KILNI_RESP_ERROR) {
        return status_of_failure(&values[0]);
    }
    if (count < 3 || values[0].kind != KILNI_RESP_LIST || values[0].size != 2 ||
        values[1].kind != KILNI_RESP_BLOB || values[2].kind != KILNI_RESP_LIST ||
        values[2].size != count - 3) {
        return KILN_E_IO;
    }
    for (size_t i = 3; i < count; i++) {
        if (values[i].kind == KILNI_RESP_BLOB) {
            visit(user, (const char *)values[i].data, values[i].size);
        }
    }
    *ret_next = strtoull((const char *)values[1].data, NULL, 10);
    return KILN_OK;
}

static kiln_status redis_list(kilni_remote *remote, const char *prefix,
                              char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                              kilni_remote_visit_fn *visit, void *user)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "%s*", prefix);
    const scan_position position = read_position(remote, cursor);
    const kilni_resp_argument command[] = {ARGUMENT("SCAN"),  argument_of(position.cursor),
                                           ARGUMENT("MATCH"), argument_of(pattern),
                                           ARGUMENT("COUNT"), ARGUMENT("500")};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = KILNI_REDIS_LANE_LOOKUPS,
                                     .slot = position.slot,
                                     .max_bytes = PAGE_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = 6};
    uint64_t next = 0;
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = visit_page(exchange, visit, user, &next);
    }
    if (status == KILN_OK) {
        write_position(remote, position.slot, next, cursor);
    }
    release(exchange);
    return status;
}

/* ---- writing ---- */

/* Reads "maxmemory:NUMBER" from the reply to INFO. Returns the number; 0: there is no limit. */
static uint64_t max_memory_in(const char *info)
{
    const char *line = strstr(info, "\nmaxmemory:");
    return line ? strtoull(line + strlen("\nmaxmemory:"), NULL, 10) : 0;
}

/* Returns the largest size of a value. Kiln assumes that a server has no limit on its memory if it
 * does not report one, and that all nodes of a cluster have the same limit. */
static uint64_t max_value_of(kilni_remote *remote, unsigned slot, uint64_t deadline_ns)
{
    uint64_t max_value = atomic_load_explicit(&remote->max_value, memory_order_relaxed);
    if (max_value > 0) {
        return max_value;
    }
    static const kilni_resp_kind kinds[] = {KILNI_RESP_BLOB};
    const kilni_resp_argument command[] = {ARGUMENT("INFO"), ARGUMENT("memory")};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = KILNI_REDIS_LANE_PUTS,
                                     .slot = slot,
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = 2};
    max_value = UINT64_MAX;
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(exchange, kinds, 1);
        if (status == KILN_OK && exchange->values[0].kind == KILNI_RESP_BLOB) {
            const uint64_t memory = max_memory_in((const char *)exchange->values[0].data);
            max_value = memory > 0 ? memory / LARGEST_SHARE : UINT64_MAX;
        }
        atomic_store_explicit(&remote->max_value, max_value, memory_order_relaxed);
    }
    release(exchange);
    return max_value;
}

typedef struct put_order {
    const char *name;
    const void *data;
    size_t size;
    uint64_t expire_ms;
    bool is_new; /* do nothing if the name has a value */
} put_order;

/* Puts a value. The server answers with NIL if it does nothing because the name already has a
 * value. */
static kiln_status put(kilni_remote *remote, const put_order *order, uint64_t deadline_ns)
{
    static const kilni_resp_kind kinds[] = {KILNI_RESP_TEXT};
    const unsigned slot = slot_of(order->name);
    if (order->size > max_value_of(remote, slot, deadline_ns)) {
        return KILN_E_TOO_LARGE;
    }
    char expire[24];
    snprintf(expire, sizeof expire, "%" PRIu64, order->expire_ms);
    kilni_resp_argument command[6] = {
        ARGUMENT("SET"), argument_of(order->name), {order->data, order->size}};
    size_t count = 3;
    if (order->expire_ms > 0) {
        command[count++] = ARGUMENT("PX");
        command[count++] = argument_of(expire);
    }
    if (order->is_new) {
        command[count++] = ARGUMENT("NX");
    }
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = KILNI_REDIS_LANE_PUTS,
                                     .slot = slot,
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = count};
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(exchange, kinds, 1);
    }
    if (status == KILN_OK && exchange->values[0].kind == KILNI_RESP_NIL) {
        status = KILN_EXISTS;
    }
    release(exchange);
    return status;
}

static kiln_status redis_put(kilni_remote *remote, const char *name, const void *data, size_t size,
                             uint64_t expire_ms, uint64_t deadline_ns)
{
    const put_order order = {.name = name, .data = data, .size = size, .expire_ms = expire_ms};
    return put(remote, &order, deadline_ns);
}

static kiln_status redis_put_new(kilni_remote *remote, const char *name, const void *data,
                                 size_t size, uint64_t expire_ms, uint64_t deadline_ns)
{
    const put_order order = {
        .name = name, .data = data, .size = size, .expire_ms = expire_ms, .is_new = true};
    return put(remote, &order, deadline_ns);
}

/* GT keeps the expiry time of a value if that time is later, or if the value has no such time.
 * Servers before Redis 7.0 do not know GT. */
static kiln_status redis_keep(kilni_remote *remote, const char *name, uint64_t expire_ms,
                              uint64_t deadline_ns)
{
    char expire[24];
    snprintf(expire, sizeof expire, "%" PRIu64, expire_ms);
    const kilni_resp_argument command[] = {ARGUMENT("PEXPIRE"), argument_of(name),
                                           argument_of(expire), ARGUMENT("GT")};
    int64_t is_longer;
    return ask_number(remote, KILNI_REDIS_LANE_PUTS, name, command, 4, deadline_ns, &is_longer);
}

static kiln_status redis_remove(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    const kilni_resp_argument command[] = {ARGUMENT("UNLINK"), argument_of(name)};
    int64_t count = 0;
    const kiln_status status =
        ask_number(remote, KILNI_REDIS_LANE_PUTS, name, command, 2, deadline_ns, &count);
    return status == KILN_OK && count == 0 ? KILN_MISS : status;
}

/* The first command makes room, so that the second one succeeds even if the server is full. */
static const char move_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "redis.call('UNLINK', KEYS[1]) redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) return 1";

static kiln_status redis_move(kilni_remote *remote, const char *name, const char *new_name,
                              kilni_remote_bytes value, uint64_t expire_ms, uint64_t deadline_ns)
{
    char expire[24];
    snprintf(expire, sizeof expire, "%" PRIu64, expire_ms);
    const kilni_resp_argument command[] = {
        ARGUMENT("EVAL"),      ARGUMENT(move_script),    ARGUMENT("2"),      argument_of(name),
        argument_of(new_name), {value.data, value.size}, argument_of(expire)};
    int64_t is_moved = 0;
    const kiln_status status =
        ask_number(remote, KILNI_REDIS_LANE_PUTS, name, command, 7, deadline_ns, &is_moved);
    return status == KILN_OK && is_moved != 1 ? KILN_MISS : status;
}

/* A lease costs one round trip, so it is worthwhile for every build. A process that has waited
 * needs only one request to take the lease and to learn whether the server has the value. */
static kiln_status redis_lease(kilni_remote *remote, const char *name, uint64_t build_ns,
                               bool has_waited, uint64_t deadline_ns,
                               kilni_remote_lease **ret_lease)
{
    (void)build_ns, (void)has_waited;
    return kilni_redis_lease_take(remote->client, name, deadline_ns, ret_lease);
}

static kilni_server_fault redis_fault(const kilni_remote *remote)
{
    return kilni_redis_client_fault(remote->client);
}

static bool redis_is_away(kilni_remote *remote, kilni_server_state *ret_state)
{
    return kilni_redis_client_is_away(remote->client, ret_state);
}

/* ---- opening ---- */

static kiln_status check_password(const char *path, kiln_error *error)
{
    char password[KILNI_SECRET_SIZE];
    const kiln_status status =
        path ? kilni_secret_file_read_line(path, "password file", password, error) : KILN_OK;
    explicit_bzero(password, sizeof password);
    return status;
}

static kiln_status redis_open(const kilni_remote_server *server, kilni_remote **ret_remote,
                              kiln_error *error)
{
    kiln_status status = check_password(server->password_file, error);
    if (status == KILN_OK && server->is_encrypted) {
        const kilni_tls_settings settings = kilni_redis_tls_of(server);
        status = kilni_tls_check(&settings, error);
    }
    if (status != KILN_OK) {
        return status;
    }
    kilni_remote *remote = calloc(1, sizeof *remote);
    if (!remote || kilni_redis_client_new(server, &remote->client) != KILN_OK) {
        free(remote);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    *ret_remote = remote;
    return KILN_OK;
}

static void redis_close(kilni_remote *remote)
{
    kilni_redis_client_close(remote->client);
    free(remote);
}

KILN_API extern const kilni_connector kiln_remote_connector;

const kilni_connector kiln_remote_connector = {
    .version = KILNI_CONNECTOR_VERSION,
    .open = redis_open,
    .close = redis_close,
    .limit_calls = kilni_call_limit_thread,
    .get = redis_get,
    .get_head = redis_get_head,
    .ask_many = redis_ask_many,
    .contains = redis_contains,
    .put = redis_put,
    .put_new = redis_put_new,
    .keep = redis_keep,
    .remove = redis_remove,
    .move = redis_move,
    .list = redis_list,
    .lease = redis_lease,
    .lease_pause_ns = UINT64_C(200000000),
    .lease_is_of_miss = kilni_redis_lease_is_of_miss,
    .lease_release = kilni_redis_lease_release,
    .fault = redis_fault,
    .is_away = redis_is_away,
};
