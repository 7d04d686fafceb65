/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/cluster.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/redis/node.h"
#include "store/redis/slots.h"

#define NS_PER_MS UINT64_C(1000000)

/* The maximum number of nodes with slots in a cluster, and the maximum number of times that an
 * exchange is redirected. Each node may get two connections, and a node of the cluster can name any
 * number of nodes. So the first limit protects the program, which may be allowed only 1024
 * descriptors. */
#define NODES_MAX 128u
#define REDIRECTIONS_MAX 5u

/* ASK_NEXT_NS: how long a node has to send the map before the next node is asked for it too.
 * MAP_EACH_NS: the shortest time between two requests for the map. MAP_NS: how long an answer is
 * allowed to take. MAP_BYTES: the maximum size of the answer in memory. */
#define ASK_NEXT_NS (80 * NS_PER_MS)
#define MAP_EACH_NS (1000 * NS_PER_MS)
#define MAP_NS (3000 * NS_PER_MS)
#define MAP_BYTES (UINT64_C(8) << 20)

typedef struct cluster_node {
    kilni_redis_node node; /* first: a cluster_node is a kilni_redis_node */
    char host[sizeof((kilni_redis_place *)0)->host];
    char *state_file;
    bool is_configured;
    bool has_slots;
    unsigned asked_in; /* the last request for the map (its round) in which this node was asked */
} cluster_node;

struct kilni_redis_cluster {
    const kilni_remote_server *server;
    kilni_breaker breaker;
    kilni_prober prober;
    _Atomic unsigned fault;                     /* a kilni_server_fault; relaxed */
    _Atomic bool has_map;                       /* set once; relaxed */
    _Atomic uint16_t owners[KILNI_REDIS_SLOTS]; /* numbers of nodes, from 1; 0: none; relaxed */

    const char *names[KILNI_REMOTE_OTHERS_MAX + 2]; /* the configured hosts, and then NULL */
    cluster_node **nodes; /* indexed by number - 1; NULL: the number is free. The configured nodes
                             come first */
    size_t node_count, node_capacity;

    unsigned process; /* the process whose I/O thread changed the members below */
    bool is_stopped;
    bool is_asking;         /* a request for the map is under way */
    bool is_map_wanted;     /* do_work must ask for the map */
    bool is_next_wanted;    /* do_work must ask the next node for the map */
    bool is_new;            /* do_work must drop the nodes that are no longer in the map */
    unsigned round;         /* how often the map was asked for */
    unsigned requests_left; /* requests for the map that have no answer yet */
    size_t first_source;    /* where the search for a node to ask begins */
    kiln_status last_failure;
    uint64_t asked_ns;
    kilni_redis_exchange *waiting, **last_waiting; /* exchanges that wait for the map */
    kilni_redis_exchange *ready, **last_ready;     /* exchanges that do_work must send */
    kilni_timer patience;                          /* ends the wait for the map */
    kilni_timer next_source;                       /* asks the next node for the map */
    /* Does what could not be done while a connection was in the middle of its work. */
    kilni_timer work;
};

/* ---- nodes ---- */

/* Returns the path of the file with a node's state. The path consists of the path for the cluster
 * and a digest (FNV-1a) of the node's place. */
static char *state_file_of(const kilni_remote_server *server, const kilni_redis_place *place)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ place->port;
    char *path = NULL;
    for (const char *at = place->host; *at; at++) {
        sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    if (!server->state_file || asprintf(&path, "%s-%016" PRIx64, server->state_file, sum) < 0) {
        return NULL;
    }
    return path;
}

static void free_node(cluster_node *node)
{
    free(node->state_file);
    free(node);
}

/* Returns a free index in the list of nodes; NODES_MAX: no index is free. */
static size_t free_index(kilni_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->node_count; i++) {
        if (!cluster->nodes[i]) {
            return i;
        }
    }
    if (cluster->node_count == cluster->node_capacity && cluster->node_count < NODES_MAX) {
        const size_t capacity = cluster->node_capacity > 0 ? 2 * cluster->node_capacity : 16;
        cluster_node **nodes = realloc(cluster->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            return NODES_MAX;
        }
        cluster->nodes = nodes;
        cluster->node_capacity = capacity;
    }
    if (cluster->node_count < NODES_MAX) {
        cluster->nodes[cluster->node_count] = NULL;
        return cluster->node_count++;
    }
    return NODES_MAX;
}

