/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/client.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "os/clock.h"
#include "store/network/breaker.h"
#include "store/network/lookup.h"
#include "store/network/prober.h"
#include "store/network/secret_file.h"
#include "store/redis/connection.h"

#define NS_PER_MS UINT64_C(1000000)

/* How long to wait for a server, or for a look-up of its name. The second value applies if the
 * server has answered within the last minute. */
#define PATIENCE_NS (250 * NS_PER_MS)
#define PATIENCE_IF_KNOWN_NS (500 * NS_PER_MS)

/* REFUSED_FOR_NS: how long a server is not contacted after it refused the password, or after its
 * certificate was not accepted. PROBE_NS: how long a probe may take. ADDRESSES_LAST_NS: how long
 * addresses are used before they are looked up again. */
#define REFUSED_FOR_NS (UINT64_C(40000) * NS_PER_MS)
#define PROBE_NS (UINT64_C(1000) * NS_PER_MS)
#define ADDRESSES_LAST_NS (UINT64_C(60000) * NS_PER_MS)

/* The most bytes of data that the replies to a greeting may have. */
#define GREETING_BYTES 4096u

typedef struct redis_lane {
    kilni_redis_owner owner; /* first: the owner of the lane's connection */
    kilni_redis_client *client;
    kilni_redis_connection *connection; /* NULL: none */
} redis_lane;

struct kilni_redis_client {
    kilni_task closing;
    kilni_remote_server server;
    char *texts; /* a block of memory with the texts to which @server points */
    kilni_tls_settings tls;
    kilni_breaker breaker;
    kilni_prober prober;

    /* The handle holds one reference, and so does each exchange. A decrement is both a release and
     * an acquire, so the thread that frees the client sees all changes by other threads. */
    _Atomic unsigned references;
    /* The process in which the client was last used, and whose I/O thread may therefore refer to
     * the client. All calls have returned when the client is closed, so every access is relaxed. */
    _Atomic unsigned asked_in;

    /* Only the I/O thread uses these. */
    unsigned process; /* the process whose I/O thread made these connections */
    redis_lane lanes[KILNI_REDIS_LANES];
    bool is_closed;
    kilni_address addresses[KILNI_LOOKUP_MAX];
    size_t address_count, next_address;
    uint64_t found_ns;                             /* when the addresses were looked up */
    kilni_lookup *lookup;                          /* the look-up that is under way; NULL: none */
    kilni_redis_exchange *waiting, **last_waiting; /* exchanges that wait for addresses */
    kilni_timer silence;                           /* ends the wait for addresses */
};

static void drop_reference(kilni_redis_client *client)
{
    if (atomic_fetch_sub_explicit(&client->references, 1, memory_order_acq_rel) == 1) {
        free(client->texts);
        free(client);
    }
}

static void forget(void *owner)
{
    drop_reference(owner);
}

/* ---- the I/O thread ---- */

static kilni_redis_client *client_of(const kilni_redis_exchange *exchange)
{
    return exchange->owner;
}

static void finish(kilni_redis_exchange *exchange, kiln_status status)
{
    exchange->status = status;
    kilni_call_finish(&exchange->call);
}

static void finish_all(kilni_redis_exchange *exchange, kiln_status status)
{
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        finish(exchange, status);
        exchange = next;
    }
}

static kiln_status add_auth(const char *user, const char *password, kilni_redis_exchange *greeting)
{
    const kilni_resp_argument command = {"AUTH", 4};
    const kilni_resp_argument secret = {password, strlen(password)};
    const kilni_resp_argument of_all[] = {command, secret};
    const kilni_resp_argument of_user[] = {command, {user, strlen(user)}, secret};
    return user[0] != '\0' ? kilni_redis_exchange_add(greeting, of_user, 3)
                           : kilni_redis_exchange_add(greeting, of_all, 2);
}

static kiln_status add_auth_from_file(const kilni_remote_server *server,
                                      kilni_redis_exchange *greeting)
{
    char password[KILNI_SECRET_SIZE];
    kiln_status status =
        kilni_secret_file_read_line(server->password_file, "password file", password, NULL);
    if (status == KILN_OK) {
        status = add_auth(server->user, password, greeting);
    }
    explicit_bzero(password, sizeof password);
    return status;
}

static kiln_status add_select(const kilni_remote_server *server, kilni_redis_exchange *greeting)
{
    char number[16];
    snprintf(number, sizeof number, "%u", server->database);
    const kilni_resp_argument command[] = {{"SELECT", 6}, {number, strlen(number)}};
    return kilni_redis_exchange_add(greeting, command, 2);
}

