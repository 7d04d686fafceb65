/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes on one store: who holds a lease, and what becomes of it; counters.
 */
#include "support/store_scene.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "os/os.h"
#include "store/lock.h"

#define WORKERS 4

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_DIRECTORY_SIZE + 8];

static kiln_store *open_store(uint64_t max_bytes)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = max_bytes, .layout = scratch_layout};
    kiln_store *store = NULL;
    return kiln_store_open(cache, &params, &store, NULL) == KILN_OK ? store : NULL;
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

/* Runs @work in a child, which ends with what it returns. */
static pid_t start_process(int (*work)(uint64_t argument), uint64_t argument)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(work(argument));
    }
    assert_true(child > 0);
    return child;
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void expect_success(pid_t child)
{
    int status = wait_for(child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- leases ---- */

/* Holds the lease of a key until it is killed or told to go; tells when it has it. */
typedef struct rod {
    int told[2], tell[2];
} rod;

static rod line;

static void make_line(void)
{
    assert_int_equal(pipe(line.told), 0);
    assert_int_equal(pipe(line.tell), 0);
}

static void close_line(void)
{
    close(line.told[0]);
    close(line.told[1]);
    close(line.tell[0]);
    close(line.tell[1]);
}

static void expect_told(void)
{
    char byte = 0;
    assert_int_equal(read(line.told[0], &byte, 1), 1);
    assert_int_equal(byte, '!');
}

static int tell(char byte)
{
    return write(line.told[1], &byte, 1) == 1 ? 0 : 1;
}

static int wait_to_be_told(void)
{
    char byte;
    return read(line.tell[0], &byte, 1) == 1 ? 0 : 1;
}

static int hold_lease(uint64_t number)
{
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(number);
    kiln_lease *lease = NULL;
    if (kiln_store_lease(store, key, 0, &lease) != KILN_OK || tell('!') != 0) {
        return 1;
    }
    wait_to_be_told();
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_store_close(&store);
    return 0;
}

static void test_a_lease_excludes_other_processes(void **state)
{
    (void)state;
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    make_line();
    pid_t holder = start_process(hold_lease, 1);
    expect_told();
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_BUSY);
    assert_int_equal(kiln_store_lease(store, key, 10000000, &lease), KILN_BUSY);
    assert_int_equal(write(line.tell[1], "!", 1), 1);
    assert_int_equal(kiln_store_lease(store, key, UINT64_MAX, &lease), KILN_OK);
    expect_success(holder);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_store_close(&store);
    close_line();
}

static void test_a_killed_holder_frees_its_lease(void **state)
{
    (void)state;
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    make_line();
    pid_t holder = start_process(hold_lease, 1);
    expect_told();
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_BUSY);
    kill(holder, SIGKILL);
    assert_true(WIFSIGNALED(wait_for(holder)));
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_store_close(&store);
    close_line();
}

/* Takes the lease, then forks a child that lives on, idle, with everything it inherited. */
static int hold_lease_and_fork(uint64_t number)
{
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(number);
    kiln_lease *lease = NULL;
    if (kiln_store_lease(store, key, 0, &lease) != KILN_OK) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        int failed = tell('!');
        wait_to_be_told();
        kiln_lease_release(&lease);
        kiln_key_release(&key);
        kiln_store_close(&store);
        _exit(failed);
    }
    pause();
    return 1;
}

static void test_a_forked_child_keeps_no_lease(void **state)
{
    (void)state;
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    make_line();
    pid_t holder = start_process(hold_lease_and_fork, 1);
    expect_told();
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_BUSY);
    kill(holder, SIGKILL);
    assert_true(WIFSIGNALED(wait_for(holder)));
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(write(line.tell[1], "!", 1), 1);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    kiln_store_close(&store);
    close_line();
}

