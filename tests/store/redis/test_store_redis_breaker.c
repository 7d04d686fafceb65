/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dead server costs the processes of a machine: one process waits for it, the other
 * processes learn of its fault, and all learn when it is back. Each of these processes is a child
 * of this one, which has no thread of Kiln's.
 */
#include "support/store_scene.h"

#include <glob.h>
#include <stdatomic.h>

#include "os/os.h"
#include "store/remote/loader.h"
#include "store/remote/server_state.h"
#include "store/remote/state_path.h"
#include "support/child.h"
#include "support/redis_server.h"
#include "support/system_names.h"

#define NS_PER_S UINT64_C(1000000000)
#define SLOW_NAME "slow.kiln.example"

static const char *const no_options[] = {NULL};

static char scratch[SCRATCH_DIRECTORY_SIZE];
static redis_server server;
static const char *scheme = "redis";
static int listener = -1; /* never accepts: the system does, so clients connect and wait */

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    kilni_remote_set_runtime_folder(scratch);
    return 0;
}

static void stop_listening(void)
{
    if (listener >= 0) {
        close(listener);
        listener = -1;
    }
}

static int tear_down(void **state)
{
    (void)state;
    stop_listening();
    redis_stop(&server);
    scratch_remove(scratch);
    return 0;
}

/* ---- the server ---- */

/* Takes a port on which no process listens. */
static void begin_refusing(void)
{
    server = (redis_server){.port = free_port()};
    assert_in_range(snprintf(server.socket, sizeof server.socket, "%.80s/redis", scratch), 1, 99);
}

static void begin_silence(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 100), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    begin_refusing();
    server.port = ntohs(address.sin_port);
}

/* Returns how many clients have connected since the last call. */
static unsigned count_connections(void)
{
    unsigned count = 0;
    int file;
    while ((file = accept(listener, NULL, NULL)) >= 0) {
        close(file);
        count++;
    }
    return count;
}

static void begin_serving(void)
{
    stop_listening();
    assert_true(redis_start_again(&server, no_options));
}

/* ---- the machine ---- */

static const char *location_of(const char *folder)
{
    static char location[2 * SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s%s%s://127.0.0.1:%u?trust=any", folder,
             folder[0] ? "|" : "", scheme, server.port);
    return location;
}

static const char *machine(void)
{
    return location_of(scratch_path(scratch, "machine"));
}

/* Returns the path of the only file of a server's state in a folder; NULL: there is none. A file of
 * a node of a cluster has a longer name. */
static const char *state_in(const char *folder)
{
    static char path[SCRATCH_PATH_SIZE];
    glob_t found;
    snprintf(path, sizeof path, "%s/kiln-server-????????????????", folder);
    const int result = glob(path, 0, NULL, &found);
    if (result == 0 && found.gl_pathc == 1) {
        snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    }
    globfree(&found);
    return result == 0 && found.gl_pathc == 1 ? path : NULL;
}

static bool is_left_alone_in(const char *folder, kilni_server_state *ret_state)
{
    const char *path = state_in(folder);
    return path && kilni_server_state_read(path, kilni_clock_ns(), ret_state);
}

/* Changes the time at which the state ends. No process probes before that time. */
static void end_in(const char *folder, uint64_t duration_ns)
{
    kilni_server_state state;
    assert_true(is_left_alone_in(folder, &state));
    state.noted_ns = kilni_clock_ns();
    state.end_ns = state.noted_ns + duration_ns;
    state.retry_ns = state.end_ns;
    assert_true(kilni_server_state_write(state_in(folder), &state));
}

static kiln_store *open_at(const char *location)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fprintf(stderr, "%s: %s\n", location, error.text);
        _exit(2);
    }
    return store;
}

/* What a short process does. It misses, whatever the server does. */
static void miss(void)
{
    kiln_store *store = open_at(machine());
    CHECK(scratch_get(store, 1) == KILN_MISS);
    CHECK(scratch_get(store, 2) == KILN_MISS);
    kiln_store_close(&store);
}

static void test_one_process_waits_for_a_silent_server(void **state)
{
    (void)state;
    kilni_server_state known;
    begin_silence();
    assert_int_equal(run_in_child(miss), 0);
    assert_in_range(count_connections(), 1, 2); /* a slow process may also probe the server */
    assert_true(is_left_alone_in(scratch_path(scratch, "machine"), &known));
    assert_int_equal(known.fault, KILNI_FAULT_SILENT);
    end_in(scratch_path(scratch, "machine"), 60 * NS_PER_S); /* longer than any test */
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(run_in_child(miss), 0);
    }
    assert_int_equal(count_connections(), 0);
    /* A file that another user could have written is ignored. */
    assert_int_equal(chmod(state_in(scratch_path(scratch, "machine")), 0602), 0);
    assert_int_equal(run_in_child(miss), 0);
    assert_in_range(count_connections(), 1, 2);
}

static void test_one_process_is_refused(void **state)
{
    (void)state;
    kilni_server_state known;
    begin_refusing();
    assert_int_equal(run_in_child(miss), 0);
    assert_true(is_left_alone_in(scratch_path(scratch, "machine"), &known));
    assert_int_equal(known.fault, KILNI_FAULT_UNREACHABLE);
}

