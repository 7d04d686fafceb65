/* SPDX-License-Identifier: Apache-2.0
 *
 * store_exit LIBRARY SERVER: processes end while their server answers a byte at a time, or does not
 * answer. Each of them gives up what it could not put onto the server, and counts it. A process
 * that hangs is killed.
 *
 * The writers and the proxy in front of the server have processes of their own, so that no process
 * forks beside a thread.
 */
#include "support/store_scene.h"

#include <sys/mman.h>

#include "store/remote/loader.h"
#include "store/remote/state_path.h"
#include "store/store.h"
#include "store/writer.h"
#include "support/child.h"
#include "support/fault_proxy.h"
#include "support/fleet_server.h"

#define NS_PER_MS UINT64_C(1000000)
#define ENTRIES 5u
#define WAIT_NS (200 * NS_PER_MS)
#define QUEUE_BYTES 1000000u
#define HANGS_AFTER_S 60u

/* Redis answers a put with five bytes, and may be silent for a second between two of them. */
#define DRIP_NS (900 * NS_PER_MS)

static const fleet_server *server;
static char scratch[SCRATCH_DIRECTORY_SIZE];
static fault_proxy *proxy; /* in memory that the processes share */
static pid_t proxy_process;

/* ---- the scene ---- */

static void run_proxy(int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fault_proxy_start(proxy, server->port());
    atomic_store(&proxy->drip_ns, DRIP_NS);
    CHECK(write(ready, "", 1) == 1);
    for (;;) {
        pause();
    }
}

static int set_up(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    scratch_make(scratch);
    if (!server->start(scratch) || pipe(ends) != 0) {
        return -1;
    }
    fflush(NULL);
    proxy_process = fork();
    if (proxy_process == 0) {
        run_proxy(ends[1]);
    }
    close(ends[1]);
    const bool is_ready = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return is_ready ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    kill(proxy_process, SIGKILL);
    while (waitpid(proxy_process, NULL, 0) < 0 && errno == EINTR) {
    }
    server->stop();
    scratch_remove(scratch);
    return 0;
}

static kiln_store *open_chain(const char *options)
{
    char location[3 * SCRATCH_PATH_SIZE];
    kiln_store *opened = NULL;
    const int length = snprintf(location, sizeof location, "%s/directory|", scratch);
    server->locate(location + length, sizeof location - (size_t)length, proxy->port);
    strcat(location, options);
    CHECK(kiln_store_open(location, NULL, &opened, NULL) == KILN_OK);
    return opened;
}

/* ---- processes ---- */

static fault fault_of_child;

/* A layer never frees these, so they are where a leak checker finds them. */
static kiln_store *store;
static kilni_writer *writer;

/* Queues entries, and their leases, shortly before the process ends. */
static void put_all(void)
{
    kiln_lease *leases[ENTRIES] = {NULL};
    for (uint64_t i = 0; i < ENTRIES; i++) {
        kiln_key *key = scratch_key(i);
        CHECK(kiln_store_lease(store, key, 0, &leases[i]) == KILN_OK);
        kiln_key_release(&key);
    }
    fault_proxy_set(proxy, fault_of_child, 0, "");
    for (uint64_t i = 0; i < ENTRIES; i++) {
        kiln_entry *entry = scratch_entry(i, 1000);
        CHECK(kilni_writer_put(writer, entry, &leases[i]) == KILN_OK);
        kiln_entry_release(&entry);
    }
}

/* Ends as a program with a layer does. */
static void end_like_a_layer(void)
{
    store = open_chain("");
    alarm(HANGS_AFTER_S);
    CHECK(kilni_writer_new(store, QUEUE_BYTES, &writer) == KILN_OK);
    put_all();
    kilni_writer_end(writer, WAIT_NS);
}

/* Ends as a program with a context of programs does. */
static void end_like_a_context(void)
{
    store = open_chain("");
    alarm(HANGS_AFTER_S);
    CHECK(kilni_writer_new(store, QUEUE_BYTES, &writer) == KILN_OK);
    put_all();
    kilni_writer_free(&writer, WAIT_NS);
    kiln_store_close(&store);
}

static unsigned count_threads(void)
{
    DIR *listing = opendir("/proc/self/task");
    unsigned count = 0;
    while (readdir(listing)) {
        count++;
    }
    closedir(listing);
    return count - 2; /* "." and ".." */
}

/* A process with one thread has found an entry in its directory, and reports the use to the server
 * when it is drained. A thread does that, because the caller would have to wait for the server. */
