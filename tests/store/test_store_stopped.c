/* SPDX-License-Identifier: Apache-2.0
 *
 * A process is stopped while it holds the lock of a statistics file. No other process waits long
 * for the lock, and counts that can't be added meanwhile are added later. In this test, time passes
 * only when the store sleeps, so the waiting time is known exactly.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <kiln/stats.h>

#include "os/os.h"
#include "store/writer.h"
#include "support/child.h"

#define LONGEST_WAIT_NS 5000000u
#define SECOND_NS UINT64_C(1000000000)

static char statistics[SCRATCH_DIRECTORY_SIZE + 16];
static pid_t holder;

/* Read and changed by any thread. */
static _Atomic uint64_t now_ns, slept_ns;

static int sleeping_clock(clockid_t clock, struct timespec *ret_time)
{
    if (clock != CLOCK_MONOTONIC) {
        return kilni_os_system()->clock_gettime(clock, ret_time);
    }
    const uint64_t time_ns = now_ns;
    *ret_time = (struct timespec){.tv_sec = (time_t)(time_ns / SECOND_NS),
                                  .tv_nsec = (long)(time_ns % SECOND_NS)};
    return 0;
}

static int counted_sleep(const struct timespec *duration, struct timespec *remaining)
{
    (void)remaining;
    const uint64_t ns = (uint64_t)duration->tv_sec * SECOND_NS + (uint64_t)duration->tv_nsec;
    now_ns += ns;
    slept_ns += ns;
    return 0;
}

static int set_up(void **state)
{
    cache_set_up(state);
    snprintf(statistics, sizeof statistics, "%s/stats", cache);
    static kilni_os_table table;
    table = *kilni_os_system();
    table.clock_gettime = sleeping_clock;
    table.nanosleep = counted_sleep;
    now_ns = SECOND_NS;
    slept_ns = 0;
    holder = -1;
    kilni_os_replace(&table);
    return 0;
}

/* Kills the process that holds the lock, which releases the lock. */
static void kill_holder(void)
{
    if (holder > 0) {
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
        holder = -1;
    }
}

static int tear_down(void **state)
{
    kill_holder();
    kilni_os_replace(NULL);
    return cache_tear_down(state);
}

/* Starts a process that takes the lock of a file and is then stopped. */
static void start_holder(const char *path)
{
    fflush(NULL);
    holder = fork();
    if (holder == 0) {
        const int file = open(path, O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        CHECK(file >= 0 && fcntl(file, F_OFD_SETLK, &lock) == 0);
        raise(SIGSTOP);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(holder, &status, WUNTRACED), holder);
    assert_true(WIFSTOPPED(status));
}

static uint64_t waited(void)
{
    return atomic_exchange(&slept_ns, 0);
}

static kiln_store *open_store(const char *location, const kiln_store_params *params)
{
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(location, params, &store, NULL), KILN_OK);
    return store;
}

static kiln_stats totals(void)
{
    kiln_stats found;
    assert_int_equal(kiln_stats_read_file(statistics, &found), KILN_OK);
    return found;
}

static void test_puts_wait_once_and_are_counted_later(void **state)
{
    (void)state;
    kiln_store *store = open_store(cache, NULL);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    start_holder(statistics);
    assert_int_equal(scratch_put(store, 2, 100), KILN_OK);
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
    for (uint64_t i = 3; i < 20; i++) {
        assert_int_equal(scratch_put(store, i, 100), KILN_OK);
    }
    assert_int_equal(waited(), 0);
    assert_int_equal(totals().puts, 1);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    assert_int_equal(stat.entries, 19);
    assert_int_equal(stat.totals.puts, 19);
    assert_int_equal(waited(), 0);

    /* After a while a put tries again. The pauses between such attempts grow. */
    now_ns += SECOND_NS;
    assert_int_equal(scratch_put(store, 20, 100), KILN_OK);
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
    assert_int_equal(scratch_put(store, 21, 100), KILN_OK);
    assert_int_equal(waited(), 0);

    kill_holder();
    now_ns += 60 * SECOND_NS;
    assert_int_equal(scratch_put(store, 22, 100), KILN_OK);
    assert_int_equal(waited(), 0);
    assert_int_equal(totals().puts, 22);
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    assert_int_equal(stat.entries, 22);
    kiln_store_close(&store);
}

