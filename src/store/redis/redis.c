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
#include "store/remote/connector.h"

#define NS_PER_S UINT64_C(1000000000)
#define SMALL_REPLY_BYTES 65536u
#define PAGE_BYTES (UINT64_C(8) << 20) /* the most bytes of names in the reply to one SCAN */

/* How long a server is not contacted after it reported that it cannot answer now. */
#define REST_NS NS_PER_S

/* A value may take at most the server's memory divided by this. A value that fills the memory would
 * make the server evict all others. */
#define LARGEST_SHARE 16u

struct kilni_remote {
    kilni_redis_client *client;
    /* The largest size of a value; 0: the server has not been asked yet. Only a hint; relaxed. */
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
    bool is_passing; /* the server cannot answer now */
} failures[] = {
    {"NOPERM", KILN_E_DENIED, false},     {"NOAUTH", KILN_E_DENIED, false},
    {"WRONGPASS", KILN_E_DENIED, false},  {"DENIED", KILN_E_DENIED, false},
    {"READONLY", KILN_E_READONLY, false}, {"OOM", KILN_E_FULL, false},
    {"WRONGTYPE", KILN_MISS, false}, /* the value is not one of Kiln's */
    {"LOADING", KILN_E_IO, true},         {"BUSY", KILN_E_IO, true},
    {"MASTERDOWN", KILN_E_IO, true},      {"CLUSTERDOWN", KILN_E_IO, true},
};

static kiln_status status_of_failure(kilni_remote *remote, const kilni_redis_value *value)
{
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        const size_t length = strlen(failures[i].word);
        if (strncmp((const char *)value->data, failures[i].word, length) == 0 &&
            (value->data[length] == ' ' || value->data[length] == '\0')) {
            if (failures[i].is_passing) {
                kilni_redis_client_rest(remote->client, REST_NS);
            }
            return failures[i].status;
        }
    }
    return KILN_E_IO;
}

/* Checks that the replies of an exchange are values of these kinds. NIL is allowed for any kind.
 * Returns KILN_OK; the status for an error reply; KILN_E_IO: a reply is of a different kind. */
