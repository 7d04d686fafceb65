/* SPDX-License-Identifier: Apache-2.0
 *
 * store_fleet_faults LIBRARY SERVER SCRIPT: four machines want the same programs, and a fault
 * happens while machine 0 builds them. Every process gets the right program, and the builds are
 * counted.
 *
 * All programs are requested at the same time. For each there are two processes on each machine.
 */
#include "support/store_scene.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "os/clock.h"
#include "support/fault_proxy.h"
#include "support/fleet_scene.h"
#include "support/system_names.h"

#define NS_PER_MS UINT64_C(1000000)
#define MACHINES 4u
#define PROCESSES (2 * MACHINES) /* for each program */
#define PROGRAMS 5u
#define BUILD_MS 3000u
#define STRIKE_AFTER_MS 500u /* after the last of machine 0's builds has begun */

/* What all processes share. */
typedef struct board {
    _Atomic unsigned begun, builds[PROGRAMS], found;
} board;

/* A proxy in a process of its own, so that it can be stopped. In front of a cluster, it has a part
 * for each node. */
typedef struct proxy_process {
    pid_t process;
    unsigned port;
} proxy_process;

static board *shared;
static pid_t processes[PROGRAMS][PROCESSES];
static proxy_process proxies[2]; /* of machine 0, and of the others */

/* ---- processes ---- */

static void build(void *user)
{
    const unsigned *program = user;
    atomic_fetch_add(&shared->builds[*program], 1);
    atomic_fetch_add(&shared->begun, 1);
    kilni_sleep_ns(BUILD_MS * NS_PER_MS);
}

static unsigned own_machine; /* of this process */

/* The address at which a machine's proxy stands in for the nodes of a cluster. */
static uint32_t host_of_proxy(unsigned number)
{
    return INADDR_LOOPBACK + 1 + number;
}

/* Replaces the system's function, so that the names of a cluster's nodes are proxies, which differ
 * between machines. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    const bool is_node = name && strstr(name, FLEET_NAMES) && !(hints->ai_flags & AI_NUMERICHOST);
    char text[INET_ADDRSTRLEN];
    const struct in_addr address = {htonl(host_of_proxy(own_machine > 0))};
    inet_ntop(AF_INET, &address, text, sizeof text);
    return system_getaddrinfo(is_node ? text : name, service, hints, ret_found);
}

static pid_t start(unsigned program, unsigned machine)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        own_machine = machine;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const uint32_t from = fleet_obtain(program, machine, build, &program);
        atomic_fetch_add(&shared->found, from == KILN_PROGRAM_FROM_STORE);
        exit(0);
    }
    assert_true(child > 0);
    return child;
}

static void start_proxy(proxy_process *proxy)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    proxy->process = fork();
    if (proxy->process == 0) {
        static fault_proxy running[REDIS_NODES];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fleet.server->port) {
            fault_proxy_start(&running[0], fleet.server->port());
        }
        for (unsigned i = 0; i < REDIS_NODES && !fleet.server->port; i++) {
            const unsigned port = fleet_cluster.nodes[i].port;
            fault_proxy_start_at(&running[i], port, host_of_proxy(proxy != &proxies[0]), port);
        }
        CHECK(write(ends[1], &running[0].port, sizeof running[0].port) == sizeof running[0].port);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ends[0], &proxy->port, sizeof proxy->port), sizeof proxy->port);
    close(ends[0]);
    close(ends[1]);
}

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void stop_proxy(proxy_process *proxy)
{
    if (proxy->process > 0) {
        kill(proxy->process, SIGKILL);
        status_of(proxy->process);
        proxy->process = 0;
    }
}

/* ---- faults ---- */

static void strike_nothing(void)
{
}

static void set_network(proxy_process *proxy, bool works)
{
    kill(proxy->process, works ? SIGCONT : SIGSTOP);
}

static void cut_first_off(void)
{
    set_network(&proxies[0], false);
}

static void cut_all_off(void)
{
    set_network(&proxies[0], false);
    set_network(&proxies[1], false);
}

static void silence(void)
{
    fleet.server->set_silent(true);
}

static void restart(void)
{
    fleet.server->restart();
}

static void fill(void)
{
    fleet.server->set_full(true);
}

static void evict(void)
{
    fleet.server->evict_leases();
}