/* No node of the cluster says which node has which entry. */
static void test_one_process_waits_for_a_silent_cluster(void **state)
{
    (void)state;
    kilni_server_state known;
    scheme = "redis-cluster";
    begin_silence();
    assert_int_equal(run_in_child(miss), 0);
    assert_in_range(count_connections(), 1, 3);
    assert_true(is_left_alone_in(scratch_path(scratch, "machine"), &known));
    assert_int_equal(known.fault, KILNI_FAULT_SILENT);
    end_in(scratch_path(scratch, "machine"), 60 * NS_PER_S);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(run_in_child(miss), 0);
    }
    assert_int_equal(count_connections(), 0);
    scheme = "redis";
}

static ino_t other_network;

static int stat_of_other_network(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    if (strcmp(path, "/proc/self/ns/net") == 0) {
        ret_stat->st_ino = other_network;
    }
    return result;
}

static void miss_from_other_network(void)
{
    kilni_os_table table = *kilni_os_system();
    table.fstatat = stat_of_other_network;
    kilni_os_replace(&table);
    miss();
}

/* If a container cannot reach the server, this says nothing about containers in other networks. */
static void test_other_networks(void **state)
{
    (void)state;
    begin_silence();
    assert_int_equal(run_in_child(miss), 0);
    assert_non_null(state_in(scratch_path(scratch, "machine")));
    end_in(scratch_path(scratch, "machine"), 60 * NS_PER_S);
    count_connections();
    assert_int_equal(run_in_child(miss_from_other_network), 0);
    assert_in_range(count_connections(), 1, 2);
}

/* ---- recovery ---- */

/* A process that makes no further request learns that the server is back. If a store has no local
 * directory, the server's state is in the user's runtime folder. */
static void wait_for_the_server(void)
{
    kilni_server_state known;
    kiln_store *store = open_at(location_of(""));
    stop_listening();
    CHECK(scratch_get(store, 1) == KILN_E_IO);
    while (is_left_alone_in(scratch, &known)) {
        CHECK(kilni_clock_ns() < known.end_ns);
        kilni_sleep_ns(10000000);
    }
    /* A busy machine may miss the store's deadline. */
    for (unsigned i = 0; i < 1000 && scratch_put(store, 1, 100) != KILN_OK; i++) {
        kilni_sleep_ns(10000000);
    }
    CHECK(scratch_get(store, 1) == KILN_OK);
    kiln_store_close(&store);
}

static pid_t start(void (*body)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        exit(0);
    }
    return child;
}

static void test_no_request_is_needed_to_recover(void **state)
{
    (void)state;
    kilni_server_state known;
    int result = -1;
    begin_silence();
    const pid_t child = start(wait_for_the_server);
    while (!is_left_alone_in(scratch, &known)) {
        kilni_sleep_ns(1000000);
    }
    begin_serving();
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void ask_once(void)
{
    kiln_store *store = open_at(location_of(""));
    const kiln_status status = scratch_get(store, 1);
    kiln_store_close(&store);
    _exit(status == KILN_MISS ? 0 : 1);
}

/* Processes that exit before their probes end also learn that the server is back, as soon as the
 * state has ended. */
static void test_short_processes_recover(void **state)
{
    (void)state;
    begin_refusing();
    assert_int_not_equal(run_in_child(ask_once), 0);
    end_in(scratch, 300000000);
    begin_serving();
    int result = -1;
    for (unsigned i = 0; i < 3000 && result != 0; i++) {
        kilni_sleep_ns(20000000);
        result = run_in_child(ask_once);
    }
    assert_int_equal(result, 0);
}

/* ---- names ---- */

/* Replaces the system's function: the name server does not answer for a minute. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    if (name && strcmp(name, SLOW_NAME) == 0 && !(hints->ai_flags & AI_NUMERICHOST)) {
        sleep(60);
    }
    return system_getaddrinfo(name, service, hints, ret_found);
}

static void ask_by_name(void)
{
    char location[SCRATCH_PATH_SIZE];
    snprintf(location, sizeof location, "%s/machine|redis://" SLOW_NAME "?trust=any", scratch);
    kiln_store *store = open_at(location);
    CHECK(scratch_get(store, 1) == KILN_MISS);
    kiln_store_close(&store);
    _exit(0);
}

static void test_a_silent_name_server(void **state)
{
    (void)state;
    kilni_server_state known;
    assert_int_equal(run_in_child(ask_by_name), 0);
    assert_true(is_left_alone_in(scratch_path(scratch, "machine"), &known));
    assert_int_equal(known.fault, KILNI_FAULT_SILENT);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_process_waits_for_a_silent_server, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_process_waits_for_a_silent_cluster, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_one_process_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_networks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_request_is_needed_to_recover, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_processes_recover, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_name_server, set_up, tear_down),
    };
    if (count != 2) {
        return 2;
    }
    redis_require();
    kilni_remote_set_library(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