static kiln_status expect(kilni_remote *remote, const kilni_redis_exchange *exchange,
                          const kilni_resp_kind *kinds, size_t count)
{
    for (size_t i = 0; i < exchange->value_count; i++) {
        if (exchange->values[i].kind == KILNI_RESP_ERROR) {
            return status_of_failure(remote, &exchange->values[i]);
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
    unsigned lane;
    uint64_t max_bytes, deadline_ns;
    const kilni_resp_argument *command;
    size_t count;
} redis_question;

/* Sends a request and waits for the replies. Sets @ret_exchange even on failure; it may then be
 * NULL. The caller must release the exchange. */
static kiln_status ask(kilni_remote *remote, const redis_question *question,
                       kilni_redis_exchange **ret_exchange)
{
    kilni_redis_exchange *exchange = NULL;
    kiln_status status = kilni_redis_client_prepare(
        remote->client, question->lane, question->max_bytes, question->deadline_ns, &exchange);
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
    *ret_bytes = (kilni_remote_bytes){.data = value->data, .size = value->size};
    value->data = NULL;
}

/* Sends one command, whose reply is a number. */
static kiln_status ask_number(kilni_remote *remote, unsigned lane,
                              const kilni_resp_argument *command, size_t count,
                              uint64_t deadline_ns, int64_t *ret_number)
{
    static const kilni_resp_kind kinds[] = {KILNI_RESP_INTEGER};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = lane,
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = count};
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(remote, exchange, kinds, 1);
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
    const kilni_resp_argument get[] = {ARGUMENT("GET"), name};
    if (question->head_size == 0) {
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

static kiln_status status_of_value(kilni_remote *remote, const kilni_redis_value *value,
                                   kilni_resp_kind kind)
{
    if (value->kind == KILNI_RESP_ERROR) {
        return status_of_failure(remote, value);
    }
    return value->kind == KILNI_RESP_NIL ? KILN_MISS : value->kind == kind ? KILN_OK : KILN_E_IO;
}

/* Takes the replies to a request for the beginning of a value: its length, and then its bytes. If
 * the value does not exist, the length is 0. */
static void take_head(kilni_remote *remote, kilni_redis_value values[2],
                      kilni_remote_question *question)
{
    question->status = status_of_value(remote, &values[0], KILNI_RESP_INTEGER);
    if (question->status == KILN_OK) {
        question->status = status_of_value(remote, &values[1], KILNI_RESP_BLOB);
    }
    if (question->status == KILN_OK && values[0].integer <= 0) {
        question->status = KILN_MISS;
    }
    if (question->status == KILN_OK) {
        question->whole_size = (uint64_t)values[0].integer;
        take_data(&values[1], &question->bytes);
    }
}

static void take_whole(kilni_remote *remote, kilni_redis_value *value,
                       kilni_remote_question *question)
{
    question->status = status_of_value(remote, value, KILNI_RESP_BLOB);
    if (question->status == KILN_OK) {
        question->whole_size = value->size;
        take_data(value, &question->bytes);
    }
}

/* Takes the replies to several requests. The reply to each command must be a single value. Returns
 * KILN_OK; KILN_E_IO: the number of values is wrong. */
static kiln_status take_answers(kilni_remote *remote, kilni_redis_exchange *exchange,
                                kilni_remote_question *questions, size_t count)
{
    kilni_redis_value *value = exchange->values;
    if (exchange->value_count != exchange->command_count) {
        return KILN_E_IO;
    }
    for (size_t i = 0; i < count; i++) {
        if (questions[i].head_size > 0) {
            take_head(remote, value, &questions[i]);
            value += 2;
        } else {
            take_whole(remote, value, &questions[i]);
            value++;
        }
    }
    return KILN_OK;
}

/* @max_bytes also limits small replies, such as errors. */
static kiln_status redis_get_many(kilni_remote *remote, kilni_remote_question *questions,
                                  size_t count, uint64_t max_bytes, uint64_t deadline_ns)
{
    kilni_redis_exchange *exchange = NULL;
    kiln_status status = kilni_redis_client_prepare(remote->client, KILNI_REDIS_LANE_LOOKUPS,
                                                    max_bytes, deadline_ns, &exchange);
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        status = add_question(exchange, &questions[i]);
    }
    if (status == KILN_OK) {
        status = kilni_redis_client_ask(remote->client, exchange);
    }
    if (status == KILN_OK) {
        status = take_answers(remote, exchange, questions, count);
    }
    release(exchange);
    return status;
}

static kiln_status get_one(kilni_remote *remote, kilni_remote_question *question,
                           uint64_t max_bytes, uint64_t deadline_ns)
{
    const kiln_status status = redis_get_many(remote, question, 1, max_bytes, deadline_ns);
    return status == KILN_OK ? question->status : status;
}

static kiln_status redis_get(kilni_remote *remote, const char *name, uint64_t max_bytes,
                             uint64_t deadline_ns, kilni_remote_bytes *ret_bytes)
{
    kilni_remote_question question = {.name = name};
    const kiln_status status = get_one(remote, &question, max_bytes, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
    }
    return status;
}

static kiln_status redis_get_head(kilni_remote *remote, const char *name, size_t size,
                                  uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                                  uint64_t *ret_whole_size)
{
    kilni_remote_question question = {.name = name, .head_size = size};
    const kiln_status status = get_one(remote, &question, SMALL_REPLY_BYTES + size, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
        *ret_whole_size = question.whole_size;
    }
    return status;
}

static kiln_status redis_contains(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    const kilni_resp_argument command[] = {ARGUMENT("EXISTS"), argument_of(name)};
    int64_t count = 0;
    const kiln_status status =
        ask_number(remote, KILNI_REDIS_LANE_LOOKUPS, command, 2, deadline_ns, &count);
    return status == KILN_OK && count == 0 ? KILN_MISS : status;
}

/* Visits the names in the reply to SCAN: a list that consists of the next cursor and a list of
 * names. */
static kiln_status visit_page(kilni_remote *remote, const kilni_redis_exchange *exchange,
                              char cursor[KILNI_REMOTE_CURSOR_SIZE], kilni_remote_visit_fn *visit,
                              void *user)
{
    const kilni_redis_value *values = exchange->values;
    const size_t count = exchange->value_count;
    if (count == 1 && values[0].kind == KILNI_RESP_ERROR) {
        return status_of_failure(remote, &values[0]);
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
    const uint64_t next = strtoull((const char *)values[1].data, NULL, 10);
    cursor[0] = '\0';
    if (next != 0) {
        snprintf(cursor, KILNI_REMOTE_CURSOR_SIZE, "%" PRIu64, next);
    }
    return KILN_OK;
}

static kiln_status redis_list(kilni_remote *remote, const char *prefix,
                              char cursor[KILNI_REMOTE_CURSOR_SIZE], uint64_t deadline_ns,
                              kilni_remote_visit_fn *visit, void *user)
{
    char pattern[128];
    snprintf(pattern, sizeof pattern, "%s*", prefix);
    const kilni_resp_argument command[] = {
        ARGUMENT("SCAN"),  argument_of(cursor[0] != '\0' ? cursor : "0"),
        ARGUMENT("MATCH"), argument_of(pattern),
        ARGUMENT("COUNT"), ARGUMENT("500")};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = KILNI_REDIS_LANE_LOOKUPS,
                                     .max_bytes = PAGE_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = 6};
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = visit_page(remote, exchange, cursor, visit, user);
    }
    release(exchange);
    return status;
}

/* ---- writing ---- */

/* Reads "maxmemory:NUMBER" from the reply to INFO; 0: there is no limit. */
static uint64_t max_memory_in(const char *info)
{
    const char *line = strstr(info, "\nmaxmemory:");
    return line ? strtoull(line + strlen("\nmaxmemory:"), NULL, 10) : 0;
}

/* Returns the largest size of a value. If a server does not report a limit on its memory, Kiln
 * assumes that there is none. */
static uint64_t max_value_of(kilni_remote *remote, uint64_t deadline_ns)
{
    uint64_t max_value = atomic_load_explicit(&remote->max_value, memory_order_relaxed);
    if (max_value > 0) {
        return max_value;
    }
    static const kilni_resp_kind kinds[] = {KILNI_RESP_BLOB};
    const kilni_resp_argument command[] = {ARGUMENT("INFO"), ARGUMENT("memory")};
    kilni_redis_exchange *exchange;
    const redis_question question = {.lane = KILNI_REDIS_LANE_PUTS,
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = 2};
    max_value = UINT64_MAX;
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(remote, exchange, kinds, 1);
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

/* Puts a value. If the server does nothing because the name has a value, it answers with NIL. */
static kiln_status put(kilni_remote *remote, const put_order *order, uint64_t deadline_ns)
{
    static const kilni_resp_kind kinds[] = {KILNI_RESP_TEXT};
    if (order->size > max_value_of(remote, deadline_ns)) {
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
                                     .max_bytes = SMALL_REPLY_BYTES,
                                     .deadline_ns = deadline_ns,
                                     .command = command,
                                     .count = count};
    kiln_status status = ask(remote, &question, &exchange);
    if (status == KILN_OK) {
        status = expect(remote, exchange, kinds, 1);
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

/* GT: the time of a value whose time is longer, or that has no time, stays. Only servers from Redis
 * 7.0 on know it. */
static kiln_status redis_keep(kilni_remote *remote, const char *name, uint64_t expire_ms,
                              uint64_t deadline_ns)
{
    char expire[24];
    snprintf(expire, sizeof expire, "%" PRIu64, expire_ms);
    const kilni_resp_argument command[] = {ARGUMENT("PEXPIRE"), argument_of(name),
                                           argument_of(expire), ARGUMENT("GT")};
    int64_t is_longer;
    return ask_number(remote, KILNI_REDIS_LANE_PUTS, command, 4, deadline_ns, &is_longer);
}

static kiln_status redis_remove(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    const kilni_resp_argument command[] = {ARGUMENT("UNLINK"), argument_of(name)};
    int64_t count = 0;
    const kiln_status status =
        ask_number(remote, KILNI_REDIS_LANE_PUTS, command, 2, deadline_ns, &count);
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
        ask_number(remote, KILNI_REDIS_LANE_PUTS, command, 7, deadline_ns, &is_moved);
    return status == KILN_OK && is_moved != 1 ? KILN_MISS : status;
}

static kiln_status redis_lease(kilni_remote *remote, const char *name, uint64_t deadline_ns,
                               kilni_remote_lease **ret_lease)
{
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
    .get = redis_get,
    .get_head = redis_get_head,
    .get_many = redis_get_many,
    .contains = redis_contains,
    .put = redis_put,
    .put_new = redis_put_new,
    .keep = redis_keep,
    .remove = redis_remove,
    .move = redis_move,
    .list = redis_list,
    .lease = redis_lease,
    .lease_is_of_miss = kilni_redis_lease_is_of_miss,
    .lease_release = kilni_redis_lease_release,
    .fault = redis_fault,
    .is_away = redis_is_away,
};