/* Adds a node and returns its number; 0: there are too many nodes, or memory has run out. */
static unsigned add_node(kilni_redis_cluster *cluster, const kilni_redis_place *place)
{
    const size_t index = free_index(cluster);
    cluster_node *node = index < NODES_MAX ? calloc(1, sizeof *node) : NULL;
    if (!node) {
        return 0;
    }
    kilni_tls_settings tls = kilni_redis_tls_of(cluster->server);
    memcpy(node->host, place->host, sizeof node->host);
    tls.host = node->host;
    tls.other_hosts = cluster->names;
    node->state_file = state_file_of(cluster->server, place);
    kilni_redis_node_init(&node->node, cluster->server, node->host, place->port, &tls,
                          node->state_file);
    cluster->nodes[index] = node;
    return (unsigned)index + 1;
}

/* Returns the number of the node at a place. Adds the node if it is not known; returns 0 if that
 * fails.
 *
 * @teller  the node that reported the place */
static unsigned node_at(kilni_redis_cluster *cluster, const kilni_redis_place *named,
                        const kilni_redis_node *teller)
{
    kilni_redis_place place = *named;
    if (place.host[0] == '\0') {
        snprintf(place.host, sizeof place.host, "%s", teller->host);
    }
    for (size_t i = 0; i < cluster->node_count; i++) {
        const cluster_node *node = cluster->nodes[i];
        if (node && node->node.port == place.port && strcmp(node->host, place.host) == 0) {
            return (unsigned)i + 1;
        }
    }
    return add_node(cluster, &place);
}

static unsigned owner_of(const kilni_redis_cluster *cluster, unsigned slot)
{
    return atomic_load_explicit(&cluster->owners[slot], memory_order_relaxed);
}

static void set_owner(kilni_redis_cluster *cluster, unsigned slot, unsigned number)
{
    atomic_store_explicit(&cluster->owners[slot], (uint16_t)number, memory_order_relaxed);
}

static bool has_map(const kilni_redis_cluster *cluster)
{
    return atomic_load_explicit(&cluster->has_map, memory_order_relaxed);
}

/* Removes the nodes that have no slots any more, and their files. A node that is still in use is
 * removed later. */
static void drop_nodes(kilni_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->node_count; i++) {
        if (cluster->nodes[i]) {
            cluster->nodes[i]->has_slots = false;
        }
    }
    for (unsigned slot = 0; slot < KILNI_REDIS_SLOTS; slot++) {
        const unsigned owner = owner_of(cluster, slot);
        if (owner > 0) {
            cluster->nodes[owner - 1]->has_slots = true;
        }
    }
    for (size_t i = 0; i < cluster->node_count; i++) {
        cluster_node *node = cluster->nodes[i];
        if (node && !node->has_slots && !node->is_configured &&
            !kilni_redis_node_is_busy(&node->node)) {
            kilni_redis_node_stop(&node->node);
            if (node->state_file) {
                kilni_server_state_remove(node->state_file);
            }
            cluster->nodes[i] = NULL;
            free_node(node);
        }
    }
}

/* ---- ends ---- */

/* Appends the exchanges of a list to a different list. */
static void append(kilni_redis_exchange ***last, kilni_redis_exchange *first)
{
    **last = first;
    while (**last) {
        *last = &(**last)->next;
    }
}

static void append_one(kilni_redis_exchange ***last, kilni_redis_exchange *exchange)
{
    exchange->next = NULL;
    append(last, exchange);
}

