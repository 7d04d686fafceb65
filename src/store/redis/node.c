/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/node.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "os/clock.h"
#include "store/network/secret_file.h"

#define NS_PER_MS UINT64_C(1000000)

/* REFUSED_FOR_NS: how long a server is not contacted after it has refused the password, or after
 * its certificate was not accepted. REST_NS: how long a server is not contacted after it has
 * answered that it cannot serve now. PROBE_NS: the maximum time for a probe. ADDRESSES_LAST_NS: how
 * long addresses are used before they are looked up again. */
#define REFUSED_FOR_NS (UINT64_C(40000) * NS_PER_MS)
#define REST_NS (UINT64_C(1000) * NS_PER_MS)
#define PROBE_NS (UINT64_C(1000) * NS_PER_MS)
#define ADDRESSES_LAST_NS (UINT64_C(60000) * NS_PER_MS)

/* The maximum size of the data in the replies to a greeting. */
#define GREETING_BYTES 4096u

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

/* Makes the commands that a connection sends first. If there are none, sets @ret_greeting to NULL.
 * No caller waits for the replies. The password file is read again each time, because it may have
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

static uint64_t patience_with(const kilni_redis_node *node, uint64_t now_ns)
{
    return kilni_breaker_is_known(&node->breaker, now_ns) ? KILNI_REDIS_PATIENCE_IF_KNOWN_NS
                                                          : KILNI_REDIS_PATIENCE_NS;
}

static kiln_status connect_lane(kilni_redis_lane *lane)
{
    kilni_redis_node *node = lane->node;
    const uint64_t now_ns = kilni_clock_ns();
    const uint64_t patience_ns = patience_with(node, now_ns);
    kilni_redis_exchange *greeting = NULL;
    kiln_status status = make_greeting(node->server, now_ns + patience_ns, &greeting);
    if (status == KILN_OK) {
        const kilni_address *address = &node->addresses[node->next_address % node->address_count];
        status = kilni_redis_connection_new(&lane->owner, address,
                                            node->server->is_encrypted ? &node->tls : NULL,
                                            greeting, patience_ns, &lane->connection);
    }
    if (status != KILN_OK && greeting) {
        kilni_call_release(&greeting->call);
    }
    return status;
}

static void note_failure(kilni_redis_node *node, kiln_status status, bool was_connected)
{
    kilni_redis_note_failure(&node->breaker, &node->prober, status, was_connected);
}

/* Sends an exchange, and connects first if necessary. The addresses must be known. */
static void send_exchange(kilni_redis_node *node, kilni_redis_exchange *exchange)
{
    kilni_redis_lane *lane = &node->lanes[exchange->lane];
    kiln_status status = lane->connection ? KILN_OK : connect_lane(lane);
    while (status == KILN_E_IO && ++exchange->hops < node->address_count) {
        node->next_address++;
        status = connect_lane(lane);
    }
    if (status == KILN_OK) {
        kilni_redis_connection_send(lane->connection, exchange);
    } else {
        note_failure(node, status, false);
        kilni_redis_exchange_end(exchange, status);
    }
}

/* Returns the exchanges that wait for addresses, and ends their wait. */
static kilni_redis_exchange *take_waiting(kilni_redis_node *node)
{
    kilni_redis_exchange *waiting = node->waiting;
    node->waiting = NULL;
    node->last_waiting = &node->waiting;
    kilni_timer_stop(&node->silence);
    return waiting;
}

static void found(kilni_lookup *lookup)
{
    kilni_redis_node *node = lookup->user;
    kilni_redis_exchange *exchange = take_waiting(node);
    node->lookup = NULL;
    memcpy(node->addresses, lookup->addresses, sizeof node->addresses);
    node->address_count = lookup->count;
    node->found_ns = kilni_clock_ns();
    if (lookup->count == 0) {
        note_failure(node, KILN_E_IO, false);
        kilni_redis_exchange_end_all(exchange, KILN_E_IO);
        exchange = NULL;
    }
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        send_exchange(node, exchange);
        exchange = next;
    }
    free(lookup);
}

static bool is_found(const kilni_redis_node *node)
{
    return node->address_count > 0 &&
           (node->host[0] == '\0' || kilni_clock_ns() - node->found_ns < ADDRESSES_LAST_NS);
}

static void set_socket_address(kilni_redis_node *node)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&node->addresses[0].address;
    _Static_assert(sizeof address->sun_path >= sizeof node->server->socket, "a path fits");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, node->server->socket, sizeof node->server->socket);
    node->addresses[0].size = sizeof *address;
    node->address_count = 1;
}

/* Begins to look up the host. If the host is an address, the look-up is complete when this function
 * returns. Returns KILN_OK; KILN_E_IO; KILN_E_NO_MEMORY. */
