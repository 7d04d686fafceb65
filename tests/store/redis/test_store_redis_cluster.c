/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on a real Redis cluster: slots that move, nodes that fail, and a replica that takes over.
 * All tests use one cluster, because it takes seconds to start.
 */
#include "support/server_conformance.h"

#include <glob.h>

#include "store/redis/slots.h"
#include "support/certificates.h"
#include "support/fault_proxy.h"
#include "support/redis_cluster.h"
#include "support/system_names.h"

#define KEYS 30u

static char home[SCRATCH_DIRECTORY_SIZE]; /* of the cluster and the certificates */
static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_cluster cluster;

/* ---- the scene ---- */

static const char *location_at(unsigned port, const char *options)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "redis-cluster://127.0.0.1:%u?%s", port, options);
    return location;
}

static const char *location_of(const char *options)
{
    return location_at(cluster.nodes[1].port, options);
}

static void describe(kilni_remote_server *described)
{
    snprintf(described->host, sizeof described->host, "127.0.0.1");
    described->port = (uint16_t)cluster.nodes[2].port;
    described->is_cluster = true;
}

static int start_cluster(void **state)
{
    (void)state;
    scratch_make(home);
    return certificates_make_authority(home, "ca") &&
                   certificates_make(home, "ca", "server", "DNS:localhost") &&
                   redis_cluster_start(&cluster, home, home)
               ? 0
               : -1;
}

static int stop_cluster(void **state)
{
    (void)state;
    redis_cluster_stop(&cluster);
    scratch_remove(home);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    conformance = (conformance_scene){.location = location_of,
                                      .connector = KILNI_REDIS_CONNECTOR,
                                      .describe = describe,
                                      .before = "kiln:v1:{",
                                      .behind = "}",
                                      .before_damaged = "kiln:v1:{",
                                      .behind_damaged = "}:damaged",
                                      .folder = scratch,
                                      .has_lists = true,
                                      .is_trimmed = true};
    open_store(location_of("trust=any"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kiln_store_close(&store);
    kilni_remote_set_runtime_folder("/nonexistent");
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        if (cluster.nodes[i].process > 0) {
            kill(cluster.nodes[i].process, SIGCONT);
            redis_say(&cluster.nodes[i], "FLUSHALL");
        }
    }
    scratch_remove(scratch);
    return 0;
}

static unsigned slot_of(uint64_t number)
{
    const char *name = name_of(number);
    return kilni_redis_slot_of(name, strlen(name));
}

/* The master that has a key's slot when a test begins. */
static unsigned master_of(uint64_t number)
{
    unsigned master = 0;
    while (slot_of(number) >= (master + 1) * REDIS_SLOTS / REDIS_MASTERS) {
        master++;
    }
    return master;
}

/* Sends a command in which a name, a number or both replace the first %s and %u. */
static const char *say(unsigned node, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *say(unsigned node, const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return redis_say(&cluster.nodes[node], command);
}

static void expect(const char *reply, const char *begin)
{
    if (strncmp(reply, begin, strlen(begin)) != 0) {
        fail_msg("%s instead of %s", reply, begin);
    }
}

/* Puts keys until each master has some. */
static void put_keys(void)
{
    bool has[REDIS_MASTERS] = {false};
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(put(i, 1000), KILN_OK);
        has[master_of(i)] = true;
    }
    assert_true(has[0] && has[1] && has[2]);
}

static uint64_t key_on(unsigned master)
{
    uint64_t number = 0;
    while (master_of(number) != master) {
        number++;
    }
    return number;
}

/* ---- slots ---- */

static void test_each_master_has_its_entries(void **state)
{
    (void)state;
    unsigned count = 0;
    put_keys();
    for (uint64_t i = 0; i < KEYS; i++) {
        expect(say(master_of(i), "EXISTS %s", name_of(i)), ":1");
    }
    assert_int_equal(kiln_store_each(store, count_item, &count), KILN_OK);
    assert_int_equal(count, KEYS);
}

/* An entry and its lease are on the same node, whichever that is. */
static void test_leases(void **state)
{
    (void)state;
    for (unsigned master = 0; master < REDIS_MASTERS; master++) {
        kiln_key *key = scratch_key(key_on(master));
        kiln_lease *lease = NULL, *second = NULL;
        PATIENTLY(kiln_store_lease(store, key, 0, &lease))
        assert_int_equal(status, KILN_OK);
        expect(say(master, "EXISTS %s:lease", name_of(key_on(master))), ":1");
        assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
        kiln_lease_release(&lease);
        expect(say(master, "EXISTS %s:lease", name_of(key_on(master))), ":0");
        kiln_key_release(&key);
    }
}

static void begin_to_move(unsigned slot, unsigned from, unsigned to)
{
    expect(say(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster.ids[from]), "+OK");
    expect(say(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster.ids[to]), "+OK");
}

static void move_value(uint64_t number, unsigned from, unsigned to)
{
    expect(say(from, "MIGRATE 127.0.0.1 %u %s 0 5000", cluster.tls_ports[to], name_of(number)),
           "+OK");
}

/* Whether all masters know the newest epoch. */
static bool agree_on_epoch(void)
{
    unsigned long long epochs[REDIS_MASTERS] = {0};
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        const char *epoch = strstr(say(i, "CLUSTER INFO"), "cluster_current_epoch:");
        epochs[i] = epoch ? strtoull(epoch + strlen("cluster_current_epoch:"), NULL, 10) : 0;
    }
    return epochs[0] != 0 && epochs[0] == epochs[1] && epochs[0] == epochs[2];
}

