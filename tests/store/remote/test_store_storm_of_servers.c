/* SPDX-License-Identifier: Apache-2.0
 *
 * store_storm_of_servers LIBRARY redis|http SECONDS: processes on several machines obtain entries
 * from a real Redis or HTTP server, through a proxy that corrupts, delays and cuts off its answers.
 * Meanwhile processes are killed, and the server restarts, pauses, forgets everything, and evicts
 * or tears entries. No process ever gets wrong bytes, none hangs, and each gets every entry that it
 * wants, if necessary by building.
 *
 * One process is the server's side, with the threads of the proxy. The test itself has one thread,
 * so its children inherit no locks.
 */
#include "support/store_scene.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "os/clock.h"
#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "support/child.h"
#include "support/fault_proxy.h"
#include "support/nginx_server.h"
#include "support/redis_server.h"

#define SEED 20261123u
#define MACHINES 4u
#define WORKERS 8u
/* Of each worker. The requests of threads follow each other on one connection, so an answer too
 * many is taken for that of a different request. */
#define THREADS 3u
#define KEYS 40u
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define LEASE_WAIT_NS (2 * NS_PER_S)
/* The deadlines of all calls of one request together are less than half of this. */
#define HUNG_NS (60 * NS_PER_S)
#define RECOVERY_NS (120 * NS_PER_S)
/* A machine's directory has room for a third of the entries. */
#define LOCAL_BYTES "400000"

/* What all processes share. */
typedef struct board {
    _Atomic uint64_t gets, hits, leases, waits, builds, puts, kept_puts;
    _Atomic uint64_t wrong;  /* gets that returned bytes other than the key's */
    _Atomic uint64_t failed; /* statuses that no fault of a server explains */
    _Atomic uint64_t faults, restarts;
    _Atomic uint64_t since_ns[WORKERS][THREADS]; /* when each request began; 0: there is none */
    _Atomic unsigned port;                       /* of the proxy; 0: not yet */
    _Atomic bool is_to_end;                      /* asks the server's side for no more faults */
    _Atomic bool is_calm;                        /* there are none any more */
    _Atomic bool is_over;                        /* workers end */
} board;

enum { TEXTS = 8 };

/* A kind of server. */
typedef struct engine {
    const char *scheme, *path; /* of the location, before and after the address */
    void (*require)(void);
    unsigned (*start)(void); /* returns the port */
    void (*strike)(uint64_t random);
    void (*calm_down)(void);
    /* Sent instead of an answer or inserted into one. If one of the last four is inserted before an
     * answer, each later answer on that connection is taken for that of the next request. */
    const char *texts[TEXTS];
} engine;

static const engine *used;
static uint64_t storm_ns = 5 * NS_PER_S;
static char scratch[SCRATCH_DIRECTORY_SIZE];
static board *shared;
static pid_t servers_side;

static kiln_store *open_machine(unsigned machine)
{
    char location[SCRATCH_PATH_SIZE];
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    snprintf(location, sizeof location,
             "file://%s/machine-%u?max-size=" LOCAL_BYTES "|%s://127.0.0.1:%u%s?trust=any", scratch,
             machine, used->scheme, atomic_load(&shared->port), used->path);
    if (kiln_store_open(location, NULL, &store, &error) != KILN_OK) {
        fprintf(stderr, "%s: %s\n", location, error.text);
        return NULL;
    }
    return store;
}

/* ---- workers ---- */

/* Counts a status that must not occur, and prints it: the processes share the test's output. */
static void count_failure(bool failed, const char *action, kiln_status status)
{
    if (failed) {
        atomic_fetch_add(&shared->failed, 1);
        fprintf(stderr, "%s: %s\n", action, kiln_status_name(status));
    }
}

/* Whether a fault of a server may be the reason of a status. */
static bool is_of_server(kiln_status status)
{
    return status == KILN_E_IO || status == KILN_E_CORRUPT || status == KILN_E_UNAUTHENTICATED ||
           status == KILN_E_VERSION || status == KILN_E_DENIED || status == KILN_E_FULL ||
           status == KILN_E_READONLY || status == KILN_E_TOO_LARGE;
}

static bool look(kiln_store *store, uint64_t number)
{
    const kiln_status status = scratch_get(store, number);
    atomic_fetch_add(&shared->gets, 1);
    atomic_fetch_add(&shared->hits, status == KILN_OK);
    if (status == KILN_E_REFUSED) {
        atomic_fetch_add(&shared->wrong, 1);
        fprintf(stderr, "entry %lu has wrong bytes\n", (unsigned long)number);
    }
    count_failure(status != KILN_OK && status != KILN_MISS && status != KILN_E_REFUSED &&
                      !is_of_server(status),
                  "get", status);
    return status == KILN_OK;
}