static void drain_the_only_thread(void)
{
    store = open_chain("&expire=30");
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    size_t fill = 0;
    alarm(HANGS_AFTER_S);
    CHECK(kilni_writer_new(store, QUEUE_BYTES, &writer) == KILN_OK);
    kilni_writer_spare_thread(writer);
    CHECK(kilni_store_find(store, key, NULL, false, &entry, &fill) == KILN_OK);
    CHECK(fill != 0);
    kilni_writer_fill(writer, fill, key, entry);
    CHECK(count_threads() == 1);
    CHECK(kilni_writer_drain(writer, NS_PER_MS) == KILN_TIMEOUT);
    /* The writer's thread begins, and starts the one for all servers. */
    while (count_threads() < 3) {
        usleep(1000);
    }
    CHECK(count_threads() == 3);
    kilni_writer_end(writer, 0);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* ---- checks ---- */

typedef struct seen_tiers {
    size_t count;
    kiln_tier_info tiers[2];
} seen_tiers;

static void take_tier(void *user, const kiln_tier_info *info)
{
    seen_tiers *seen = user;
    seen->tiers[seen->count++] = *info;
}

static void expect_given_up(fault kind, void (*body)(void))
{
    fault_of_child = kind;
    assert_int_equal(run_in_child(body), 0);
    fault_proxy_set(proxy, FAULT_NONE, 0, "");
    seen_tiers seen = {0};
    kiln_store *chain = open_chain("");
    kiln_store *directory = NULL;
    assert_int_equal(kiln_store_each_tier(chain, take_tier, &seen), KILN_OK);
    kiln_store_close(&chain);
    assert_int_equal(seen.tiers[0].puts, ENTRIES);
    assert_int_equal(seen.tiers[0].dropped, 0);
    assert_int_equal(seen.tiers[1].puts, 0);
    if (kind == FAULT_DRIP) {
        assert_int_equal(seen.tiers[1].dropped, ENTRIES);
    } else {
        /* The server may have been silent for so long that puts have failed. */
        assert_true(seen.tiers[1].dropped + seen.tiers[1].faults >= ENTRIES);
    }
    assert_int_equal(kiln_store_open(scratch_path(scratch, "directory"), NULL, &directory, NULL),
                     KILN_OK);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(scratch_get(directory, i), KILN_OK);
    }
    kiln_store_close(&directory);
}

static void test_a_layer_ends_while_the_server_drips(void **state)
{
    (void)state;
    expect_given_up(FAULT_DRIP, end_like_a_layer);
}

static void test_a_layer_ends_while_the_server_is_silent(void **state)
{
    (void)state;
    expect_given_up(FAULT_SILENCE, end_like_a_layer);
}

static void test_a_context_ends_while_the_server_drips(void **state)
{
    (void)state;
    expect_given_up(FAULT_DRIP, end_like_a_context);
}

static void test_a_context_ends_while_the_server_is_silent(void **state)
{
    (void)state;
    expect_given_up(FAULT_SILENCE, end_like_a_context);
}

/* Makes the directory's entry one that was last used days ago. */
static void make_entry_old(uint64_t number)
{
    char path[SCRATCH_PATH_SIZE], directory[SCRATCH_DIRECTORY_SIZE + 16];
    const struct timespec times[2] = {{.tv_sec = kilni_clock_unix_s() - 3 * 86400},
                                      {.tv_sec = kilni_clock_unix_s() - 3 * 86400}};
    snprintf(directory, sizeof directory, "%s/directory", scratch);
    scratch_entry_path(directory, number, path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The server has granted leases, but gets no entries. Only the directory writes them, and it does
 * not wait until the server has answered that a lease was released. */
static void put_beside_slow_leases(void)
{
    store = open_chain("&write=none");
    alarm(HANGS_AFTER_S);
    CHECK(kilni_writer_new(store, QUEUE_BYTES, &writer) == KILN_OK);
    put_all();
    kilni_writer_end(writer, WAIT_NS);
}

static void test_the_release_of_a_lease_delays_no_directory(void **state)
{
    (void)state;
    kiln_store *directory = NULL;
    fault_of_child = FAULT_DRIP;
    assert_int_equal(run_in_child(put_beside_slow_leases), 0);
    assert_int_equal(kiln_store_open(scratch_path(scratch, "directory"), NULL, &directory, NULL),
                     KILN_OK);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(scratch_get(directory, i), KILN_OK);
    }
    kiln_store_close(&directory);
}

static void test_the_only_thread_waits_for_no_server(void **state)
{
    (void)state;
    kiln_store *directory = NULL;
    if (strcmp(server->name, "redis") != 0) {
        skip(); /* only Redis learns of uses */
    }
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer adds a thread */
#endif
    assert_int_equal(kiln_store_open(scratch_path(scratch, "directory"), NULL, &directory, NULL),
                     KILN_OK);
    assert_int_equal(scratch_put(directory, 1, 1000), KILN_OK);
    kiln_store_close(&directory);
    make_entry_old(1);
    fault_proxy_set(proxy, FAULT_DRIP, 0, "");
    assert_int_equal(run_in_child(drain_the_only_thread), 0);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_layer_ends_while_the_server_drips),
        TEST(test_a_layer_ends_while_the_server_is_silent),
        TEST(test_a_context_ends_while_the_server_drips),
        TEST(test_a_context_ends_while_the_server_is_silent),
        TEST(test_the_release_of_a_lease_delays_no_directory),
        TEST(test_the_only_thread_waits_for_no_server),
    };
    server = argc == 3 ? fleet_server_named(argv[2]) : NULL;
    if (!server) {
        return 2;
    }
    server->require();
    kilni_remote_set_library(argv[1]);
    kilni_remote_set_runtime_folder("/nonexistent");
    proxy = mmap(NULL, sizeof *proxy, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return proxy != MAP_FAILED ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
