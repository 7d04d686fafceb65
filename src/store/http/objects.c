/* SPDX-License-Identifier: Apache-2.0 */
#include "store/http/objects.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "os/clock.h"
#include "store/http/server_copy.h"

#define NS_PER_S UINT64_C(1000000000)

/* How long a server is not contacted after it has reported that it cannot answer now. The first
 * value applies if the server does not report how long. The second value limits the time that the
 * server reports. */
#define REST_S 1u
#define LONGEST_REST_S 60u

/* How long a server is not contacted after it answered 401 to a look-up, and how long no put or
 * removal is sent to a server after it answered 401 or 403 to one. */
#define UNKNOWN_FOR_NS (300 * NS_PER_S)
#define NO_PUTS_FOR_NS (60 * NS_PER_S)

/* ---- what went wrong ---- */

static void rest(kilni_remote *remote, const kilni_http_head *head)
{
    uint32_t seconds = head->retry_after_s > 0 ? head->retry_after_s : REST_S;
    seconds = seconds < LONGEST_REST_S ? seconds : LONGEST_REST_S;
    kilni_http_client_rest(remote->client, seconds * NS_PER_S);
}

/* Redirections are not followed, since a different server would answer. */
kiln_status kilni_http_status_of(kilni_remote *remote, const kilni_http_head *head)
{
    switch (head->status) {
    case 404:
    case 410:
        return KILN_MISS;
    case 401:
        kilni_http_client_rest(remote->client, UNKNOWN_FOR_NS);
        return KILN_E_DENIED;
    case 403:
    case 407:
        return KILN_E_DENIED;
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        rest(remote, head);
        return KILN_E_IO;
    default:
        return head->status == remote->kind->refusal ? KILN_E_DENIED : KILN_E_IO;
    }
}

/* If an HTML page arrives instead of a value, the page comes from something between the server and
 * this machine. */
kiln_status kilni_http_status_of_body(kilni_remote *remote, const kilni_http_request *request)
{
    const kilni_http_head *head = &request->head;
    if (head->status != 200 && head->status != 206) {
        return kilni_http_status_of(remote, head);
    }
    if (head->is_page) {
        rest(remote, head);
        return KILN_E_IO;
    }
    return request->data && !head->is_encoded ? KILN_OK : KILN_E_IO;
}

/* ---- asking ---- */

/* Makes a request, but not its text. */
static kiln_status prepare(kilni_remote *remote, const kilni_http_object *object,
                           kilni_http_request **ret_request)
{
    const kiln_status status =
        kilni_http_client_prepare(remote->client, object->lane, object->deadline_ns, ret_request);
    if (status == KILN_OK) {
        (*ret_request)->asks_head = strcmp(object->method, "HEAD") == 0;
        (*ret_request)->asks_range = object->range > 0;
        (*ret_request)->max_bytes = object->max_bytes;
        (*ret_request)->kept_bytes = object->kept_bytes;
    }
    return status;
}

static void release(kilni_http_request *request)
{
    if (request) {
        kilni_call_release(&request->call);
    }
}

kiln_status kilni_http_append_object(const kilni_http_kind *kind, const kilni_remote_server *server,
                                     const kilni_http_object *object, kilni_text *text)
{
    kilni_text path = {0};
    kilni_http_append_escaped(&path, server->path, true);
    kilni_text_append(&path, "/");
    kilni_http_append_escaped(&path, object->name, true);
    kiln_status status = path.has_failed ? KILN_E_NO_MEMORY : KILN_OK;
    if (status == KILN_OK) {
        const kilni_http_question question = {.method = object->method,
                                              .path = path.bytes,
                                              .query = "",
                                              .range = object->range,
                                              .body = object->body,
                                              .body_size = object->body_size,
                                              .must_be_new = object->must_be_new};
        status = kilni_http_append_question(server, &question, kind->authorize, text);
    }
    kilni_text_done(&path);
    return status;
}

/* Makes a request with its text. Also sets @ret_request on failure, but possibly to NULL. */
static kiln_status make_request(kilni_remote *remote, const kilni_http_object *object,
                                kilni_http_request **ret_request)
{
    *ret_request = NULL;
    const kiln_status status = prepare(remote, object, ret_request);
    return status == KILN_OK ? kilni_http_append_object(remote->kind, remote->server, object,
                                                        &(*ret_request)->text)
                             : status;
}

kiln_status kilni_http_ask_object(kilni_remote *remote, const kilni_http_object *object,
                                  kilni_http_request **ret_request)
{
    const kiln_status status = make_request(remote, object, ret_request);
    return status == KILN_OK ? kilni_http_client_ask(remote->client, *ret_request) : status;
}