/* Makes the I/O thread do the remaining work, soon after this function returns. */
static void start_work(kilni_redis_cluster *cluster)
{
    kilni_timer_start(&cluster->work, 1);
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

static void note_fault(kilni_redis_cluster *cluster, const kilni_breaker *breaker)
{
    atomic_store_explicit(&cluster->fault, (unsigned)kilni_breaker_fault(breaker),
                          memory_order_relaxed);
}

static kilni_redis_exchange *take_waiting(kilni_redis_cluster *cluster)
{
    kilni_redis_exchange *waiting = cluster->waiting;
    cluster->waiting = NULL;
    cluster->last_waiting = &cluster->waiting;
    kilni_timer_stop(&cluster->patience);
    return waiting;
}

static void want_map(kilni_redis_cluster *cluster)
{
    if (kilni_clock_ns() - cluster->asked_ns >= MAP_EACH_NS) {
        cluster->is_map_wanted = true;
        start_work(cluster);
    }
}

/* ---- the map ---- */

/* Returns true if an exchange has a valid reply to CLUSTER SLOTS. The reply must have at least one
 * slot, and must not have more slots than exist. */
static bool has_sound_map(const kilni_redis_exchange *exchange)
{
    kilni_redis_range range;
    size_t at = 0;
    size_t slots = 0;
    kiln_status status;
    while ((status = kilni_redis_range_next(exchange->values, exchange->value_count, &at,
                                            &range)) == KILN_OK) {
        slots += (size_t)range.last - range.first + 1;
    }
    return status == KILN_MISS && slots > 0 && slots <= KILNI_REDIS_SLOTS;
}

/* Adopts a valid map. Slots that are missing in it keep their nodes. */
static void take_map(kilni_redis_cluster *cluster, const kilni_redis_exchange *exchange)
{
    kilni_redis_range range;
    size_t at = 0;
    while (kilni_redis_range_next(exchange->values, exchange->value_count, &at, &range) ==
           KILN_OK) {
        const unsigned number = node_at(cluster, &range.place, exchange->node);
        for (unsigned slot = range.first; number > 0 && slot <= range.last; slot++) {
            set_owner(cluster, slot, number);
        }
    }
    atomic_store_explicit(&cluster->has_map, true, memory_order_relaxed);
    cluster->is_asking = false;
    cluster->is_new = true;
    kilni_breaker_note_answer(&cluster->breaker, kilni_clock_ns());
    kilni_timer_stop(&cluster->next_source);
}

/* Ends the exchanges that wait for the map. If there is no map at all, the cluster cannot be used,
 * because no node has reported which node has which slot. */
static void give_up(kilni_redis_cluster *cluster, kiln_status status)
{
    if (!has_map(cluster)) {
        kilni_redis_note_failure(&cluster->breaker, &cluster->prober, status,
                                 status == KILN_E_CORRUPT);
        note_fault(cluster, &cluster->breaker);
    }
    finish_all(take_waiting(cluster), status);
}

/* Returns the status of a reply that is not a map. */
static kiln_status status_of_refusal(const kilni_redis_exchange *exchange)
{
    static const char *const words[] = {"NOPERM", "NOAUTH", "DENIED"};
    for (size_t i = 0; i < sizeof words / sizeof words[0] && exchange->value_count == 1; i++) {
        if (kilni_redis_value_is_error(&exchange->values[0], words[i])) {
            return KILN_E_DENIED;
        }
    }
    return KILN_E_CORRUPT;
}

static void map_ended(kilni_redis_exchange *exchange)
{
    kilni_redis_cluster *cluster = exchange->asker;
    kiln_status status = exchange->status;
    cluster->requests_left--;
    if (cluster->is_stopped) {
        kilni_call_release(&exchange->call);
        return;
    }
    if (status == KILN_OK && !has_sound_map(exchange)) {
        status = status_of_refusal(exchange);
    }
    /* The first map is used. A later answer may have an older view of the cluster. */
    if (status == KILN_OK && cluster->is_asking) {
        take_map(cluster, exchange);
        append(&cluster->last_ready, take_waiting(cluster));
    } else if (status != KILN_OK) {
        cluster->last_failure = status;
        cluster->first_source++;
        cluster->is_next_wanted = true;
    }
    start_work(cluster);
    kilni_call_release(&exchange->call);
}

/* Returns the next node to ask for the map; NULL: all nodes have been asked. Nodes with open
 * breakers come last. They are asked only if there is no map. */
static cluster_node *next_source(kilni_redis_cluster *cluster)
{
    cluster_node *other = NULL;
    for (size_t i = 0; i < cluster->node_count; i++) {
        cluster_node *node = cluster->nodes[(cluster->first_source + i) % cluster->node_count];
        if (node && node->asked_in != cluster->round) {
            if (kilni_redis_node_may_ask(&node->node)) {
                return node;
            }
            other = other ? other : node;
        }
    }
    return has_map(cluster) ? NULL : other;
}

static void ask_for_map(kilni_redis_cluster *cluster, cluster_node *node)
{
    static const kilni_resp_argument command[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    kilni_redis_exchange *exchange;
    node->asked_in = cluster->round;
    if (kilni_redis_exchange_new(NULL, MAP_BYTES, kilni_clock_ns() + MAP_NS, &exchange) !=
        KILN_OK) {
        return;
    }
    exchange->lane = KILNI_REDIS_LANE_LOOKUPS;
    exchange->may_repeat = true;
    exchange->node = &node->node;
    exchange->asker = cluster;
    exchange->ended = map_ended;
    if (kilni_redis_exchange_add(exchange, command, 2) != KILN_OK) {
        kilni_call_release(&exchange->call);
        return;
    }
    cluster->requests_left++;
    kilni_redis_node_send(&node->node, exchange);
}

/* Asks the next node. Gives up if there is no such node and no answer is outstanding. */
static void continue_asking(kilni_redis_cluster *cluster)
{
    cluster_node *node = next_source(cluster);
    if (node) {
        kilni_timer_start(&cluster->next_source, kilni_clock_ns() + ASK_NEXT_NS);
        ask_for_map(cluster, node);
    } else if (cluster->requests_left == 0) {
        cluster->is_asking = false;
        give_up(cluster, cluster->last_failure);
    }
}

static void begin_asking(kilni_redis_cluster *cluster)
{
    if (!cluster->is_asking) {
        cluster->is_asking = true;
        /* The node that sent the last map may be the one that is wrong. */
        cluster->first_source += has_map(cluster) ? 1 : 0;
        cluster->asked_ns = kilni_clock_ns();
        cluster->last_failure = KILN_E_IO;
        cluster->round++;
        continue_asking(cluster);
    }
}

static void ask_next_source(kilni_timer *timer)
{
    kilni_redis_cluster *cluster =
        (kilni_redis_cluster *)((char *)timer - offsetof(kilni_redis_cluster, next_source));
    if (cluster->is_asking) {
        continue_asking(cluster);
    }
}

/* Ends only the wait. The request for the map continues, and later exchanges can use its result. */
static void end_wait_for_map(kilni_timer *timer)
{
    kilni_redis_cluster *cluster =
        (kilni_redis_cluster *)((char *)timer - offsetof(kilni_redis_cluster, patience));
    give_up(cluster, KILN_TIMEOUT);
}

static void wait_for_map(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange)
{
    if (!cluster->waiting) {
        const uint64_t now_ns = kilni_clock_ns();
        kilni_timer_start(&cluster->patience,
                          now_ns + (kilni_breaker_is_known(&cluster->breaker, now_ns)
                                        ? KILNI_REDIS_PATIENCE_IF_KNOWN_NS
                                        : KILNI_REDIS_PATIENCE_NS));
    }
    append_one(&cluster->last_waiting, exchange);
    begin_asking(cluster);
}

/* ---- exchanges ---- */

/* Adopts what the replies report about the nodes of slots. Returns true if the exchange must be
 * sent once more. */
static bool is_redirected(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange)
{
    kilni_redis_redirection redirection = KILNI_REDIS_STAYS;
    unsigned number = 0;
    for (size_t i = 0; i < exchange->value_count; i++) {
        uint16_t slot;
        kilni_redis_place place;
        const kilni_redis_redirection found =
            kilni_redis_redirection_read(&exchange->values[i], &slot, &place);
        if (found != KILNI_REDIS_STAYS) {
            redirection = found;
            number = node_at(cluster, &place, exchange->node);
        }
        if (found == KILNI_REDIS_MOVED && number > 0) {
            set_owner(cluster, slot, number);
            want_map(cluster);
        }
    }
    if (number == 0 || exchange->stays || exchange->redirections == REDIRECTIONS_MAX) {
        return false;
    }
    exchange->redirections++;
    exchange->hops = 0;
    exchange->is_repeated = false;
    exchange->node = &cluster->nodes[number - 1]->node;
    if (redirection == KILNI_REDIS_ASK) {
        return kilni_redis_exchange_rewind_asking(exchange) == KILN_OK;
    }
    kilni_redis_exchange_rewind(exchange);
    return true;
}

/* Called when a node has answered an exchange, or has failed. */
static void ended(kilni_redis_exchange *exchange)
{
    kilni_redis_cluster *cluster = exchange->asker;
    if (exchange->status == KILN_OK && is_redirected(cluster, exchange)) {
        append_one(&cluster->last_ready, exchange);
        start_work(cluster);
        return;
    }
    const bool has_failed =
        exchange->status != KILN_OK || kilni_breaker_retry_ns(&exchange->node->breaker) != 0;
    if (has_failed && !cluster->is_stopped) {
        note_fault(cluster, &exchange->node->breaker);
        want_map(cluster);
    }
    kilni_call_finish(&exchange->call);
}

/* Sends an exchange to its node. If the node's breaker is open, the exchange fails, and the cluster
 * asks for the map, because a replica may have taken the node's place. */
static void send_to_node(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange)
{
    kilni_redis_node *node = exchange->node;
    if (kilni_redis_node_may_ask(node)) {
        kilni_redis_node_send(node, exchange);
        return;
    }
    note_fault(cluster, &node->breaker);
    want_map(cluster);
    finish(exchange, kilni_redis_status_of(kilni_breaker_fault(&node->breaker)));
}

static void route(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange)
{
    const unsigned owner = owner_of(cluster, exchange->slot);
    exchange->asker = cluster;
    exchange->ended = ended;
    if (cluster->is_stopped || kilni_call_is_abandoned(&exchange->call)) {
        finish(exchange, KILN_TIMEOUT);
    } else if (owner > 0) {
        exchange->node = &cluster->nodes[owner - 1]->node;
        send_to_node(cluster, exchange);
    } else if (!has_map(cluster)) {
        wait_for_map(cluster, exchange);
    } else {
        want_map(cluster);
        finish(exchange, KILN_E_IO);
    }
}

static void do_work(kilni_timer *timer)
{
    kilni_redis_cluster *cluster =
        (kilni_redis_cluster *)((char *)timer - offsetof(kilni_redis_cluster, work));
    kilni_redis_exchange *exchange = cluster->ready;
    const bool is_map_wanted = cluster->is_map_wanted;
    const bool is_next_wanted = cluster->is_next_wanted;
    cluster->ready = NULL;
    cluster->last_ready = &cluster->ready;
    cluster->is_map_wanted = false;
    cluster->is_next_wanted = false;
    while (exchange) {
        kilni_redis_exchange *next = exchange->next;
        if (exchange->node) {
            send_to_node(cluster, exchange);
        } else {
            route(cluster, exchange);
        }
        exchange = next;
    }
    if (is_map_wanted) {
        begin_asking(cluster);
    }
    if (is_next_wanted && cluster->is_asking) {
        continue_asking(cluster);
    }
    /* Only exchanges that were already sent to their nodes refer to nodes now. */
    if (cluster->is_new && !cluster->ready) {
        cluster->is_new = false;
        drop_nodes(cluster);
    }
}

/* In a forked child, forgets the work of the parent process. */
static void enter_process(kilni_redis_cluster *cluster)
{
    if (cluster->process != kilni_loop_process()) {
        cluster->process = kilni_loop_process();
        cluster->is_asking = false;
        cluster->is_map_wanted = false;
        cluster->is_next_wanted = false;
        cluster->requests_left = 0;
        cluster->waiting = NULL;
        cluster->last_waiting = &cluster->waiting;
        cluster->ready = NULL;
        cluster->last_ready = &cluster->ready;
        cluster->patience = (kilni_timer){.expire = end_wait_for_map};
        cluster->next_source = (kilni_timer){.expire = ask_next_source};
        cluster->work = (kilni_timer){.expire = do_work};
    }
}

/* Asks for the map. No caller waits for it. */
static void probe(kilni_prober *prober)
{
    kilni_redis_cluster *cluster =
        (kilni_redis_cluster *)((char *)prober - offsetof(kilni_redis_cluster, prober));
    enter_process(cluster);
    begin_asking(cluster);
}

/* ---- the interface ---- */

static kiln_status add_configured(kilni_redis_cluster *cluster)
{
    const kilni_remote_server *server = cluster->server;
    for (size_t i = 0; i <= server->other_count; i++) {
        kilni_redis_place place = {.port = i == 0 ? server->port : server->others[i - 1].port};
        const char *host = i == 0 ? server->host : server->others[i - 1].host;
        snprintf(place.host, sizeof place.host, "%s", host);
        const unsigned number = node_at(cluster, &place, NULL);
        if (number == 0) {
            return KILN_E_NO_MEMORY;
        }
        cluster->names[i] = host;
        cluster->nodes[number - 1]->is_configured = true;
    }
    return KILN_OK;
}

kiln_status kilni_redis_cluster_new(const kilni_remote_server *server,
                                    kilni_redis_cluster **ret_cluster)
{
    kilni_redis_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster) {
        return KILN_E_NO_MEMORY;
    }
    cluster->server = server;
    cluster->process = KILNI_NO_PROCESS;
    cluster->breaker.file = server->state_file;
    kilni_prober_init(&cluster->prober, &cluster->breaker, probe);
    const kiln_status status = add_configured(cluster);
    if (status != KILN_OK) {
        kilni_redis_cluster_free(cluster);
        return status;
    }
    *ret_cluster = cluster;
    return KILN_OK;
}

void kilni_redis_cluster_free(kilni_redis_cluster *cluster)
{
    for (size_t i = 0; i < cluster->node_count; i++) {
        if (cluster->nodes[i]) {
            free_node(cluster->nodes[i]);
        }
    }
    free(cluster->nodes);
    free(cluster);
}

kilni_breaker *kilni_redis_cluster_breaker(kilni_redis_cluster *cluster)
{
    return &cluster->breaker;
}

kilni_prober *kilni_redis_cluster_prober(kilni_redis_cluster *cluster)
{
    return &cluster->prober;
}

kilni_server_fault kilni_redis_cluster_fault(const kilni_redis_cluster *cluster)
{
    return (kilni_server_fault)atomic_load_explicit(&cluster->fault, memory_order_relaxed);
}

bool kilni_redis_cluster_has_map(const kilni_redis_cluster *cluster)
{
    return has_map(cluster);
}

unsigned kilni_redis_cluster_owner(const kilni_redis_cluster *cluster, unsigned slot)
{
    return owner_of(cluster, slot);
}

unsigned kilni_redis_cluster_next(const kilni_redis_cluster *cluster, unsigned slot)
{
    bool is_seen[NODES_MAX + 1] = {true}; /* slots without a node are skipped */
    for (unsigned i = 0; i < KILNI_REDIS_SLOTS; i++) {
        const unsigned owner = owner_of(cluster, i);
        if (!is_seen[owner] && i > slot) {
            return i;
        }
        is_seen[owner] = true;
    }
    return KILNI_REDIS_SLOTS;
}

void kilni_redis_cluster_send(kilni_redis_cluster *cluster, kilni_redis_exchange *exchange)
{
    enter_process(cluster);
    route(cluster, exchange);
}

void kilni_redis_cluster_stop(kilni_redis_cluster *cluster)
{
    enter_process(cluster);
    cluster->is_stopped = true;
    kilni_prober_stop(&cluster->prober);
    for (size_t i = 0; i < cluster->node_count; i++) {
        if (cluster->nodes[i]) {
            kilni_redis_node_stop(&cluster->nodes[i]->node);
        }
    }
    kilni_timer_stop(&cluster->next_source);
    kilni_timer_stop(&cluster->work);
    finish_all(take_waiting(cluster), KILN_E_IO);
    finish_all(cluster->ready, KILN_E_IO);
    cluster->ready = NULL;
    cluster->last_ready = &cluster->ready;
}