/* Does what a request does for one key (src/program/request.c). */
static void obtain(kiln_store *store, uint64_t number, uint64_t random)
{
    kiln_lease *lease = NULL;
    if (look(store, number)) {
        return;
    }
    kiln_key *key = scratch_key(number);
    kiln_status status = kiln_store_lease(store, key, 0, &lease);
    if (status == KILN_BUSY) {
        atomic_fetch_add(&shared->waits, 1);
        status = kiln_store_lease(store, key, LEASE_WAIT_NS, &lease);
    }
    kiln_key_release(&key);
    atomic_fetch_add(&shared->leases, status == KILN_OK);
    count_failure(status != KILN_OK && status != KILN_BUSY && status != KILN_E_UNSUPPORTED &&
                      !is_of_server(status),
                  "lease", status);
    if (!look(store, number)) {
        atomic_fetch_add(&shared->builds, 1);
        kilni_sleep_ns((1 + random % 20) * NS_PER_MS);
        status = scratch_put(store, number, 1000 + scratch_mix(number) % 50000);
        atomic_fetch_add(&shared->puts, 1);
        atomic_fetch_add(&shared->kept_puts, status == KILN_OK);
        count_failure(status != KILN_OK && status != KILN_EXISTS && !is_of_server(status), "put",
                      status);
    }
    kiln_lease_release(&lease);
}

typedef struct request_thread {
    kiln_store *store;
    uint64_t seed;
    _Atomic uint64_t *since_ns;
    pthread_t thread;
} request_thread;

static void *make_requests(void *argument)
{
    const request_thread *self = argument;
    for (uint64_t i = 0; !atomic_load(&shared->is_over); i++) {
        const uint64_t random = scratch_mix(self->seed * 1000003 + i);
        atomic_store(self->since_ns, kilni_clock_ns());
        obtain(self->store, random % KEYS, random / KEYS);
        atomic_store(self->since_ns, 0);
        kilni_sleep_ns((random >> 32) % 10 * NS_PER_MS);
    }
    return NULL;
}

static void work(unsigned worker, uint64_t seed)
{
    kiln_store *store = open_machine(worker % MACHINES);
    request_thread threads[THREADS];
    CHECK(store != NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i] = (request_thread){store, THREADS * seed + i, &shared->since_ns[worker][i], 0};
        CHECK(pthread_create(&threads[i].thread, NULL, make_requests, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
    }
    kiln_store_close(&store);
}

static pid_t start_worker(unsigned worker, uint64_t seed)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(worker, seed);
        exit(0);
    }
    assert_true(child > 0);
    return child;
}

/* ---- the server's side ---- */

static const char *const no_options[] = {NULL};
static redis_server redis;

static unsigned start_redis(void)
{
    return redis_start(&redis, scratch, no_options) ? redis.port : 0;
}

static void strike_redis(uint64_t random)
{
    switch (random % 40) {
    case 0:
        redis_stop(&redis);
        kilni_sleep_ns(random / 40 % 500 * NS_PER_MS);
        if (!redis_start_again(&redis, no_options)) {
            _exit(1);
        }
        atomic_fetch_add(&shared->restarts, 1);
        break;
    case 1:
        redis_say(&redis, "FLUSHALL");
        break;
    case 2: /* evicts entries and leases */
        redis_say(&redis, "CONFIG SET maxmemory-policy allkeys-lru");
        redis_say(&redis, "CONFIG SET maxmemory 1500000");
        break;
    case 3:
        redis_say(&redis, "CONFIG SET maxmemory 0");
        break;
    case 4:
        redis_say(&redis, "CLIENT PAUSE 700");
        break;
    case 5:
        redis_say(&redis, "CLIENT KILL TYPE normal");
        break;
    case 6:
        redis_say(&redis, "CONFIG SET maxmemory-policy noeviction");
        redis_say(&redis, "CONFIG SET maxmemory 1");
        break;
    default:
        break;
    }
}

static void calm_redis_down(void)
{
    redis_say(&redis, "CLIENT UNPAUSE");
    redis_say(&redis, "CONFIG SET maxmemory 0");
}

static nginx_server nginx;

static unsigned start_nginx(void)
{
    return nginx_start(&nginx, scratch, NULL) ? nginx.port : 0;
}

