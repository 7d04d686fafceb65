/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/client.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/redis/cluster.h"
#include "store/redis/node.h"
#include "store/redis/slots.h"

struct kilni_redis_client {
    kilni_task closing;
    kilni_remote_server server;
    char *texts; /* a block of memory with the texts to which @server points */
    /* The breaker of the server or the cluster. */
    kilni_breaker *breaker;
    kilni_prober *prober;

    /* The handle holds one reference, and each exchange holds another. Each decrement is both a
     * release and an acquire, so the thread that frees the client sees all changes by other
     * threads. */
    _Atomic unsigned references;
    /* The process that last used the client. Only the I/O thread of that process can refer to the
     * client. No other call is running when the client is closed, so every access is relaxed. */
    _Atomic unsigned asked_in;
    /* The last call ended because its caller stopped waiting, although the server may still have
     * been sending. Relaxed. */
    _Atomic bool is_late;

    /* Only the I/O thread uses these. The headers of these types state the exceptions. */
    kilni_redis_node node;
    kilni_redis_cluster *cluster; /* NULL: not a cluster; the server is the node */
};

static void drop_reference(kilni_redis_client *client)
{
    if (atomic_fetch_sub_explicit(&client->references, 1, memory_order_acq_rel) == 1) {
        if (client->cluster) {
            kilni_redis_cluster_free(client->cluster);
        }
        free(client->texts);
        free(client);
    }
}

static void forget(void *owner)
{
    drop_reference(owner);
}

/* ---- the I/O thread ---- */

static void run(kilni_task *task)
{
    kilni_redis_exchange *exchange = (kilni_redis_exchange *)task;
    kilni_redis_client *client = exchange->owner;
    if (client->cluster) {
        kilni_redis_cluster_send(client->cluster, exchange);
    } else {
        kilni_redis_node_send(&client->node, exchange);
    }
}