static void test_pending_notices_are_sent_at_the_end(void **state)
{
    (void)state;
    const kiln_stats delta = {.builds = 3};
    kiln_store *store = open_store(cache, NULL);
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    start_holder(statistics);
    assert_int_equal(scratch_put(store, 2, 100), KILN_OK);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    kiln_key *key = scratch_key(1);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    kiln_key_release(&key);
    kill_holder();
    kiln_store_close(&store);
    assert_int_equal(totals().puts, 2);
    assert_int_equal(totals().builds, 3);
    store = open_store(cache, NULL);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    assert_int_equal(stat.entries, 1);
    kiln_store_close(&store);
}

static void test_a_store_that_evicts_nothing(void **state)
{
    (void)state;
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = 10 * 4096, .policy = KILN_POLICY_NO_EVICT};
    kiln_store *store = open_store(cache, &params);
    assert_int_equal(scratch_put(store, 1, 2000), KILN_OK);
    start_holder(statistics);
    kiln_status status = KILN_OK;
    uint64_t count = 1;
    while (status == KILN_OK && count < 100) {
        status = scratch_put(store, ++count, 2000);
    }
    assert_int_equal(status, KILN_E_FULL);
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_true(stat.bytes <= 10 * 4096);
    kiln_store_close(&store);
}

/* A get of an entry in a lower store writes it to the upper one. */
static void test_a_get_through_a_chain(void **state)
{
    (void)state;
    char below[SCRATCH_DIRECTORY_SIZE + 8], chain[3 * SCRATCH_DIRECTORY_SIZE];
    snprintf(below, sizeof below, "%s/below", scratch);
    snprintf(chain, sizeof chain, "%s|%s", cache, below);
    kiln_store *store = open_store(below, NULL);
    for (uint64_t i = 1; i < 4; i++) {
        assert_int_equal(scratch_put(store, i, 100), KILN_OK);
    }
    kiln_store_close(&store);
    store = open_store(chain, NULL);
    assert_int_equal(scratch_put(store, 9, 100), KILN_OK);
    start_holder(statistics);
    for (uint64_t i = 1; i < 4; i++) {
        assert_int_equal(scratch_get(store, i), KILN_OK);
    }
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
    kill_holder();
    kiln_store_close(&store);
    assert_int_equal(totals().puts, 4);
}

/* The writer has counts to add to a separate file, and the store adds its own when it is closed. */
static void test_the_end_of_a_writer(void **state)
{
    (void)state;
    kiln_store *store = open_store(cache, NULL);
    kilni_writer *writer = NULL;
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(kilni_writer_new(store, 1 << 20, &writer), KILN_OK);
    assert_int_equal(kilni_writer_set_stats_file(writer, statistics), KILN_OK);
    start_holder(statistics);
    const kiln_stats delta = {.misses = 1};
    kilni_writer_count(writer, &delta);
    kilni_writer_close(&writer, 2 * SECOND_NS);
    assert_in_range(waited(), 1, 4 * LONGEST_WAIT_NS);
}

static void test_readers_do_not_wait(void **state)
{
    (void)state;
    const kiln_stats delta = {.builds = 3};
    snprintf(statistics, sizeof statistics, "%s/counters", scratch);
    assert_int_equal(kiln_stats_add_to_file(statistics, &delta), KILN_OK);
    start_holder(statistics);
    assert_int_equal(totals().builds, 3);
    assert_int_equal(waited(), 0);
    assert_int_equal(kiln_stats_add_to_file(statistics, &delta), KILN_E_IO);
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
    assert_int_equal(totals().builds, 3);

    /* The checksum is wrong now. A writer may be in the middle of a change, so the reader waits. */
    const int file = open(statistics, O_WRONLY);
    assert_int_equal(pwrite(file, "x", 1, 40), 1);
    close(file);
    kiln_stats found;
    assert_int_equal(kiln_stats_read_file(statistics, &found), KILN_E_IO);
    assert_in_range(waited(), 1, LONGEST_WAIT_NS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_puts_wait_once_and_are_counted_later),
        TEST(test_pending_notices_are_sent_at_the_end),
        TEST(test_a_store_that_evicts_nothing),
        TEST(test_a_get_through_a_chain),
        TEST(test_the_end_of_a_writer),
        TEST(test_readers_do_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