/* The new owner of a slot chooses an epoch above all those it knows. The next move must therefore
 * wait until each node knows this one's. Otherwise a late message from the previous owner, whose
 * epoch is newer, takes the slot back, and the node deletes the keys in it. */
static void end_move(unsigned slot, unsigned to)
{
    expect(say(to, "CLUSTER SETSLOT %u NODE %s", slot, cluster.ids[to]), "+OK");
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        expect(say(i, "CLUSTER SETSLOT %u NODE %s", slot, cluster.ids[to]), "+OK");
    }
    for (unsigned i = 0; i < 3000 && !agree_on_epoch(); i++) {
        kilni_sleep_ns(10000000);
    }
    assert_true(agree_on_epoch());
}

/* Each test that moves a slot moves it back. */
static void move_back(uint64_t number, unsigned from, unsigned to)
{
    begin_to_move(slot_of(number), from, to);
    if (strcmp(say(from, "EXISTS %s", name_of(number)), ":1\r\n") == 0) {
        move_value(number, from, to);
    }
    end_move(slot_of(number), to);
}

static unsigned count_asking(unsigned node)
{
    const char *calls = strstr(say(node, "INFO commandstats"), "cmdstat_asking:calls=");
    return calls ? (unsigned)atoi(calls + strlen("cmdstat_asking:calls=")) : 0;
}

static int count_sound_item(void *user, kiln_item *item)
{
    kiln_entry *entry = NULL;
    count_item(user, item);
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    kiln_entry_release(&entry);
    return 0;
}

/* While a slot moves, entries that have moved are found on the new node, and the others on the old
 * one. Later, the old node names the new one. */
static void test_a_slot_moves(void **state)
{
    (void)state;
    const uint64_t number = key_on(0);
    unsigned count = 0;
    put_keys();
    for (unsigned i = 0; i < 4; i++) {
        say(i, "CONFIG RESETSTAT");
    }
    begin_to_move(slot_of(number), 0, 1);
    assert_int_equal(get(number), KILN_OK);
    assert_int_equal(count_asking(1), 0);
    move_value(number, 0, 1);
    assert_int_equal(get(number), KILN_OK);
    assert_int_equal(contains(number), KILN_OK);
    assert_true(count_asking(1) >= 2);
    assert_int_equal(put(number, 2000), KILN_OK);
    assert_int_equal(kiln_store_each(store, count_sound_item, &count), KILN_OK);
    assert_int_equal(count, KEYS);
    const unsigned asked = count_asking(1);
    end_move(slot_of(number), 1);
    assert_int_equal(get(number), KILN_OK);
    assert_int_equal(remove_number(number), KILN_OK);
    assert_int_equal(get(number), KILN_MISS);
    assert_int_equal(count_asking(1), asked);
    move_back(number, 1, 0);
    assert_int_equal(get(number), KILN_MISS);
}

/* The store believes that the entry is where it was, and asks for it together with others. */
static void test_a_slot_has_moved(void **state)
{
    (void)state;
    const uint64_t number = key_on(2);
    unsigned count = 0;
    put_keys();
    begin_to_move(slot_of(number), 2, 0);
    move_value(number, 2, 0);
    end_move(slot_of(number), 0);
    assert_int_equal(kiln_store_each(store, count_sound_item, &count), KILN_OK);
    assert_int_equal(count, KEYS);
    assert_int_equal(put(number, 3000), KILN_OK);
    expect(say(0, "EXISTS %s", name_of(number)), ":1");
    move_back(number, 0, 2);
    assert_int_equal(get(number), KILN_OK);
}