/* Makes the commands that a connection sends first; sets @ret_greeting to NULL if there are none.
 * No caller waits for the replies. The password file is read again each time, since it may have
 * changed. */
static kiln_status make_greeting(const kilni_remote_server *server, uint64_t deadline_ns,
                                 kilni_redis_exchange **ret_greeting)
{
    *ret_greeting = NULL;
    if (!server->password_file && !server->password && server->database == 0) {
        return KILN_OK;
    }
    kilni_redis_exchange *greeting;
    kiln_status status = kilni_redis_exchange_new(NULL, GREETING_BYTES, deadline_ns, &greeting);
    if (status != KILN_OK) {
        return status;
    }
    if (server->password_file) {
        status = add_auth_from_file(server, greeting);
    } else if (server->password) {
        status = add_auth(server->user, server->password, greeting);
    }
    if (status == KILN_OK && server->database > 0) {
        status = add_select(server, greeting);
    }
    if (status != KILN_OK) {
        kilni_call_release(&greeting->call);
        return status;
    }
    *ret_greeting = greeting;
    return KILN_OK;
}

static uint64_t patience_with(const kilni_redis_client *client, uint64_t now_ns)
{
    return kilni_breaker_is_known(&client->breaker, now_ns) ? PATIENCE_IF_KNOWN_NS : PATIENCE_NS;
}

static kiln_status connect_lane(redis_lane *lane)
{
    kilni_redis_client *client = lane->client;
    const uint64_t now_ns = kilni_clock_ns();
    const uint64_t patience_ns = patience_with(client, now_ns);
    kilni_redis_exchange *greeting = NULL;
    kiln_status status = make_greeting(&client->server, now_ns + patience_ns, &greeting);
    if (status == KILN_OK) {
        const kilni_address *address =
            &client->addresses[client->next_address % client->address_count];
        status = kilni_redis_connection_new(&lane->owner, address,
                                            client->server.is_encrypted ? &client->tls : NULL,
                                            greeting, patience_ns, &lane->connection);
    }
    if (status != KILN_OK && greeting) {
        kilni_call_release(&greeting->call);
    }
    return status;
}

static void note_failure(kilni_redis_client *client, kiln_status status, bool was_connected)
{
    const uint64_t now_ns = kilni_clock_ns();
    if (status == KILN_E_DENIED || status == KILN_E_UNAUTHENTICATED || status == KILN_E_INVALID) {
        kilni_breaker_rest(&client->breaker, now_ns, REFUSED_FOR_NS,
                           status == KILN_E_UNAUTHENTICATED ? KILNI_FAULT_UNTRUSTED
                                                            : KILNI_FAULT_REFUSED);
    } else if (status != KILN_E_TOO_LARGE && status != KILN_E_NO_MEMORY) {
        const kilni_server_fault fault = status == KILN_TIMEOUT ? KILNI_FAULT_SILENT
                                         : was_connected        ? KILNI_FAULT_BROKEN
                                                                : KILNI_FAULT_UNREACHABLE;
        kilni_breaker_note_fault(&client->breaker, now_ns, fault);
    }
    if (!kilni_breaker_is_closed(&client->breaker, now_ns)) {
        kilni_prober_start_here(&client->prober);
    }
}

/* Sends an exchange, and connects first if necessary. The addresses must be known. */
static void send_exchange(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    redis_lane *lane = &client->lanes[exchange->lane];
    kiln_status status = lane->connection ? KILN_OK : connect_lane(lane);
    while (status == KILN_E_IO && ++exchange->hops < client->address_count) {
        client->next_address++;
        status = connect_lane(lane);
    }
    if (status == KILN_OK) {
        kilni_redis_connection_send(lane->connection, exchange);
    } else {
        note_failure(client, status, false);
        finish(exchange, status);
    }
}

/* Returns the exchanges that wait for addresses, and ends their wait. */
static kilni_redis_exchange *take_waiting(kilni_redis_client *client)
{
    kilni_redis_exchange *waiting = client->waiting;
    client->waiting = NULL;
    client->last_waiting = &client->waiting;
    kilni_timer_stop(&client->silence);
    return waiting;
}

