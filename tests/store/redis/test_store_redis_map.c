/* SPDX-License-Identifier: Apache-2.0
 *
 * A node of a Redis cluster that lies: its map names a thousand nodes. A program that asks for many
 * entries must not get a thousand connections. The nodes are addresses of loopback, for all of
 * which one process answers; or they are names that no name server knows, and the program must not
 * get a thread for each of them.
 */
#include "support/store_scene.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "store/redis/slots.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/system_names.h"

#define NODES 1000u
#define NODES_USED 128u /* docs/internals/fleet.md */
#define KEYS 3000u
#define MAP_SIZE (NODES * 64u)

static unsigned port;
static pid_t server;
static char map[MAP_SIZE];
static bool has_names; /* the map names nodes by names */

#define SLOW_NAMES ".slow.test"  /* the end of the names that the map has */
#define KNOWN_NAME "server.test" /* a name of loopback */
#define LOOKUP_THREADS 4u        /* docs/internals/fleet.md */
#define ASKING_THREADS 40u

static const char *host_of(unsigned node)
{
    static char host[32];
    if (has_names) {
        snprintf(host, sizeof host, "node-%u" SLOW_NAMES, node);
    } else {
        snprintf(host, sizeof host, "127.0.%u.%u", node / 250, 1 + node % 250);
    }
    return host;
}

static void make_map(void)
{
    char *at = map + snprintf(map, sizeof map, "*%u\r\n", NODES);
    for (unsigned i = 0; i < NODES; i++) {
        const char *host = host_of(i);
        at += snprintf(at, (size_t)(map + sizeof map - at),
                       "*3\r\n:%u\r\n:%u\r\n*2\r\n$%zu\r\n%s\r\n:%u\r\n",
                       i * KILNI_REDIS_SLOTS / NODES, (i + 1) * KILNI_REDIS_SLOTS / NODES - 1,
                       strlen(host), host, port);
    }
    assert_true((size_t)(at - map) < sizeof map - 1);
}

/* Answers a request with the map, or with the reply that there is no value. */
static bool answer(int file)
{
    char request[4096];
    const ssize_t count = read(file, request, sizeof request - 1);
    if (count <= 0) {
        return false;
    }
    request[count] = '\0';
    const char *reply = strstr(request, "SLOTS") ? map : "$-1\r\n";
    return write(file, reply, strlen(reply)) == (ssize_t)strlen(reply);
}

static void serve(int listener)
{
    static struct pollfd files[NODES * 4];
    size_t count = 1;
    files[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    while (poll(files, count, -1) >= 0) {
        if (files[0].revents && count < sizeof files / sizeof files[0]) {
            files[count++] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
        }
        for (size_t i = 1; i < count; i++) {
            if (files[i].revents && !answer(files[i].fd)) {
                close(files[i].fd);
                files[i--] = files[--count];
            }
        }
    }
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 100) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        return -1;
    }
    port = ntohs(address.sin_port);
    make_map();
    allow_descriptors();
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
        _exit(1);
    }
    close(listener);
    return 0;
}

static int start_with_addresses(void **state)
{
    (void)state;
    has_names = false;
    return start_server();
}

static int start_with_names(void **state)
{
    (void)state;
    has_names = true;
    return start_server();
}

static int stop_server(void **state)
{
    (void)state;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}

static unsigned count_sockets(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *item = readdir(folder); item; item = readdir(folder)) {
        char target[32] = "";
        if (readlinkat(dirfd(folder), item->d_name, target, sizeof target - 1) > 0) {
            count += strncmp(target, "socket:", 7) == 0;
        }
    }
    closedir(folder);
    return count;
}