static kiln_status look_up(kilni_redis_node *node)
{
    kilni_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) {
        return KILN_E_NO_MEMORY;
    }
    snprintf(lookup->host, sizeof lookup->host, "%s", node->host);
    lookup->port = node->port;
    lookup->done = found;
    lookup->user = node;
    if (kilni_lookup_is_address(lookup)) {
        found(lookup);
        return KILN_OK;
    }
    const kiln_status status = kilni_lookup_start(lookup);
    if (status != KILN_OK) {
        free(lookup);
        return status;
    }
    node->lookup = lookup;
    return KILN_OK;
}

/* Ends the exchanges that wait for addresses with a failure. The look-up continues, and later
 * exchanges can use its result. */
static void end_wait_for_addresses(kilni_timer *timer)
{
    kilni_redis_node *node =
        (kilni_redis_node *)((char *)timer - offsetof(kilni_redis_node, silence));
    note_failure(node, KILN_TIMEOUT, false);
    kilni_redis_exchange_end_all(take_waiting(node), KILN_TIMEOUT);
}

static void wait_for_addresses(kilni_redis_node *node, kilni_redis_exchange *exchange)
{
    if (!node->waiting) {
        const uint64_t now_ns = kilni_clock_ns();
        kilni_timer_start(&node->silence, now_ns + patience_with(node, now_ns));
    }
    exchange->next = NULL;
    *node->last_waiting = exchange;
    node->last_waiting = &exchange->next;
    const kiln_status status = node->lookup ? KILN_OK : look_up(node);
    if (status != KILN_OK) {
        kilni_redis_exchange_end_all(take_waiting(node), status);
    }
}

static void submit(kilni_redis_node *node, kilni_redis_exchange *exchange)
{
    if (node->is_stopped || kilni_call_is_abandoned(&exchange->call)) {
        kilni_redis_exchange_end(exchange, KILN_TIMEOUT);
    } else if (node->lanes[exchange->lane].connection || is_found(node)) {
        send_exchange(node, exchange);
    } else {
        wait_for_addresses(node, exchange);
    }
}

/* Prepares the node for use in this forked child. Does not touch the state of the parent's I/O
 * thread, because that thread may have been changing it during the fork. */
static void begin_process(kilni_redis_node *node)
{
    node->process = kilni_loop_process();
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        node->lanes[i].connection = NULL;
    }
    node->lookup = NULL;
    node->waiting = NULL;
    node->last_waiting = &node->waiting;
    node->silence = (kilni_timer){.expire = end_wait_for_addresses};
    node->address_count = 0;
    if (node->host[0] == '\0') {
        set_socket_address(node);
    }
}

static void enter_process(kilni_redis_node *node)
{
    if (node->process != kilni_loop_process()) {
        begin_process(node);
    }
}

void kilni_redis_node_send(kilni_redis_node *node, kilni_redis_exchange *exchange)
{
    enter_process(node);
    submit(node, exchange);
}

/* ---- calls by connections ---- */

/* Returns true if a server has answered that it cannot serve now. */
static bool is_resting(const kilni_redis_exchange *exchange)
{
    static const char *const words[] = {"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN"};
    for (size_t i = 0; i < exchange->value_count; i++) {
        for (size_t j = 0; j < sizeof words / sizeof words[0]; j++) {
            if (kilni_redis_value_is_error(&exchange->values[i], words[j])) {
                return true;
            }
        }
    }
    return false;
}

static void answered(kilni_redis_owner *owner, const kilni_redis_exchange *exchange)
{
    kilni_breaker *breaker = &((kilni_redis_lane *)owner)->node->breaker;
    const uint64_t now_ns = kilni_clock_ns();
    if (is_resting(exchange)) {
        kilni_breaker_rest(breaker, now_ns, REST_NS, KILNI_FAULT_BUSY);
    } else {
        kilni_breaker_note_answer(breaker, now_ns);
    }
}

/* Returns true if an exchange can be repeated on a new connection. It cannot be repeated if a part
 * of its replies has arrived. There are three reasons to repeat it: the server has closed a
 * connection that was idle for a long time; no server has received the command, so the next address
 * can be tried; or an earlier exchange has ended the connection. */
static bool may_resend(const kilni_redis_node *node, const kilni_redis_end *how,
                       kilni_redis_exchange *exchange, bool is_first)
{
    if (node->is_stopped || !kilni_redis_exchange_is_unanswered(exchange)) {
        return false;
    }
    if (!how->was_connected) {
        return how->status == KILN_E_IO && ++exchange->hops < node->address_count;
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
    kilni_redis_lane *lane = (kilni_redis_lane *)owner;
    kilni_redis_node *node = lane->node;
    kilni_redis_exchange *exchange = how->unfinished;
    kilni_redis_exchange *failed = NULL, **last_failed = &failed;
    bool is_failure = exchange != NULL;
    bool is_first = true;
    lane->connection = NULL;
    if (!how->was_connected) {
        node->next_address++;
    }
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        if (may_resend(node, how, exchange, is_first)) {
            is_failure = false;
            kilni_redis_exchange_rewind(exchange);
            submit(node, exchange);
        } else {
            exchange->next = NULL;
            *last_failed = exchange;
            last_failed = &exchange->next;
        }
        is_first = false;
        exchange = next;
    }
    /* The failure is noted before the callers continue, because they may ask again immediately. */
    if (is_failure && !node->is_stopped) {
        note_failure(node, how->status, how->was_connected);
    }
    kilni_redis_exchange_end_all(failed, how->status);
}