static void found(kilni_lookup *lookup)
{
    kilni_redis_client *client = lookup->user;
    if (client) {
        kilni_redis_exchange *exchange = take_waiting(client);
        client->lookup = NULL;
        memcpy(client->addresses, lookup->addresses, sizeof client->addresses);
        client->address_count = lookup->count;
        client->found_ns = kilni_clock_ns();
        if (lookup->count == 0) {
            note_failure(client, KILN_E_IO, false);
            finish_all(exchange, KILN_E_IO);
            exchange = NULL;
        }
        while (exchange) {
            kilni_redis_exchange *next = exchange->next;
            send_exchange(client, exchange);
            exchange = next;
        }
    }
    free(lookup);
}

static bool is_found(const kilni_redis_client *client)
{
    return client->address_count > 0 && (client->server.host[0] == '\0' ||
                                         kilni_clock_ns() - client->found_ns < ADDRESSES_LAST_NS);
}

static void set_socket_address(kilni_redis_client *client)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&client->addresses[0].address;
    _Static_assert(sizeof address->sun_path >= sizeof client->server.socket, "a path fits");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, client->server.socket, sizeof client->server.socket);
    client->addresses[0].size = sizeof *address;
    client->address_count = 1;
}

/* Begins to look up the host. If the host is an address, the look-up is complete when this function
 * returns. Returns KILN_OK; KILN_E_IO; KILN_E_NO_MEMORY. */
static kiln_status look_up(kilni_redis_client *client)
{
    kilni_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(lookup->host, client->server.host, sizeof lookup->host);
    lookup->port = client->server.port;
    lookup->done = found;
    lookup->user = client;
    if (kilni_lookup_is_address(lookup)) {
        found(lookup);
        return KILN_OK;
    }
    const kiln_status status = kilni_lookup_start(lookup);
    if (status != KILN_OK) {
        free(lookup);
        return status;
    }
    client->lookup = lookup;
    return KILN_OK;
}

/* Fails the exchanges that wait for addresses. The look-up continues, and later exchanges may use
 * its result. */
static void end_wait_for_addresses(kilni_timer *timer)
{
    kilni_redis_client *client =
        (kilni_redis_client *)((char *)timer - offsetof(kilni_redis_client, silence));
    note_failure(client, KILN_TIMEOUT, false);
    finish_all(take_waiting(client), KILN_TIMEOUT);
}

static void wait_for_addresses(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    if (!client->waiting) {
        const uint64_t now_ns = kilni_clock_ns();
        kilni_timer_start(&client->silence, now_ns + patience_with(client, now_ns));
    }
    exchange->next = NULL;
    *client->last_waiting = exchange;
    client->last_waiting = &exchange->next;
    const kiln_status status = client->lookup ? KILN_OK : look_up(client);
    if (status != KILN_OK) {
        finish_all(take_waiting(client), status);
    }
}

static void submit(kilni_redis_exchange *exchange)
{
    kilni_redis_client *client = client_of(exchange);
    if (client->is_closed || kilni_call_is_abandoned(&exchange->call)) {
        finish(exchange, KILN_TIMEOUT);
    } else if (client->lanes[exchange->lane].connection || is_found(client)) {
        send_exchange(client, exchange);
    } else {
        wait_for_addresses(client, exchange);
    }
}

/* Prepares the client for this forked child. The state of the parent's I/O thread is not touched,
 * since that thread may have been changing it. */
static void begin_process(kilni_redis_client *client)
{
    client->process = kilni_loop_process();
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        client->lanes[i].connection = NULL;
    }
    client->lookup = NULL;
    client->waiting = NULL;
    client->last_waiting = &client->waiting;
    client->silence = (kilni_timer){.expire = end_wait_for_addresses};
    client->address_count = 0;
    if (client->server.host[0] == '\0') {
        set_socket_address(client);
    }
}

static void run(kilni_task *task)
{
    kilni_redis_exchange *exchange = (kilni_redis_exchange *)task;
    kilni_redis_client *client = client_of(exchange);
    if (client->process != kilni_loop_process()) {
        begin_process(client);
    }
    submit(exchange);
}

/* ---- calls by connections ---- */

static void answered(kilni_redis_owner *owner)
{
    kilni_breaker_note_answer(&((redis_lane *)owner)->client->breaker, kilni_clock_ns());
}

/* Whether an exchange may be repeated on a new connection. No part of its replies may have arrived.
 * There are three reasons to repeat it. A server may have closed a connection that was idle for a
 * long time. A command that no server has received may be sent to the next address. And an earlier
 * exchange may have ended the connection. */