/* A trim asks about the use of an entry with more commands than a look-up has. The entry is the
 * only one on its node, so no other name keeps the questions from being redirected. */
static void test_a_lonely_entry_is_judged_while_it_moves(void **state)
{
    (void)state;
    const uint64_t number = key_on(0);
    const kiln_trim_params params = {.struct_size = sizeof params};
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(put(number, 1000), KILN_OK);
    begin_to_move(slot_of(number), 0, 1);
    move_value(number, 0, 1);
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_int_equal(report.entries, 1);
    assert_int_equal(report.removed, 0);
    end_move(slot_of(number), 1);
    move_back(number, 1, 0);
}

static unsigned count_moved(unsigned node)
{
    const char *count = strstr(say(node, "INFO errorstats"), "errorstat_MOVED:count=");
    return count ? (unsigned)atoi(count + strlen("errorstat_MOVED:count=")) : 0;
}

/* A process that does not know the nodes yet learns of them before it divides its keys. */
static void test_many_keys_go_to_their_nodes(void **state)
{
    (void)state;
    kiln_key *keys[KEYS];
    kiln_status statuses[KEYS];
    unsigned moved = 0;
    put_keys();
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        moved += count_moved(i);
    }
    open_store(location_of("trust=any"));
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = scratch_key(i);
    }
    assert_int_equal(kiln_store_contains_many(store, (const kiln_key *const *)keys, KEYS, statuses),
                     KILN_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(statuses[i], KILN_OK);
        kiln_key_release(&keys[i]);
    }
    for (unsigned i = 0; i < REDIS_MASTERS; i++) {
        moved -= count_moved(i);
    }
    assert_int_equal(moved, 0);
}

/* Two nodes each say that the other one has the slot. */
static void test_nodes_that_disagree(void **state)
{
    (void)state;
    const uint64_t number = key_on(1);
    const unsigned slot = slot_of(number);
    assert_int_equal(contains(number), KILN_MISS);
    say(1, "CONFIG RESETSTAT");
    say(2, "CONFIG RESETSTAT");
    expect(say(1, "CLUSTER SETSLOT %u NODE %s", slot, cluster.ids[2]), "+OK");
    assert_int_equal(scratch_get(store, number), KILN_E_IO);
    assert_in_range(count_moved(1) + count_moved(2), 2, 6);
    assert_int_equal(get(key_on(0)), KILN_MISS);
    expect(say(2, "CLUSTER SETSLOT %u NODE %s", slot, cluster.ids[1]), "+OK");
    end_move(slot, 1);
    assert_int_equal(put(number, 1000), KILN_OK);
    assert_int_equal(get(number), KILN_OK);
}

/* ---- opening ---- */

static void test_several_nodes_in_the_url(void **state)
{
    (void)state;
    char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location,
             "redis-cluster://127.0.0.1:%u,localhost:%u,127.0.0.1:%u?trust=any", free_port(),
             free_port(), cluster.nodes[1].port);
    open_store(location);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(put(1, 1000), KILN_OK);
}

/* The nodes announce no hosts, only ports, in the list of slots and when they name each other. */
static void test_nodes_without_hosts(void **state)
{
    (void)state;
    const uint64_t number = key_on(0);
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        expect(say(i, "CONFIG SET cluster-preferred-endpoint-type unknown-endpoint"), "+OK");
    }
    open_store(location_of("trust=any"));
    put_keys();
    begin_to_move(slot_of(number), 0, 2);
    move_value(number, 0, 2);
    assert_int_equal(get(number), KILN_OK);
    end_move(slot_of(number), 2);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(get(i), KILN_OK);
    }
    move_back(number, 2, 0);
    assert_int_equal(get(number), KILN_OK);
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        expect(say(i, "CONFIG SET cluster-preferred-endpoint-type ip"), "+OK");
    }
}

static void test_no_cluster(void **state)
{
    (void)state;
    static const char *const no_options[] = {NULL};
    redis_server single;
    assert_true(redis_start(&single, scratch, no_options));
    open_store(location_at(single.port, "trust=any"));
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    redis_stop(&single);
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
}