/* ---- probes ---- */

/* Probes the server. Any answer shows that the server works again, except an answer that it cannot
 * serve. */
static void probe(kilni_prober *prober)
{
    static const kilni_resp_argument ping = {"PING", 4};
    kilni_redis_node *node =
        (kilni_redis_node *)((char *)prober - offsetof(kilni_redis_node, prober));
    kilni_redis_exchange *exchange;
    if (kilni_redis_exchange_new(NULL, GREETING_BYTES, kilni_clock_ns() + PROBE_NS, &exchange) !=
        KILN_OK) {
        return;
    }
    exchange->lane = KILNI_REDIS_LANE_LOOKUPS;
    exchange->may_repeat = true;
    if (kilni_redis_exchange_add(exchange, &ping, 1) == KILN_OK) {
        kilni_redis_node_send(node, exchange);
    } else {
        kilni_call_release(&exchange->call);
    }
}

/* ---- the interface ---- */

kilni_tls_settings kilni_redis_tls_of(const kilni_remote_server *server)
{
    return (kilni_tls_settings){.host = server->host,
                                .ca_file = server->ca_file,
                                .certificate_file = server->certificate_file,
                                .key_file = server->key_file};
}

void kilni_redis_node_init(kilni_redis_node *node, const kilni_remote_server *server,
                           const char *host, uint16_t port, const kilni_tls_settings *tls,
                           const char *state_file)
{
    *node = (kilni_redis_node){.server = server, .host = host, .port = port, .tls = *tls};
    node->breaker.file = state_file;
    node->process = KILNI_NO_PROCESS;
    kilni_prober_init(&node->prober, &node->breaker, probe);
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        node->lanes[i] = (kilni_redis_lane){.owner = {answered, ended}, .node = node};
    }
}

bool kilni_redis_node_is_busy(const kilni_redis_node *node)
{
    bool is_busy = node->waiting != NULL;
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        const kilni_redis_connection *connection = node->lanes[i].connection;
        is_busy |= connection && kilni_redis_connection_is_busy(connection);
    }
    return is_busy && node->process == kilni_loop_process();
}

void kilni_redis_node_stop(kilni_redis_node *node)
{
    enter_process(node);
    node->is_stopped = true;
    if (node->lookup) {
        kilni_lookup_abandon(node->lookup);
        node->lookup = NULL;
    }
    kilni_prober_stop(&node->prober);
    kilni_redis_exchange_end_all(take_waiting(node), KILN_E_IO);
    for (size_t i = 0; i < KILNI_REDIS_LANES; i++) {
        kilni_redis_connection *connection = node->lanes[i].connection;
        node->lanes[i].connection = NULL;
        if (connection) {
            kilni_redis_exchange_end_all(kilni_redis_connection_close(connection), KILN_E_IO);
        }
    }
}

bool kilni_redis_node_may_ask(kilni_redis_node *node)
{
    const uint64_t now_ns = kilni_clock_ns();
    const bool is_closed = kilni_breaker_is_closed(&node->breaker, now_ns);
    if (!is_closed && now_ns >= kilni_breaker_retry_ns(&node->breaker)) {
        kilni_prober_start_here(&node->prober);
    }
    return is_closed;
}

void kilni_redis_note_failure(kilni_breaker *breaker, kilni_prober *prober, kiln_status status,
                              bool was_connected)
{
    const uint64_t now_ns = kilni_clock_ns();
    if (status == KILN_E_DENIED || status == KILN_E_UNAUTHENTICATED || status == KILN_E_INVALID) {
        kilni_breaker_rest(breaker, now_ns, REFUSED_FOR_NS,
                           status == KILN_E_UNAUTHENTICATED ? KILNI_FAULT_UNTRUSTED
                                                            : KILNI_FAULT_REFUSED);
    } else if (status != KILN_E_TOO_LARGE && status != KILN_E_NO_MEMORY) {
        const kilni_server_fault fault = status == KILN_TIMEOUT ? KILNI_FAULT_SILENT
                                         : was_connected        ? KILNI_FAULT_BROKEN
                                                                : KILNI_FAULT_UNREACHABLE;
        kilni_breaker_note_fault(breaker, now_ns, fault);
    }
    if (!kilni_breaker_is_closed(breaker, now_ns)) {
        kilni_prober_start_here(prober);
    }
}

kiln_status kilni_redis_status_of(kilni_server_fault fault)
{
    return fault == KILNI_FAULT_REFUSED     ? KILN_E_DENIED
           : fault == KILNI_FAULT_UNTRUSTED ? KILN_E_UNAUTHENTICATED
                                            : KILN_E_IO;
}