/* Cuts off one of two files, entries and leases alike. */
static void tear_files(uint64_t random)
{
    char path[400];
    snprintf(path, sizeof path, "%s/data/open", nginx.folder);
    DIR *folder = opendir(path);
    const struct dirent *file;
    for (uint64_t i = 0; folder && (file = readdir(folder)); i++) {
        if (file->d_name[0] != '.' && (random >> i % 64 & 1)) {
            const int torn = openat(dirfd(folder), file->d_name, O_WRONLY | O_NOFOLLOW);
            if (torn >= 0) {
                CHECK(ftruncate(torn, (off_t)(random >> 8) % 2000) == 0);
                close(torn);
            }
        }
    }
    if (folder) {
        closedir(folder);
    }
}

static void forget_files(uint64_t random)
{
    char path[400], aside[450];
    snprintf(path, sizeof path, "%s/data/open", nginx.folder);
    snprintf(aside, sizeof aside, "%s/data/aside-%lx", nginx.folder, (unsigned long)random);
    CHECK(rename(path, aside) == 0 && mkdir(path, 0700) == 0);
}

static void strike_nginx(uint64_t random)
{
    switch (random % 40) {
    case 0:
        nginx_stop(&nginx);
        kilni_sleep_ns(random / 40 % 500 * NS_PER_MS);
        CHECK(nginx_start_again(&nginx));
        atomic_fetch_add(&shared->restarts, 1);
        break;
    case 1:
        forget_files(random);
        break;
    case 2:
    case 3:
        tear_files(random);
        break;
    case 4:
        kill(nginx.process, SIGSTOP);
        kilni_sleep_ns(700 * NS_PER_MS);
        kill(nginx.process, SIGCONT);
        break;
    default:
        break;
    }
}

static void calm_nginx_down(void)
{
}