static bool may_resend(const kilni_redis_client *client, const kilni_redis_end *how,
                       kilni_redis_exchange *exchange, bool is_first)
{
    if (client->is_closed || !kilni_redis_exchange_is_unanswered(exchange)) {
        return false;
    }
    if (!how->was_connected) {
        return how->status == KILN_E_IO && ++exchange->hops < client->address_count;
    }
    const bool is_bystander =
        !is_first && (how->status == KILN_E_TOO_LARGE || how->status == KILN_E_NO_MEMORY);
    const bool is_kept = how->was_answered && how->status == KILN_E_IO;
    const bool may_repeat = exchange->may_repeat && !exchange->is_repeated;
    exchange->is_repeated = true;
    return may_repeat && (is_kept || is_bystander);
}

static void ended(kilni_redis_owner *owner, const kilni_redis_end *how)
{
    redis_lane *lane = (redis_lane *)owner;
    kilni_redis_client *client = lane->client;
    kilni_redis_exchange *exchange = how->unfinished;
    kilni_redis_exchange *failed = NULL, **last_failed = &failed;
    bool is_failure = exchange != NULL;
    bool is_first = true;
    lane->connection = NULL;
    if (!how->was_connected) {
        client->next_address++;
    }
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        if (may_resend(client, how, exchange, is_first)) {
            is_failure = false;
            kilni_redis_exchange_rewind(exchange);
            submit(exchange);
        } else {
            exchange->next = NULL;
            *last_failed = exchange;
            last_failed = &exchange->next;
        }
        is_first = false;
        exchange = next;
    }
    /* The failure is noted before the callers continue, because they may ask again at once. */
    if (is_failure && !client->is_closed) {
        note_failure(client, how->status, how->was_connected);
    }
    finish_all(failed, how->status);
}

/* ---- probes ---- */

/* Probes the server. Any answer shows that it works again. */
static void probe(kilni_prober *prober)
{
    static const kilni_resp_argument ping = {"PING", 4};
    kilni_redis_client *client =
        (kilni_redis_client *)((char *)prober - offsetof(kilni_redis_client, prober));
    kilni_redis_exchange *exchange;
    if (kilni_redis_client_prepare(client, KILNI_REDIS_LANE_LOOKUPS, GREETING_BYTES,
                                   kilni_clock_ns() + PROBE_NS, &exchange) != KILN_OK) {
        return;
    }
    if (kilni_redis_exchange_add(exchange, &ping, 1) == KILN_OK) {
        kilni_call_send(&exchange->call);
    } else {
        kilni_call_release(&exchange->call);
    }
}

/* ---- the interface ---- */

/* Copies the texts into one block of memory, and makes @server point to the copies. Returns the
 * block, or NULL if memory runs out. */
static char *keep_texts(kilni_remote_server *server)
{
    const char **const texts[] = {&server->password_file, &server->password,
                                  &server->ca_file,       &server->certificate_file,
                                  &server->key_file,      &server->state_file};
    enum { COUNT = sizeof texts / sizeof texts[0] };
    size_t size = 1;
    for (size_t i = 0; i < COUNT; i++) {
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    }
    char *copies = malloc(size);
    char *to = copies;
    for (size_t i = 0; copies && i < COUNT; i++) {
        if (*texts[i]) {
            const size_t length = strlen(*texts[i]) + 1;
            memcpy(to, *texts[i], length);
            *texts[i] = to;
            to += length;
        }
    }
    return copies;
}

kilni_tls_settings kilni_redis_tls_of(const kilni_remote_server *server)
{
    return (kilni_tls_settings){.host = server->host,
                                .ca_file = server->ca_file,
                                .certificate_file = server->certificate_file,
                                .key_file = server->key_file};
}

kiln_status kilni_redis_client_new(const kilni_remote_server *server,
                                   kilni_redis_client **ret_client)
{
    kilni_redis_client *client = calloc(1, sizeof *client);
    if (!client) {
        return KILN_E_NO_MEMORY;
    }
    client->server = *server;
    client->texts = keep_texts(&client->server);
    if (!client->texts) {
        free(client);
        return KILN_E_NO_MEMORY;
    }
    client->tls = kilni_redis_tls_of(&client->server);
    client->breaker.file = client->server.state_file;
    kilni_prober_init(&client->prober, &client->breaker, probe);
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        client->lanes[i] = (redis_lane){.owner = {answered, ended}, .client = client};
    }
    atomic_init(&client->references, 1);
    atomic_init(&client->asked_in, KILNI_NO_PROCESS);
    client->process = KILNI_NO_PROCESS;
    *ret_client = client;
    return KILN_OK;
}