static void take_data(kilni_http_request *request, kilni_remote_bytes *ret_bytes)
{
    *ret_bytes = (kilni_remote_bytes){.data = request->data,
                                      .size = request->size,
                                      .is_hashed = request->is_hashed,
                                      .hash = request->digest};
    request->data = NULL;
}

/* ---- reading ---- */

static size_t as_size(uint64_t bytes)
{
    return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

/* A server can ignore the range and send the whole file. In that case, the client waits only for
 * the part that it has requested. */
static kilni_http_object object_of(const kilni_remote_question *question, uint64_t max_bytes,
                                   uint64_t deadline_ns)
{
    kilni_http_object object = {.lane = KILNI_HTTP_LANE_LOOKUPS,
                                .method = question->only_presence ? "HEAD" : "GET",
                                .name = question->name,
                                .deadline_ns = deadline_ns};
    if (!question->only_presence) {
        object.range = question->head_size;
        object.max_bytes = question->head_size > 0 ? UINT64_MAX : max_bytes;
        object.kept_bytes = question->head_size > 0 ? question->head_size : as_size(max_bytes);
    }
    return object;
}

static kiln_status status_of_presence(kilni_remote *remote, const kilni_http_head *head)
{
    if (head->status != 200) {
        return kilni_http_status_of(remote, head);
    }
    return head->is_page ? KILN_E_IO : KILN_OK;
}

static kiln_status status_of_head(kilni_remote *remote, const kilni_http_request *request)
{
    const kilni_http_head *head = &request->head;
    if (head->status == 416) {
        return KILN_MISS; /* the file is empty */
    }
    const kiln_status status = kilni_http_status_of_body(remote, request);
    return status == KILN_OK && !head->is_range && !head->has_size ? KILN_E_IO : status;
}

/* Takes the answer to a question. The answer must have arrived. */
static void take_answer(kilni_remote *remote, kilni_http_request *request,
                        kilni_remote_question *question)
{
    const kilni_http_head *head = &request->head;
    if (question->only_presence) {
        question->status = status_of_presence(remote, head);
        return;
    }
    question->status = question->head_size > 0 ? status_of_head(remote, request)
                                               : kilni_http_status_of_body(remote, request);
    if (question->status == KILN_OK) {
        question->whole_size = question->head_size == 0 ? request->size
                               : head->is_range         ? head->whole_size
                                                        : head->size;
        take_data(request, &question->bytes);
    }
}

static kiln_status ask_one(kilni_remote *remote, kilni_remote_question *question,
                           uint64_t deadline_ns)
{
    kilni_http_request *request;
    const kilni_http_object object = object_of(question, question->max_bytes, deadline_ns);
    question->status = kilni_http_ask_object(remote, &object, &request);
    if (question->status == KILN_OK) {
        take_answer(remote, request, question);
    }
    release(request);
    return question->status;
}

kiln_status kilni_http_get(kilni_remote *remote, const char *name, uint64_t max_bytes,
                           uint64_t deadline_ns, kilni_remote_bytes *ret_bytes)
{
    kilni_remote_question question = {.name = name, .max_bytes = max_bytes};
    const kiln_status status = ask_one(remote, &question, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
    }
    return status;
}

kiln_status kilni_http_get_head(kilni_remote *remote, const char *name, size_t size,
                                uint64_t deadline_ns, kilni_remote_bytes *ret_bytes,
                                uint64_t *ret_whole_size)
{
    kilni_remote_question question = {.name = name, .head_size = size};
    const kiln_status status = ask_one(remote, &question, deadline_ns);
    if (status == KILN_OK) {
        *ret_bytes = question.bytes;
        *ret_whole_size = question.whole_size;
    }
    return status;
}

kiln_status kilni_http_contains(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    kilni_remote_question question = {.name = name, .only_presence = true};
    return ask_one(remote, &question, deadline_ns);
}

/* A place for one of the requests of a batch that are under way at the same time. The questions are
 * divided among the places, and the answers in a place share the room of its own questions. */
typedef struct batch_place {
    kilni_http_request *request; /* NULL: none is under way */
    uint64_t bytes_left;
} batch_place;

static void start_in(kilni_remote *remote, batch_place *place, kilni_remote_question *question,
                     uint64_t deadline_ns)
{
    const kilni_http_object object = object_of(question, place->bytes_left, deadline_ns);
    if (place->bytes_left == 0) {
        question->status = KILN_E_TOO_LARGE;
        return;
    }
    question->status = make_request(remote, &object, &place->request);
    if (question->status == KILN_OK) {
        question->status = kilni_http_client_start(remote->client, place->request);
    }
    if (question->status != KILN_OK) {
        release(place->request);
        place->request = NULL;
    }
}

static void finish_in(kilni_remote *remote, batch_place *place, kilni_remote_question *question)
{
    if (!place->request) {
        return;
    }
    question->status = kilni_http_client_wait(place->request);
    if (question->status == KILN_OK) {
        take_answer(remote, place->request, question);
    }
    if (question->status == KILN_OK && question->head_size == 0) {
        place->bytes_left -= question->bytes.size;
    }
    release(place->request);
    place->request = NULL;
}

void kilni_http_ask_many(kilni_remote *remote, kilni_remote_question *questions, size_t count,
                         uint64_t deadline_ns)
{
    batch_place places[KILNI_HTTP_LOOKUP_CONNECTIONS] = {{0}};
    enum { PLACES = KILNI_HTTP_LOOKUP_CONNECTIONS };
    for (size_t i = 0; i < count; i++) {
        places[i % PLACES].bytes_left += questions[i].max_bytes;
    }
    for (size_t i = 0; i < count + PLACES; i++) {
        if (i >= PLACES && i - PLACES < count) {
            finish_in(remote, &places[i % PLACES], &questions[i - PLACES]);
        }
        if (i < count) {
            start_in(remote, &places[i % PLACES], &questions[i], deadline_ns);
        }
    }
}

kiln_status kilni_http_get_text(kilni_remote *remote, const char *path, const char *query,
                                uint64_t max_bytes, uint64_t deadline_ns,
                                kilni_remote_bytes *ret_bytes)
{
    kilni_http_request *request = NULL;
    const kilni_http_object object = {.lane = KILNI_HTTP_LANE_LOOKUPS,
                                      .method = "GET",
                                      .max_bytes = max_bytes,
                                      .kept_bytes = as_size(max_bytes),
                                      .deadline_ns = deadline_ns};
    const kilni_http_question question = {.method = "GET", .path = path, .query = query};
    kiln_status status = prepare(remote, &object, &request);
    if (status == KILN_OK) {
        status = kilni_http_append_question(remote->server, &question, remote->kind->authorize,
                                            &request->text);
    }
    if (status == KILN_OK) {
        status = kilni_http_client_ask(remote->client, request);
    }
    if (status == KILN_OK) {
        status = kilni_http_status_of_body(remote, request);
    }
    if (status == KILN_OK) {
        take_data(request, ret_bytes);
    }
    release(request);
    return status;
}

/* ---- writing ---- */

/* Returns the status for an answer to a put or a removal. If a server refuses one of these from
 * this user, it will also refuse the next one. */
static kiln_status status_of_write(kilni_remote *remote, const kilni_http_head *head)
{
    switch (head->status) {
    case 200:
    case 201:
    case 202:
    case 204:
        return KILN_OK;
    case 401:
    case 403:
        atomic_store_explicit(&remote->next_put_ns, kilni_clock_ns() + NO_PUTS_FOR_NS,
                              memory_order_relaxed);
        return KILN_E_DENIED;
    case 405:
    case 501:
        return KILN_E_READONLY;
    case 413:
        return KILN_E_TOO_LARGE;
    case 507:
        return KILN_E_FULL;
    default:
        return kilni_http_status_of(remote, head);
    }
}

static kiln_status write_object(kilni_remote *remote, const kilni_http_object *object)
{
    kilni_http_request *request;
    if (kilni_clock_ns() < atomic_load_explicit(&remote->next_put_ns, memory_order_relaxed)) {
        return KILN_E_DENIED;
    }
    kiln_status status = kilni_http_ask_object(remote, object, &request);
    if (status == KILN_OK) {
        status = status_of_write(remote, &request->head);
    }
    release(request);
    return status;
}

/* @expire_ms is ignored, because an HTTP server itself decides when it removes an entry. */
kiln_status kilni_http_put(kilni_remote *remote, const char *name, const void *data, size_t size,
                           uint64_t expire_ms, uint64_t deadline_ns)
{
    (void)expire_ms;
    const kilni_http_object object = {.lane = KILNI_HTTP_LANE_PUTS,
                                      .method = "PUT",
                                      .name = name,
                                      .body = data,
                                      .body_size = size,
                                      .deadline_ns = deadline_ns};
    const kiln_status status = write_object(remote, &object);
    return status == KILN_MISS ? KILN_E_IO : status; /* the folder does not exist */
}

static kiln_status delete_object(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    const kilni_http_object object = {
        .lane = KILNI_HTTP_LANE_PUTS, .method = "DELETE", .name = name, .deadline_ns = deadline_ns};
    return write_object(remote, &object);
}

/* First asks whether the file exists, because some servers report success even if the file does not
 * exist. */
kiln_status kilni_http_remove(kilni_remote *remote, const char *name, uint64_t deadline_ns)
{
    const kiln_status status = kilni_http_contains(remote, name, deadline_ns);
    return status == KILN_OK ? delete_object(remote, name, deadline_ns) : status;
}

/* Asks for the head with which the server would answer a GET of a file. */
static kiln_status ask_about(kilni_remote *remote, const char *name, uint64_t deadline_ns,
                             kilni_http_head *ret_head)
{
    kilni_http_request *request;
    const kilni_remote_question question = {.name = name, .only_presence = true};
    const kilni_http_object object = object_of(&question, 0, deadline_ns);
    kiln_status status = kilni_http_ask_object(remote, &object, &request);
    if (status == KILN_OK) {
        status = status_of_presence(remote, &request->head);
    }
    if (status == KILN_OK) {
        *ret_head = request->head;
    }
    release(request);
    return status;
}

/* A list has fractions of seconds, and the head of an answer has whole seconds, which some servers
 * round up. An answer without a time proves nothing. */
static bool is_still(const kilni_remote_judged *value, const kilni_http_head *head)
{
    return head->has_size && head->size == value->size && head->modified_s > 0 &&
           head->modified_s <= value->put_s + 1;
}

kiln_status kilni_http_remove_judged(kilni_remote *remote, kilni_remote_judged *values,
                                     size_t count, uint64_t deadline_ns)
{
    for (size_t i = 0; i < count; i++) {
        kilni_http_head head;
        values[i].status = ask_about(remote, values[i].name, deadline_ns, &head);
        if (values[i].status == KILN_OK) {
            values[i].status = is_still(&values[i], &head)
                                   ? delete_object(remote, values[i].name, deadline_ns)
                                   : KILN_MISS;
        }
    }
    return KILN_OK;
}

/* ---- opening ---- */

kilni_server_fault kilni_http_fault(const kilni_remote *remote)
{
    return kilni_http_client_fault(remote->client);
}

bool kilni_http_is_away(kilni_remote *remote, kilni_server_state *ret_state)
{
    return kilni_http_client_is_away(remote->client, ret_state);
}

/* ---- opening ---- */

static kiln_status make(const kilni_http_kind *kind, const kilni_remote_server *server,
                        kilni_remote *remote)
{
    kilni_remote_server *copy = kilni_http_copy_server(server);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    const kilni_tls_settings tls = kilni_http_tls_of(copy);
    const kilni_http_settings settings = {.host = copy->host,
                                          .port = copy->port,
                                          .tls = copy->is_encrypted ? &tls : NULL,
                                          .connecting_ns = kind->connecting_ns,
                                          .new_answer_ns = kind->new_answer_ns,
                                          .answer_ns = kind->answer_ns,
                                          .put_answer_ns = kind->put_answer_ns,
                                          .state_file = copy->state_file};
    const kiln_status status = kilni_http_client_new(&settings, copy, &remote->client);
    if (status != KILN_OK) {
        free(copy);
        return status;
    }
    remote->kind = kind;
    remote->server = copy;
    atomic_init(&remote->conditions,
                kind->has_conditions ? KILNI_HTTP_UNTRIED : KILNI_HTTP_IGNORED);
    return KILN_OK;
}

kiln_status kilni_http_open(const kilni_http_kind *kind, const kilni_remote_server *server,
                            kilni_remote **ret_remote, kiln_error *error)
{
    kiln_status status = kind->check(server, error);
    if (status == KILN_OK && server->is_encrypted) {
        const kilni_tls_settings settings = kilni_http_tls_of(server);
        status = kilni_tls_check(&settings, error);
    }
    if (status != KILN_OK) {
        return status;
    }
    kilni_remote *remote = calloc(1, sizeof *remote);
    if (!remote || make(kind, server, remote) != KILN_OK) {
        free(remote);
        return kilni_error_set(error, KILN_E_NO_MEMORY, 0, "out of memory");
    }
    *ret_remote = remote;
    return KILN_OK;
}

void kilni_http_close(kilni_remote *remote)
{
    kilni_http_client_close(remote->client);
    free(remote);
}