static void test_a_child_frees_nothing_of_its_parents(void **state)
{
    (void)state;
    kiln_store *store = open_store(0);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    kiln_lease *second = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        kiln_lease *own = NULL;
        kiln_lease_release(&lease);
        bool is_right = kiln_store_lease(store, key, 0, &own) == KILN_BUSY &&
                        scratch_put(store, 1, 10) == KILN_OK && scratch_get(store, 1) == KILN_OK;
        _exit(is_right ? 0 : 1);
    }
    expect_success(child);
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_lease_release(&lease);
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_OK);
    kiln_lease_release(&second);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

/* Of a thread that held a lock when the process forked the child has nothing but memory, which is
 * soon used for something else. */
static void test_a_child_forgets_where_locks_were(void **state)
{
    (void)state;
    kiln_store *store = open_store(0);
    static kilni_lock of_a_thread;
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "%s/lock", scratch);
    assert_int_equal(kilni_lock_open(AT_FDCWD, path, O_RDWR | O_CREAT, &of_a_thread), KILN_OK);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        kilni_lock reused;
        memset(&of_a_thread, 0x5a, sizeof of_a_thread);
        memset(&reused, 0x5a, sizeof reused);
        bool is_right = scratch_put(store, 1, 10) == KILN_OK &&
                        memcmp(&of_a_thread, &reused, sizeof reused) == 0;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(scratch_get(store, 1) == KILN_OK ? 0 : 1);
        }
        int answer = -1;
        is_right = is_right && waitpid(grandchild, &answer, 0) == grandchild && answer == 0;
        _exit(is_right ? 0 : 1);
    }
    expect_success(child);
    kilni_lock_close(&of_a_thread);
    kiln_store_close(&store);
}

/* ---- counters ---- */

#define ACCOUNTS 200

/* A clock that is a thousand times slower: on a busy machine, too, the lock of the totals is had in
 * time, and nothing that is owed is given up. */
static int slow_clock(clockid_t clock, struct timespec *ret_time)
{
    const int result = kilni_os_system()->clock_gettime(clock, ret_time);
    if (clock == CLOCK_MONOTONIC) {
        const uint64_t ns =
            ((uint64_t)ret_time->tv_sec * 1000000000 + (uint64_t)ret_time->tv_nsec) / 1000;
        *ret_time = (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                                      .tv_nsec = (long)(ns % 1000000000)};
    }
    return result;
}

static int account(uint64_t number)
{
    kilni_os_table table = *kilni_os_system();
    table.clock_gettime = slow_clock;
    kilni_os_replace(&table);
    kiln_store *store = open_store(0);
    const kiln_stats delta = {.hits_store = 1, .saved_ns = 10};
    for (int i = 0; i < ACCOUNTS; i++) {
        if (kiln_store_account(store, &delta) != KILN_OK) {
            return 1;
        }
    }
    kiln_status status = scratch_put(store, number, 10);
    kiln_store_close(&store);
    return status == KILN_OK ? 0 : 1;
}

static void test_counters_add_up(void **state)
{
    (void)state;
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = start_process(account, (uint64_t)i);
    }
    for (int i = 0; i < WORKERS; i++) {
        expect_success(workers[i]);
    }
    kiln_store *store = open_store(0);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, &stat), KILN_OK);
    assert_int_equal(stat.totals.hits_store, WORKERS * ACCOUNTS);
    assert_int_equal(stat.totals.saved_ns, WORKERS * ACCOUNTS * 10);
    assert_int_equal(stat.totals.puts, WORKERS);
    assert_int_equal(stat.entries, WORKERS);
    kiln_store_close(&store);
}

/* test_store_processes [LAYOUT] */
int main(int argc, char **argv)
{
    if (argc > 1) {
        scratch_layout = argv[1];
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_excludes_other_processes),
        TEST(test_a_killed_holder_frees_its_lease),
        TEST(test_a_forked_child_keeps_no_lease),
        TEST(test_a_child_frees_nothing_of_its_parents),
        TEST(test_a_child_forgets_where_locks_were),
        TEST(test_counters_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