static void test_passwords(void **state)
{
    (void)state;
    char options[SCRATCH_PATH_SIZE];
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        expect(say(i,
                   "ACL SETUSER writer on >right ~kiln:* -@all +get +set +unlink +exists +strlen "
                   "+getrange +scan +info|memory +eval +pexpire +del +cluster|slots +asking"),
               "+OK");
    }
    snprintf(options, sizeof options, "trust=any&password-file=%s",
             file_with("right", "right", 5, 0600));
    const char *location = location_of(options);
    char with_user[3 * SCRATCH_PATH_SIZE];
    snprintf(with_user, sizeof with_user, "redis-cluster://writer@%s",
             location + strlen("redis-cluster://"));
    open_store(with_user);
    put_keys();
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(get(i), KILN_OK);
    }
    file_with("right", "wrong", 5, 0600);
    open_store(with_user);
    assert_int_equal(get(1), KILN_E_DENIED);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
}

/* The certificate names only "localhost", and the nodes name each other 127.0.0.1. */
static void test_tls(void **state)
{
    (void)state;
    char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "rediss-cluster://localhost:%u?trust=any&ca=%s/ca.pem",
             cluster.tls_ports[0], home);
    open_store(location);
    put_keys();
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(get(i), KILN_OK);
    }
    snprintf(location, sizeof location, "rediss-cluster://127.0.0.1:%u?trust=any&ca=%s/ca.pem",
             cluster.tls_ports[0], home);
    open_store(location);
    assert_int_equal(get(1), KILN_E_DENIED);
}

#define NAMES ".kiln.test" /* the end of the names that the nodes announce */

/* Replaces the system's function, which does not know the names of the nodes. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    const bool is_node = name && strstr(name, NAMES) && !(hints->ai_flags & AI_NUMERICHOST);
    return system_getaddrinfo(is_node ? "127.0.0.1" : name, service, hints, ret_found);
}

/* Makes a node announce a name, and gives it a certificate that names only @named. */
static void name_node(unsigned node, const char *type, const char *announced, const char *named)
{
    expect(say(node, "CONFIG SET tls-cert-file %s/%s.pem tls-key-file %s/%s.key", home, named, home,
               named),
           "+OK");
    expect(say(node, "CONFIG SET cluster-announce-hostname \"%s\"", announced), "+OK");
    expect(say(node, "CONFIG SET cluster-preferred-endpoint-type %s", type), "+OK");
}

static void name_nodes(void)
{
    char name[32];
    char names[64];
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        snprintf(name, sizeof name, "node-%u" NAMES, i);
        snprintf(names, sizeof names, "DNS:%s", name);
        assert_true(certificates_make(home, "ca", name, names));
        name_node(i, "hostname", name, name);
    }
    for (unsigned i = 0; i < REDIS_NODES * REDIS_NODES; i++) {
        snprintf(name, sizeof name, "node-%u" NAMES, i % REDIS_NODES);
        assert_true(redis_cluster_wait(&cluster.nodes[i / REDIS_NODES], "CLUSTER SLOTS", name));
    }
}

/* Each node announces a name of its own, and its certificate has no other name. So the announced
 * name must be the one that is verified, also if a node names another one in a redirection. */
static void test_nodes_with_names(void **state)
{
    (void)state;
    const uint64_t number = key_on(0);
    char location[2 * SCRATCH_PATH_SIZE];
    name_nodes();
    snprintf(location, sizeof location,
             "rediss-cluster://node-0" NAMES ":%u?trust=any&ca=%s/ca.pem", cluster.tls_ports[0],
             home);
    open_store(location);
    put_keys();
    begin_to_move(slot_of(number), 0, 1);
    move_value(number, 0, 1);
    assert_int_equal(get(number), KILN_OK);
    end_move(slot_of(number), 1);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(get(i), KILN_OK);
    }
    move_back(number, 1, 0);
    /* The certificate of a node of the same cluster that has a different name. */
    name_node(2, "hostname", "node-2" NAMES, "node-1" NAMES);
    open_store(location);
    assert_int_equal(get(key_on(1)), KILN_OK);
    assert_int_equal(get(key_on(2)), KILN_E_DENIED);
    for (unsigned i = 0; i < REDIS_NODES; i++) {
        name_node(i, "ip", "", "server");
    }
}

static void expect_refused(const char *location, kiln_status expected)
{
    kiln_store *opened = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_store_open(location, NULL, &opened, &error), expected);
    assert_null(strstr(error.text, "secret"));
}