static void close_on_thread(kilni_task *task)
{
    kilni_redis_client *client =
        (kilni_redis_client *)((char *)task - offsetof(kilni_redis_client, closing));
    if (client->process != kilni_loop_process()) {
        begin_process(client);
    }
    client->is_closed = true;
    if (client->lookup) {
        client->lookup->user = NULL;
    }
    kilni_prober_stop(&client->prober);
    finish_all(take_waiting(client), KILN_E_IO);
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        kilni_redis_connection *connection = client->lanes[i].connection;
        client->lanes[i].connection = NULL;
        if (connection) {
            finish_all(kilni_redis_connection_close(connection), KILN_E_IO);
        }
    }
    drop_reference(client);
}

/* If this process has never used the client, its I/O thread does not refer to the client, which can
 * be freed at once. If the I/O thread has ended, the objects to which it referred cannot be freed.
 */
void kilni_redis_client_close(kilni_redis_client *client)
{
    client->closing.run = close_on_thread;
    if (atomic_load_explicit(&client->asked_in, memory_order_relaxed) != kilni_loop_process()) {
        drop_reference(client);
    } else {
        kilni_loop_post(&client->closing);
    }
}

kiln_status kilni_redis_client_prepare(kilni_redis_client *client, unsigned lane,
                                       uint64_t max_bytes, uint64_t deadline_ns,
                                       kilni_redis_exchange **ret_exchange)
{
    const kiln_status status = kilni_redis_exchange_new(run, max_bytes, deadline_ns, ret_exchange);
    if (status == KILN_OK) {
        atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
        (*ret_exchange)->owner = client;
        (*ret_exchange)->forget = forget;
        (*ret_exchange)->lane = lane;
        (*ret_exchange)->may_repeat = lane == KILNI_REDIS_LANE_LOOKUPS;
    }
    return status;
}

/* Whether the server may be contacted. If a probe is due, makes the I/O thread probe the server.
 *
 * @start_prober  kilni_prober_start, or, for the I/O thread, kilni_prober_start_here */
static bool may_ask(kilni_redis_client *client, void (*start_prober)(kilni_prober *prober))
{
    const uint64_t now_ns = kilni_clock_ns();
    const bool is_closed = kilni_breaker_is_closed(&client->breaker, now_ns);
    if (!is_closed && now_ns < kilni_breaker_retry_ns(&client->breaker)) {
        return false;
    }
    atomic_store_explicit(&client->asked_in, kilni_loop_process(), memory_order_relaxed);
    if (!is_closed) {
        start_prober(&client->prober);
    }
    return is_closed;
}

/* Returns the status for a caller that was not admitted. So a caller learns that the server refuses
 * it, even if only a probe was refused. */
static kiln_status status_of(kilni_server_fault fault)
{
    return fault == KILNI_FAULT_REFUSED     ? KILN_E_DENIED
           : fault == KILNI_FAULT_UNTRUSTED ? KILN_E_UNAUTHENTICATED
                                            : KILN_E_IO;
}

/* A server that does not answer in time is reported like one that cannot be reached. */
kiln_status kilni_redis_client_ask(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    if (!may_ask(client, kilni_prober_start)) {
        return status_of(kilni_breaker_fault(&client->breaker));
    }
    kiln_status status = kilni_call_make(&exchange->call);
    if (status == KILN_OK) {
        status = exchange->status;
    }
    return status == KILN_TIMEOUT || status == KILN_E_CORRUPT ? KILN_E_IO : status;
}

kilni_server_fault kilni_redis_client_fault(const kilni_redis_client *client)
{
    return kilni_breaker_fault(&client->breaker);
}

bool kilni_redis_client_is_away(kilni_redis_client *client, kilni_server_state *ret_state)
{
    return kilni_breaker_is_open(&client->breaker, kilni_clock_ns(), ret_state);
}

void kilni_redis_client_rest(kilni_redis_client *client, uint64_t duration_ns)
{
    kilni_breaker_rest(&client->breaker, kilni_clock_ns(), duration_ns, KILNI_FAULT_BUSY);
}

void kilni_redis_client_send(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    if (may_ask(client, kilni_prober_start_here)) {
        kilni_call_send(&exchange->call);
    } else {
        kilni_call_release(&exchange->call);
    }
}
