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
    /* Whether the server can be asked about values without recording that as a use. Only a hint, so
     * accesses are relaxed. */
    _Atomic int quietness;
};

enum { QUIET_UNTRIED, QUIET_KNOWN, QUIET_UNKNOWN };

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
    {"NOPERM", KILN_E_DENIED},
    {"NOAUTH", KILN_E_DENIED},
    {"WRONGPASS", KILN_E_DENIED},
    {"DENIED", KILN_E_DENIED},
    {"ERR ACL failure", KILN_E_DENIED},            /* of a command in a script */
    {"ERR The user executing the", KILN_E_DENIED}, /* the same, before Redis 7.2 */
    {"OOM", KILN_E_FULL},
    {"READONLY", KILN_E_READONLY},
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

/* Adds the commands of a question about a value's use, and then those that ask for its head. Only a
 * server that is quiet is asked when the value was last used, because otherwise this question would
 * itself be that use. */
static kiln_status add_question_about_use(kilni_redis_exchange *exchange,
                                          const kilni_remote_question *question, bool is_quiet)
{
    const kilni_resp_argument name = argument_of(question->name);
    const kilni_resp_argument left[] = {ARGUMENT("PTTL"), name};
    const kilni_resp_argument idle[] = {ARGUMENT("OBJECT"), ARGUMENT("IDLETIME"), name};
    const kilni_resp_argument end[] = {ARGUMENT("GETRANGE"), name, ARGUMENT("-8"), ARGUMENT("-1")};
    kiln_status status = kilni_redis_exchange_add(exchange, left, 2);
    if (status == KILN_OK && is_quiet) {
        status = kilni_redis_exchange_add(exchange, idle, 3);
    }
    if (status == KILN_OK) {
        status = kilni_redis_exchange_add(exchange, end, 4);
    }
    return status == KILN_OK ? add_question(exchange, question) : status;
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

/* Takes the replies to a question about a value's use. A server that evicts the values that are
 * used least often does not know when each was last used. */
static void take_answer_about_use(kilni_redis_value *values, kilni_remote_question *question,
                                  bool is_quiet)
{
    const kilni_redis_value *left = values++;
    if (left->kind == KILNI_RESP_INTEGER && left->integer >= 0) {
        question->left_s = (uint64_t)left->integer / 1000;
    }
    const kilni_redis_value *idle = is_quiet ? values++ : NULL;
    if (idle && idle->kind == KILNI_RESP_INTEGER && idle->integer >= 0) {
        question->unused_s = (uint64_t)idle->integer;
    }
    const kilni_redis_value *end = values++;
    take_head(values, question);
    if (question->status == KILN_OK && end->kind == KILNI_RESP_BLOB) {
        memcpy(question->end, end->data,
               end->size < sizeof question->end ? end->size : sizeof question->end);
    }
}

/* Returns KILN_OK if the reply to each command is a single value. */
static kiln_status check_count(const kilni_redis_exchange *exchange)
{
    return exchange->value_count == exchange->command_count ? KILN_OK : KILN_E_IO;
}

/* Asks for the value or its head, but not about its use. */
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

/* The commands of a batch that go to one node of a cluster. A single server is one node. */
typedef struct node_part {
    unsigned node; /* the number of the node */
    unsigned slot; /* of the first name */
    size_t count;
    uint64_t max_bytes;
    kilni_redis_exchange *exchange;
    size_t taken; /* how many values have been used */
    kiln_status status;
} node_part;

typedef struct node_batch {
    unsigned lane;
    uint64_t deadline_ns;
    bool is_quiet; /* its commands are not recorded as uses */
    node_part *parts;
    size_t part_count;
    size_t *part_of; /* the index of the part that has each name */
} node_batch;

static const kilni_resp_argument begin_quiet[] = {ARGUMENT("CLIENT"), ARGUMENT("NO-TOUCH"),
                                                  ARGUMENT("ON")};
static const kilni_resp_argument end_quiet[] = {ARGUMENT("CLIENT"), ARGUMENT("NO-TOUCH"),
                                                ARGUMENT("OFF")};

/* Allocates what a batch needs. Returns KILN_OK; KILN_E_NO_MEMORY. */
static kiln_status begin_batch(node_batch *batch, size_t count)
{
    batch->parts = calloc(count, sizeof *batch->parts);
    batch->part_of = calloc(count, sizeof *batch->part_of);
    return batch->parts && batch->part_of ? KILN_OK : KILN_E_NO_MEMORY;
}

static void end_batch(node_batch *batch)
{
    for (size_t i = 0; i < batch->part_count; i++) {
        release(batch->parts[i].exchange);
    }
    free(batch->parts);
    free(batch->part_of);
}

/* Adds a name to the part for its node, and returns the index of this part.
 *
 * @max_bytes  the room for the answer */
static size_t add_to_part(kilni_remote *remote, node_batch *batch, const char *name,
                          uint64_t max_bytes)
{
    const unsigned slot = slot_of(name);
    const unsigned node = kilni_redis_client_node_of(remote->client, slot);
    size_t i = 0;
    while (i < batch->part_count && batch->parts[i].node != node) {
        i++;
    }
    if (i == batch->part_count) {
        batch->parts[batch->part_count++] = (node_part){.node = node, .slot = slot};
    }
    batch->parts[i].count++;
    batch->parts[i].max_bytes += max_bytes;
    return i;
}

/* Makes the exchange of each part, without commands. */
static void prepare_parts(kilni_remote *remote, node_batch *batch)
{
    for (size_t i = 0; i < batch->part_count; i++) {
        node_part *part = &batch->parts[i];
        part->status =
            kilni_redis_client_prepare(remote->client, batch->lane, part->slot, part->max_bytes,
                                       batch->deadline_ns, &part->exchange);
        if (part->status == KILN_OK && batch->is_quiet) {
            part->status = kilni_redis_exchange_add(part->exchange, begin_quiet, 3);
            part->taken = 1;
        }
    }
}

/* Sends each node its commands, and then waits for the answers of all nodes. If a part has only the
 * commands of a single look-up, it is redirected like one. */
static void ask_nodes(kilni_remote *remote, node_batch *batch)
{
    for (size_t i = 0; i < batch->part_count; i++) {
        node_part *part = &batch->parts[i];
        if (part->status == KILN_OK && batch->is_quiet) {
            part->status = kilni_redis_exchange_add(part->exchange, end_quiet, 3);
        }
        if (part->status == KILN_OK) {
            part->exchange->stays =
                part->count > 1 || part->exchange->command_count > KILNI_REDIS_REDIRECTED_COMMANDS;
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

/* Takes the answer to one question. If the name is on a different node, asks that node. A value
 * that moves to a different node counts as used, since nothing else is known about its use. */
static void take_part(kilni_remote *remote, const node_batch *batch, node_part *part,
                      kilni_remote_question *question)
{
    const size_t about_use = question->is_about_use ? 2u + batch->is_quiet : 0;
    const size_t count = about_use + count_replies(question);
    question->status = part->status;
    if (part->status != KILN_OK) {
        return;
    }
    kilni_redis_value *values = part->exchange->values + part->taken;
    part->taken += count;
    if (is_elsewhere(values, count)) {
        ask_one(remote, question, batch->deadline_ns);
        question->unused_s = 0;
    } else if (question->is_about_use) {
        take_answer_about_use(values, question, batch->is_quiet);
    } else {
        take_answer(values, question);
    }
}

static void ask_parts(kilni_remote *remote, node_batch *batch, kilni_remote_question *questions,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        batch->part_of[i] = add_to_part(remote, batch, questions[i].name, questions[i].max_bytes);
    }
    prepare_parts(remote, batch);
    for (size_t i = 0; i < count; i++) {
        const kilni_remote_question *question = &questions[i];
        node_part *part = &batch->parts[batch->part_of[i]];
        if (part->status == KILN_OK) {
            part->status = question->is_about_use
                               ? add_question_about_use(part->exchange, question, batch->is_quiet)
                               : add_question(part->exchange, question);
        }
    }
    ask_nodes(remote, batch);
    for (size_t i = 0; i < count; i++) {
        take_part(remote, batch, &batch->parts[batch->part_of[i]], &questions[i]);
    }
}

static void ask_together(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                         bool is_quiet, uint64_t deadline_ns)
{
    node_batch batch = {
        .lane = KILNI_REDIS_LANE_LOOKUPS, .deadline_ns = deadline_ns, .is_quiet = is_quiet};
    if (begin_batch(&batch, count) == KILN_OK) {
        ask_parts(remote, &batch, questions, count);
    } else {
        for (size_t i = 0; i < count; i++) {
            questions[i].status = KILN_E_NO_MEMORY;
        }
    }
    end_batch(&batch);
}

/* Returns true if the server knows CLIENT NO-TOUCH (Redis 7.2, Valkey), and the user may use it. */
static bool is_quiet(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    int quietness = atomic_load_explicit(&remote->quietness, memory_order_relaxed);
    if (quietness == QUIET_UNTRIED) {
        kilni_redis_exchange *exchange;
        const redis_question question = {.lane = KILNI_REDIS_LANE_LOOKUPS,
                                         .slot = slot_of(name),
                                         .max_bytes = SMALL_REPLY_BYTES,
                                         .deadline_ns = deadline_ns,
                                         .command = end_quiet,
                                         .count = 3};
        const kiln_status status = ask(remote, &question, &exchange);
        if (status == KILN_OK) {
            const bool is_known =
                exchange->value_count == 1 && exchange->values[0].kind == KILNI_RESP_TEXT;
            quietness = is_known ? QUIET_KNOWN : QUIET_UNKNOWN;
            atomic_store_explicit(&remote->quietness, quietness, memory_order_relaxed);
        }
        release(exchange);
    }
    return quietness == QUIET_KNOWN;
}

/* The questions can only be divided among the nodes of a cluster once it is known which node has
 * which slot. The first question alone finds this out; its value then counts as used. */
static void redis_ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                           uint64_t deadline_ns)
{
    for (size_t i = 0; i < count; i++) {
        questions[i].unused_s = UINT64_MAX;
        questions[i].left_s = UINT64_MAX;
    }
    const bool quietly =
        questions[0].is_about_use && is_quiet(remote, questions[0].name, deadline_ns);
    const size_t alone = kilni_redis_client_needs_map(remote->client) ? 1 : 0;
    if (alone > 0) {
        ask_one(remote, &questions[0], deadline_ns);
        questions[0].unused_s = 0;
    }
    if (count > alone) {
        ask_together(remote, questions + alone, count - alone, quietly, deadline_ns);
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
            visit(user, &(kilni_remote_listed){.name = (const char *)values[i].data,
                                               .name_size = values[i].size});
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

static const char removal_script[] =
    "if redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[1]) or "
    "redis.call('GETRANGE', KEYS[1], -8, -1) ~= ARGV[2] then return 0 end "
    "return redis.call('UNLINK', KEYS[1])";

static kiln_status add_removal(kilni_redis_exchange *exchange, const kilni_remote_judged *value)
{
    char size[24];
    snprintf(size, sizeof size, "%" PRIu64, value->size);
    const kilni_resp_argument end = {
        value->end, value->size < sizeof value->end ? (size_t)value->size : sizeof value->end};
    const kilni_resp_argument command[] = {ARGUMENT("EVAL"),  ARGUMENT(removal_script),
                                           ARGUMENT("1"),     argument_of(value->name),
                                           argument_of(size), end};
    return kilni_redis_exchange_add(exchange, command, 6);
}

static kiln_status status_of_removal(const kilni_redis_value *value)
{
    const kiln_status status = status_of_value(value, KILNI_RESP_INTEGER);
    return status == KILN_OK && value->integer != 1 ? KILN_MISS : status;
}

/* Removes a value of a slot that has moved. */
static kiln_status remove_elsewhere(kilni_remote *remote, const kilni_remote_judged *value,
                                    uint64_t deadline_ns)
{
    kilni_redis_exchange *exchange = NULL;
    kiln_status status =
        kilni_redis_client_prepare(remote->client, KILNI_REDIS_LANE_PUTS, slot_of(value->name),
                                   SMALL_REPLY_BYTES, deadline_ns, &exchange);
    if (status == KILN_OK) {
        status = add_removal(exchange, value);
    }
    if (status == KILN_OK) {
        status = kilni_redis_client_ask(remote->client, exchange);
    }
    if (status == KILN_OK) {
        status = exchange->value_count == 1 ? status_of_removal(&exchange->values[0]) : KILN_E_IO;
    }
    release(exchange);
    return status;
}

static void take_removal(kilni_remote *remote, const node_batch *batch, node_part *part,
                         kilni_remote_judged *value)
{
    value->status = part->status;
    if (part->status != KILN_OK) {
        return;
    }
    const kilni_redis_value *reply = &part->exchange->values[part->taken++];
    value->status = is_elsewhere(reply, 1) ? remove_elsewhere(remote, value, batch->deadline_ns)
                                           : status_of_removal(reply);
}

/* Returns KILN_OK if at least one node has answered. */
static kiln_status any_answer(const node_batch *batch)
{
    kiln_status status = batch->parts[0].status;
    for (size_t i = 0; i < batch->part_count; i++) {
        status = batch->parts[i].status == KILN_OK ? KILN_OK : status;
    }
    return status;
}

static kiln_status remove_from_nodes(kilni_remote *remote, node_batch *batch,
                                     kilni_remote_judged *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        batch->part_of[i] = add_to_part(remote, batch, values[i].name, SMALL_REPLY_BYTES);
    }
    prepare_parts(remote, batch);
    for (size_t i = 0; i < count; i++) {
        node_part *part = &batch->parts[batch->part_of[i]];
        if (part->status == KILN_OK) {
            part->status = add_removal(part->exchange, &values[i]);
        }
    }
    ask_nodes(remote, batch);
    for (size_t i = 0; i < count; i++) {
        take_removal(remote, batch, &batch->parts[batch->part_of[i]], &values[i]);
    }
    return any_answer(batch);
}

static kiln_status redis_remove_judged(kilni_remote *remote, kilni_remote_judged *values,
                                       size_t count, uint64_t deadline_ns)
{
    node_batch batch = {.lane = KILNI_REDIS_LANE_PUTS, .deadline_ns = deadline_ns};
    kiln_status status = begin_batch(&batch, count);
    if (status == KILN_OK) {
        status = remove_from_nodes(remote, &batch, values, count);
    }
    end_batch(&batch);
    return status;
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
    .knows_uses = true,
    .contains = redis_contains,
    .put = redis_put,
    .put_new = redis_put_new,
    .keep = redis_keep,
    .remove = redis_remove,
    .remove_judged = redis_remove_judged,
    .move = redis_move,
    .list = redis_list,
    .lease = redis_lease,
    .lease_pause_ns = UINT64_C(200000000),
    .lease_is_of_miss = kilni_redis_lease_is_of_miss,
    .lease_release = kilni_redis_lease_release,
    .fault = redis_fault,
    .is_away = redis_is_away,
};