static void test_locations_that_are_refused(void **state)
{
    (void)state;
    expect_refused("redis-cluster://", KILN_E_PARSE);
    expect_refused("redis-cluster://a,?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a,,b?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a:0,b?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a,b:65536?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a/3?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://u:secret@a,b?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a,u:secret@b?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a,b,c,d,e,f,g,h,i?trust=any", KILN_E_PARSE);
    expect_refused("redis-cluster://a?trust=any&ca=/x", KILN_E_UNSUPPORTED);
}

/* ---- faults ---- */

/* How many files of failing servers there are. */
static size_t count_states(const char *pattern)
{
    glob_t found;
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", scratch, pattern);
    const size_t count = glob(path, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* Other processes of the machine learn which node is silent. The other nodes are used as before. */
static void test_a_silent_node(void **state)
{
    (void)state;
    put_keys();
    kilni_remote_set_runtime_folder(scratch);
    kill(cluster.nodes[2].process, SIGSTOP);
    open_store(location_of("trust=any"));
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(scratch_get(store, key_on(2)), KILN_E_IO);
        assert_int_equal(get(key_on(0)), KILN_OK);
        assert_int_equal(get(key_on(1)), KILN_OK);
    }
    assert_int_equal(count_states("kiln-server-*-*"), 1);
    assert_int_equal(count_states("kiln-server-*"), 1);
    kill(cluster.nodes[2].process, SIGCONT);
    assert_int_equal(get(key_on(2)), KILN_OK);
    assert_int_equal(count_states("kiln-server-*"), 0);
}

/* Some part of each answer is damaged. A wrong map or a wrong entry must not be believed. */
static void test_faults_everywhere(void **state)
{
    (void)state;
    static const fault kinds[] = {FAULT_CUT, FAULT_RESET, FAULT_FLIP, FAULT_TEXT};
    fault_proxy proxy;
    put_keys();
    fault_proxy_start(&proxy, cluster.nodes[0].port);
    for (size_t after = 0; after < 400; after += 7) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            fault_proxy_set(&proxy, kinds[i], after, "*1\r\n*3\r\n:0\r\n:16383\r\n*999999999\r\n");
            open_store(location_at(proxy.port, "trust=any"));
            const kiln_status status = scratch_get(store, key_on(after % REDIS_MASTERS));
            if (status != KILN_OK && status != KILN_E_IO && status != KILN_MISS) {
                fail_msg("fault %d after %zu: status %d", kinds[i], after, status);
            }
        }
    }
    fault_proxy_stop(&proxy);
}

static void wait_for_copies(void)
{
    char count[32];
    snprintf(count, sizeof count, "%s", say(0, "DBSIZE"));
    assert_true(redis_cluster_wait(&cluster.nodes[REDIS_REPLICA], "DBSIZE", count));
}

/* The last test, since the first master does not come back. */
static void test_a_replica_takes_over(void **state)
{
    (void)state;
    put_keys();
    wait_for_copies();
    kilni_remote_set_runtime_folder(scratch);
    open_store(location_of("trust=any"));
    assert_int_equal(get(key_on(0)), KILN_OK);
    redis_stop(&cluster.nodes[0]);
    for (uint64_t i = 0; i < KEYS; i++) {
        const kiln_status status = master_of(i) == 0 ? scratch_get(store, i) : get(i);
        assert_int_equal(status, master_of(i) == 0 ? KILN_E_IO : KILN_OK);
    }
    assert_int_equal(count_states("kiln-server-*-*"), 1);
    expect(say(REDIS_REPLICA, "CLUSTER FAILOVER TAKEOVER"), "+OK");
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(get(i), KILN_OK);
        assert_int_equal(put(i, 2000), KILN_OK);
    }
    /* The file of a node that no longer belongs to the cluster would remain forever. */
    while (count_states("kiln-server-*-*") > 0) {
        kilni_sleep_ns(10000000);
    }
    unsigned count = 0;
    assert_int_equal(kiln_store_each(store, count_sound_item, &count), KILN_OK);
    assert_int_equal(count, KEYS);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        CONFORMANCE_CASES(set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_master_has_its_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_slot_moves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_slot_has_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lonely_entry_is_judged_while_it_moves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_many_keys_go_to_their_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_that_disagree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_nodes_in_the_url, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_without_hosts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_passwords, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nodes_with_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locations_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults_everywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_replica_takes_over, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    certificates_require();
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, start_cluster, stop_cluster);
}