static const engine engines[] = {
    {
        .scheme = "redis",
        .path = "",
        .require = redis_require,
        .start = start_redis,
        .strike = strike_redis,
        .calm_down = calm_redis_down,
        .texts = {"HTTP/1.1 400 Bad Request\r\n\r\n", "$999999999999\r\n", "-LOADING not yet\r\n",
                  "-NOPERM no\r\n", "$-1\r\n", "+OK\r\n", ":1\r\n", "$5\r\nwrong\r\n"},
    },
    {
        .scheme = "http",
        .path = "/open",
        .require = nginx_require,
        .start = start_nginx,
        .strike = strike_nginx,
        .calm_down = calm_nginx_down,
        .texts = {"+OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
                  "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
                  "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                  "HTTP/1.1 204 No Content\r\n\r\n",
                  "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
                  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"},
    },
};
#define ENGINE_COUNT (sizeof engines / sizeof engines[0])

/* After a silence, machines leave the server alone for a while, so there are few silences. */
static const fault faults[] = {
    FAULT_NONE, FAULT_CUT,     FAULT_NONE,   FAULT_RESET,   FAULT_NONE,   FAULT_FLIP,
    FAULT_NONE, FAULT_DRIP,    FAULT_INSERT, FAULT_FLIP,    FAULT_INSERT, FAULT_TEXT,
    FAULT_NONE, FAULT_ENDLESS, FAULT_INSERT, FAULT_SILENCE,
};

static void strike_answers(fault_proxy *proxy, uint64_t random)
{
    const fault kind = faults[random % (sizeof faults / sizeof faults[0])];
    const size_t after = random >> 32 & 1 ? 0 : (random >> 33) % 60000;
    fault_proxy_set(proxy, kind, after, used->texts[(random >> 16) % TEXTS]);
    atomic_fetch_add(&shared->faults, kind != FAULT_NONE);
}

static void run_servers_side(void)
{
    fault_proxy proxy;
    const unsigned port = used->start();
    if (port == 0) {
        _exit(1);
    }
    fault_proxy_start(&proxy, port);
    atomic_store(&shared->port, proxy.port);
    for (uint64_t i = 0; !atomic_load(&shared->is_to_end); i++) {
        const uint64_t random = scratch_mix(SEED + i);
        strike_answers(&proxy, random);
        used->strike(scratch_mix(random));
        kilni_sleep_ns((50 + random % 400) * NS_PER_MS);
    }
    fault_proxy_set(&proxy, FAULT_NONE, 0, NULL);
    used->calm_down();
    atomic_store(&shared->is_calm, true);
    for (;;) {
        pause();
    }
}

/* ---- the test ---- */

static int status_of(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void expect_none_hung(void)
{
    const uint64_t now_ns = kilni_clock_ns();
    for (unsigned i = 0; i < WORKERS * THREADS; i++) {
        const uint64_t since_ns = atomic_load(&shared->since_ns[i / THREADS][i % THREADS]);
        assert_true(since_ns == 0 || now_ns < since_ns + HUNG_NS);
    }
}

/* Kills one worker and starts a different one in its place. A worker must not have ended by itself.
 */
static void replace(pid_t workers[WORKERS], unsigned worker, uint64_t seed)
{
    kill(workers[worker], SIGKILL);
    const int status = status_of(workers[worker]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (unsigned i = 0; i < THREADS; i++) {
        atomic_store(&shared->since_ns[worker][i], 0);
    }
    workers[worker] = start_worker(worker, seed);
}

static unsigned storm(pid_t workers[WORKERS])
{
    const uint64_t end_ns = kilni_clock_ns() + storm_ns;
    unsigned kills = 0;
    while (kilni_clock_ns() < end_ns) {
        const uint64_t random = scratch_mix(SEED + 1000000 + kills);
        kilni_sleep_ns((100 + random % 400) * NS_PER_MS);
        expect_none_hung();
        replace(workers, (unsigned)(random >> 32) % WORKERS, SEED + WORKERS + kills);
        kills++;
    }
    return kills;
}

static void end_all(const pid_t workers[WORKERS])
{
    const uint64_t end_ns = kilni_clock_ns() + HUNG_NS;
    atomic_store(&shared->is_over, true);
    for (unsigned i = 0; i < WORKERS; i++) {
        int status = -1;
        while (waitpid(workers[i], &status, WNOHANG) == 0) {
            assert_true(kilni_clock_ns() < end_ns);
            kilni_sleep_ns(NS_PER_MS);
        }
        assert_int_equal(status, 0);
    }
}

/* Once the server is well again, entries reach other machines. */
static void expect_recovery(kiln_store *here)
{
    const uint64_t end_ns = kilni_clock_ns() + RECOVERY_NS;
    bool has_arrived = false;
    for (uint64_t i = 0; !has_arrived; i++) {
        assert_true(kilni_clock_ns() < end_ns);
        kiln_store *there = open_machine(MACHINES);
        scratch_put(here, KEYS + i, 1000);
        has_arrived = scratch_get(there, KEYS + i) == KILN_OK;
        kiln_store_close(&there);
        kilni_sleep_ns(200 * NS_PER_MS);
    }
}

static void test_a_storm(void **state)
{
    (void)state;
    pid_t workers[WORKERS];
    while (atomic_load(&shared->port) == 0) {
        kilni_sleep_ns(NS_PER_MS);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = start_worker(i, SEED + i);
    }
    const unsigned kills = storm(workers);
    atomic_store(&shared->is_to_end, true);
    end_all(workers);
    print_message("          %u kills, %lu faults, %lu restarts; %lu gets, of which %lu hits; %lu "
                  "leases, %lu waits, %lu builds; %lu of %lu puts kept; %lu wrong, %lu failed\n",
                  kills, (unsigned long)shared->faults, (unsigned long)shared->restarts,
                  (unsigned long)shared->gets, (unsigned long)shared->hits,
                  (unsigned long)shared->leases, (unsigned long)shared->waits,
                  (unsigned long)shared->builds, (unsigned long)shared->kept_puts,
                  (unsigned long)shared->puts, (unsigned long)shared->wrong,
                  (unsigned long)shared->failed);
    assert_int_equal(shared->wrong, 0);
    assert_int_equal(shared->failed, 0);
    assert_true(kills > 0 && shared->faults > 0);
    assert_true(shared->hits > 0 && shared->builds > 0 && shared->leases > 0);
    while (!atomic_load(&shared->is_calm)) {
        kilni_sleep_ns(NS_PER_MS);
    }
    /* A machine that saw the faults may first leave the server alone for up to 45 s. */
    kiln_store *store = open_machine(storm_ns < RECOVERY_NS ? MACHINES + 1 : 0);
    assert_non_null(store);
    expect_recovery(store);
    kiln_store_close(&store);
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return -1;
    }
    servers_side = fork();
    if (servers_side == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_servers_side();
    }
    return servers_side > 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kill(servers_side, SIGKILL);
    status_of(servers_side);
    munmap(shared, sizeof *shared);
    scratch_remove(scratch);
    return 0;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_storm, set_up, tear_down),
    };
    for (size_t i = 0; count == 4 && i < ENGINE_COUNT; i++) {
        used = strcmp(arguments[2], engines[i].scheme) == 0 ? &engines[i] : used;
    }
    if (!used) {
        return 2;
    }
    used->require();
    storm_ns = (uint64_t)atoi(arguments[3]) * NS_PER_S;
    kilni_remote_set_library(arguments[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