static void close_on_thread(kilni_task *task)
{
    kilni_redis_client *client =
        (kilni_redis_client *)((char *)task - offsetof(kilni_redis_client, closing));
    if (client->cluster) {
        kilni_redis_cluster_stop(client->cluster);
    } else {
        kilni_redis_node_stop(&client->node);
    }
    drop_reference(client);
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

/* Makes the node or the cluster to which the client sends exchanges. */
static kiln_status make_server(kilni_redis_client *client)
{
    if (client->server.is_cluster) {
        const kiln_status status = kilni_redis_cluster_new(&client->server, &client->cluster);
        if (status == KILN_OK) {
            client->breaker = kilni_redis_cluster_breaker(client->cluster);
            client->prober = kilni_redis_cluster_prober(client->cluster);
        }
        return status;
    }
    const kilni_tls_settings tls = kilni_redis_tls_of(&client->server);
    kilni_redis_node_init(&client->node, &client->server, client->server.host, client->server.port,
                          &tls, client->server.state_file);
    client->breaker = &client->node.breaker;
    client->prober = &client->node.prober;
    return KILN_OK;
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
    if (!client->texts || make_server(client) != KILN_OK) {
        free(client->texts);
        free(client);
        return KILN_E_NO_MEMORY;
    }
    atomic_init(&client->references, 1);
    atomic_init(&client->asked_in, KILNI_NO_PROCESS);
    *ret_client = client;
    return KILN_OK;
}

/* If this process has never used the client, the I/O thread does not refer to the client, which is
 * then freed immediately. If the I/O thread has ended, the objects to which it referred can never
 * be freed. */
void kilni_redis_client_close(kilni_redis_client *client)
{
    client->closing.run = close_on_thread;
    if (atomic_load_explicit(&client->asked_in, memory_order_relaxed) != kilni_loop_process()) {
        drop_reference(client);
    } else {
        kilni_loop_post(&client->closing);
    }
}

kiln_status kilni_redis_client_prepare(kilni_redis_client *client, unsigned lane, unsigned slot,
                                       uint64_t max_bytes, uint64_t deadline_ns,
                                       kilni_redis_exchange **ret_exchange)
{
    const kiln_status status = kilni_redis_exchange_new(run, max_bytes, deadline_ns, ret_exchange);
    if (status == KILN_OK) {
        atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
        (*ret_exchange)->owner = client;
        (*ret_exchange)->forget = forget;
        (*ret_exchange)->lane = lane;
        (*ret_exchange)->slot = (uint16_t)slot;
        (*ret_exchange)->may_repeat = lane == KILNI_REDIS_LANE_LOOKUPS;
    }
    return status;
}

/* Returns true if the caller is allowed to contact the server. If a probe is due, makes the I/O
 * thread probe the server.
 *
 * @start_prober  kilni_prober_start; on the I/O thread, kilni_prober_start_here */
static bool may_ask(kilni_redis_client *client, void (*start_prober)(kilni_prober *prober))
{
    const uint64_t now_ns = kilni_clock_ns();
    const bool is_closed = (client->cluster && kilni_redis_cluster_has_map(client->cluster)) ||
                           kilni_breaker_is_closed(client->breaker, now_ns);
    if (!is_closed && now_ns < kilni_breaker_retry_ns(client->breaker)) {
        return false;
    }
    atomic_store_explicit(&client->asked_in, kilni_loop_process(), memory_order_relaxed);
    if (!is_closed) {
        start_prober(client->prober);
    }
    return is_closed;
}

bool kilni_redis_client_needs_map(const kilni_redis_client *client)
{
    return client->cluster && !kilni_redis_cluster_has_map(client->cluster);
}

unsigned kilni_redis_client_node_of(const kilni_redis_client *client, unsigned slot)
{
    return client->cluster ? kilni_redis_cluster_owner(client->cluster, slot) : 0;
}

unsigned kilni_redis_client_next_node(const kilni_redis_client *client, unsigned slot)
{
    return client->cluster ? kilni_redis_cluster_next(client->cluster, slot) : KILNI_REDIS_SLOTS;
}

kiln_status kilni_redis_client_start(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    return may_ask(client, kilni_prober_start)
               ? kilni_call_start(&exchange->call)
               : kilni_redis_status_of(kilni_breaker_fault(client->breaker));
}

/* Treats a server that does not answer in time like a server that cannot be reached. */
kiln_status kilni_redis_client_wait(kilni_redis_exchange *exchange)
{
    kilni_redis_client *client = exchange->owner;
    kiln_status status = kilni_call_wait(&exchange->call);
    atomic_store_explicit(&client->is_late, status == KILN_TIMEOUT, memory_order_relaxed);
    if (status == KILN_OK) {
        status = exchange->status;
    }
    return status == KILN_TIMEOUT || status == KILN_E_CORRUPT ? KILN_E_IO : status;
}

kiln_status kilni_redis_client_ask(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    const kiln_status status = kilni_redis_client_start(client, exchange);
    return status == KILN_OK ? kilni_redis_client_wait(exchange) : status;
}

bool kilni_redis_client_is_away(kilni_redis_client *client, kilni_server_state *ret_state)
{
    const bool has_map = client->cluster && kilni_redis_cluster_has_map(client->cluster);
    return !has_map && kilni_breaker_is_open(client->breaker, kilni_clock_ns(), ret_state);
}

kilni_server_fault kilni_redis_client_fault(const kilni_redis_client *client)
{
    if (atomic_load_explicit(&client->is_late, memory_order_relaxed)) {
        return KILNI_FAULT_SILENT;
    }
    return client->cluster ? kilni_redis_cluster_fault(client->cluster)
                           : kilni_breaker_fault(client->breaker);
}

void kilni_redis_client_send(kilni_redis_client *client, kilni_redis_exchange *exchange)
{
    if (may_ask(client, kilni_prober_start_here)) {
        kilni_call_send(&exchange->call);
    } else {
        kilni_call_release(&exchange->call);
    }
}