static void test_a_map_of_a_thousand_nodes(void **state)
{
    (void)state;
    char location[128];
    kiln_store *store = NULL;
    unsigned found = 0;
    const unsigned before = count_sockets();
    snprintf(location, sizeof location, "redis-cluster://127.0.0.1:%u?trust=any", port);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
    for (uint64_t i = 0; i < KEYS; i++) {
        const kiln_status status = scratch_get(store, i);
        assert_true(status == KILN_MISS || status == KILN_E_IO);
        found += status == KILN_MISS;
    }
    const unsigned opened = count_sockets() - before;
    print_message("          %u connections, %u of %u requests answered\n", opened, found, KEYS);
    assert_true(found > 0);
    assert_in_range(opened, 1, 2 * NODES_USED);
    kiln_store_close(&store);
}

/* ---- names ---- */

/* Guards the variables below. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t names_changed = PTHREAD_COND_INITIALIZER;
static bool is_answered; /* the name servers answer */
static unsigned looked_up, waiting, most_waiting;

/* Waits until the name servers answer. */
static void wait_for_answer(void)
{
    pthread_mutex_lock(&names_lock);
    looked_up++;
    waiting++;
    most_waiting = waiting > most_waiting ? waiting : most_waiting;
    while (!is_answered) {
        pthread_cond_wait(&names_changed, &names_lock);
    }
    waiting--;
    pthread_cond_broadcast(&names_changed);
    pthread_mutex_unlock(&names_lock);
}

/* Lets the look-ups that are under way fail. */
static void answer_names(void)
{
    pthread_mutex_lock(&names_lock);
    is_answered = true;
    pthread_cond_broadcast(&names_changed);
    while (waiting > 0) {
        pthread_cond_wait(&names_changed, &names_lock);
    }
    pthread_mutex_unlock(&names_lock);
}

/* Replaces the system's function, which knows none of the names. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    const bool is_lookup = name && !(hints->ai_flags & AI_NUMERICHOST);
    if (is_lookup && strstr(name, SLOW_NAMES)) {
        wait_for_answer();
        return EAI_AGAIN;
    }
    const bool is_known = is_lookup && strcmp(name, KNOWN_NAME) == 0;
    return system_getaddrinfo(is_known ? "127.0.0.1" : name, service, hints, ret_found);
}

static kiln_store *asked;

static void *ask(void *argument)
{
    const uint64_t first = (uint64_t)(uintptr_t)argument * KEYS / ASKING_THREADS;
    for (uint64_t i = 0; i < 3; i++) {
        scratch_get(asked, first + i);
    }
    return NULL;
}

static kiln_status get_by_name(void)
{
    char location[128];
    kiln_store *store = NULL;
    snprintf(location, sizeof location, "redis://" KNOWN_NAME ":%u?trust=any", port);
    assert_int_equal(kiln_store_open(location, NULL, &store, NULL), KILN_OK);
    kiln_status status = scratch_get(store, 1);
    /* On a busy machine, the first look-up may take too long. */
    for (unsigned i = 0; i < 300 && status != KILN_MISS; i++) {
        usleep(100000);
        status = scratch_get(store, 1);
    }
    kiln_store_close(&store);
    return status;
}

static void test_a_map_of_a_thousand_names(void **state)
{
    (void)state;
    char location[128];
    pthread_t threads[ASKING_THREADS];
    snprintf(location, sizeof location, "redis-cluster://127.0.0.1:%u?trust=any", port);
    assert_int_equal(kiln_store_open(location, NULL, &asked, NULL), KILN_OK);
    for (uintptr_t i = 0; i < ASKING_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, (void *)i), 0);
    }
    for (size_t i = 0; i < ASKING_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    kiln_store_close(&asked);
    /* The names that waited for a thread are forgotten with the store. A look-up of a different
     * server's name comes after all that the close has left. */
    answer_names();
    assert_int_equal(get_by_name(), KILN_MISS);
    assert_in_range(most_waiting, 1, LOOKUP_THREADS);
    assert_int_equal(looked_up, most_waiting);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_map_of_a_thousand_nodes, start_with_addresses,
                                        stop_server),
        cmocka_unit_test_setup_teardown(test_a_map_of_a_thousand_names, start_with_names,
                                        stop_server),
    };
    if (count != 2) {
        return 2;
    }
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