static void fail_over(void)
{
    fleet.server->fail_over();
}

static bool is_possible(void (*strike)(void))
{
    const fleet_server *server = fleet.server;
    return strike == silence     ? server->set_silent != NULL
           : strike == restart   ? server->restart != NULL
           : strike == fill      ? server->set_full != NULL
           : strike == evict     ? server->evict_leases != NULL
           : strike == fail_over ? server->fail_over != NULL
                                 : true;
}

/* ---- cases ---- */

typedef struct fault_case {
    const char *name;
    void (*strike)(void);
    unsigned most; /* builds of a program */
} fault_case;

static const fault_case nothing = {"no fault", strike_nothing, 1};
static const fault_case first_cut_off = {"the holder's machine cut off", cut_first_off, 2};
static const fault_case all_cut_off = {"all machines cut off", cut_all_off, MACHINES};
static const fault_case silent = {"the server silent", silence, MACHINES};
static const fault_case restarted = {"the server restarted", restart, MACHINES};
static const fault_case full = {"the server full", fill, MACHINES};
static const fault_case evicted = {"leases evicted", evict, 2};
static const fault_case failed_over = {"a master failed, its replica took over", fail_over,
                                       MACHINES};

/* A server with markers that have to settle gives a lease to two processes if one of them stops for
 * longer than the wait, which happens on a busy machine. */
static unsigned most_builds(const fault_case *tested)
{
    const bool has_markers =
        strcmp(fleet.server->name, "http") == 0 || strncmp(fleet.server->name, "s3", 2) == 0;
    return tested->most < MACHINES && has_markers ? tested->most + 1 : tested->most;
}

static void start_processes(void)
{
    for (unsigned i = 0; i < PROGRAMS; i++) {
        processes[i][0] = start(i, 0);
    }
    while (atomic_load(&shared->begun) < PROGRAMS) {
        kilni_sleep_ns(NS_PER_MS);
    }
    for (unsigned i = 0; i < PROGRAMS; i++) {
        for (unsigned j = 1; j < PROCESSES; j++) {
            processes[i][j] = start(i, j % MACHINES);
        }
    }
}

static void test_fault(void **state)
{
    const fault_case *tested = *state;
    unsigned builds = 0;
    unsigned most = 0;
    if (!is_possible(tested->strike)) {
        skip();
    }
    start_processes();
    kilni_sleep_ns(STRIKE_AFTER_MS * NS_PER_MS);
    const uint64_t struck_ns = kilni_clock_ns();
    tested->strike();
    for (unsigned i = 0; i < PROGRAMS; i++) {
        for (unsigned j = 0; j < PROCESSES; j++) {
            assert_int_equal(status_of(processes[i][j]), 0);
        }
        const unsigned count = atomic_load(&shared->builds[i]);
        builds += count;
        most = count > most ? count : most;
    }
    const uint64_t ended_ns = kilni_clock_ns();
    print_message("          %s, %s: %u programs, %u processes, %u builds, at most %u of one; "
                  "%.1f s until the last process had its program\n",
                  fleet.server->name, tested->name, PROGRAMS, PROGRAMS * PROCESSES, builds, most,
                  (double)(ended_ns - struck_ns) / 1e9);
    assert_int_equal(builds + atomic_load(&shared->found), PROGRAMS * PROCESSES);
    assert_in_range(most, 1, most_builds(tested));
}

static int set_up(void **state)
{
    (void)state;
    fleet_cluster_has_names = true;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !fleet_start()) {
        return -1;
    }
    start_proxy(&proxies[0]);
    start_proxy(&proxies[1]);
    if (fleet.server->port) {
        fleet.port_of_first = proxies[0].port;
        fleet.port_of_others = proxies[1].port;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop_proxy(&proxies[0]);
    stop_proxy(&proxies[1]);
    fleet_stop();
    munmap(shared, sizeof *shared);
    return 0;
}

#define CASE(fault)                                                                                \
    {                                                                                              \
#fault, test_fault, set_up, tear_down, (void *)(uintptr_t) & (fault)                       \
    }

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing),   CASE(first_cut_off), CASE(all_cut_off), CASE(silent),
        CASE(restarted), CASE(full),          CASE(evicted),     CASE(failed_over),
    };
    if (count != 4 || !fleet_init(arguments[1], arguments[2], arguments[3])) {
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
