/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests several processes on one store: which process holds a lease, what happens to leases when
 * processes exit or fork, and counters.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "os/os.h"
#include "store/lock.h"

#define WORKERS 4

/* Runs @work in a child, which exits with its result. */
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

/* A child that takes the lease of a key, reports that it has the lease, and holds it until it is
 * killed or told to release it. */
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
    kiln_store *store = cache_open(0);
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
    kiln_store *store = cache_open(0);
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
    kiln_store *store = cache_open(0);
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

/* Takes the lease, then forks a child that inherits everything and does nothing. */
static int hold_lease_and_fork(uint64_t number)
{
    kiln_store *store = cache_open(0);
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
    kiln_store *store = cache_open(0);
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

static void test_a_child_does_not_release_its_parents_lease(void **state)
{
    (void)state;
    kiln_store *store = cache_open(0);
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

/* The thread that held a lock in the parent does not exist in the child, and the child soon reuses
 * its memory. */
static void test_a_child_forgets_where_locks_were(void **state)
{
    (void)state;
    kiln_store *store = cache_open(0);
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

/* ---- a fork while a file server does not answer ---- */

enum { AT_OPEN, AT_UNLOCK };

/* The system call that does not return before the process has forked. */
static struct {
    uint64_t where;
    sem_t is_reached, may_go_on;
    bool is_open; /* calls are no longer delayed */
    bool gave_up; /* nothing opened the gate for 20 s: fork was waiting for the call */
} gate;

static void wait_at_gate(void)
{
    struct timespec end;
    if (gate.is_open) {
        return;
    }
    gate.is_open = true;
    sem_post(&gate.is_reached);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20; /* elapses only if the test fails */
    while (sem_timedwait(&gate.may_go_on, &end) != 0 && !gate.gave_up) {
        gate.gave_up = errno == ETIMEDOUT;
    }
}

/* Opens the file, and returns only after the process has forked. */
static int gated_openat(int directory, const char *path, int flags, mode_t mode)
{
    const int file = kilni_os_system()->openat(directory, path, flags, mode);
    if (gate.where == AT_OPEN && strcmp(path, "lease") == 0 && file >= 0) {
        wait_at_gate();
    }
    return file;
}

static int gated_lock(int file, short type, off_t offset, off_t size)
{
    if (gate.where == AT_UNLOCK && type == F_UNLCK) {
        wait_at_gate();
    }
    return kilni_os_system()->lock(file, type, offset, size);
}

static void *take_a_lease(void *store)
{
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    const kiln_status status = kiln_store_lease(store, key, 0, &lease);
    if (gate.where == AT_UNLOCK) {
        kiln_lease_release(&lease);
    }
    kiln_key_release(&key);
    return status == KILN_OK ? store : NULL;
}

/* Forks while a thread waits at the gate, with or without the lease. The parent then goes
 * on, and the child does too until it is told to end. */
static int fork_beside_gate(uint64_t where)
{
    kilni_os_table table = *kilni_os_system();
    table.openat = gated_openat;
    table.lock = gated_lock;
    gate.where = where;
    kiln_store *store = cache_open(0);
    pthread_t thread;
    kilni_os_replace(&table);
    if (!store || sem_init(&gate.is_reached, 0, 0) != 0 || sem_init(&gate.may_go_on, 0, 0) != 0 ||
        pthread_create(&thread, NULL, take_a_lease, store) != 0) {
        return tell('?');
    }
    while (sem_wait(&gate.is_reached) != 0) {
    }
    const pid_t child = fork();
    if (child == 0) {
        close(line.tell[1]);
        _exit(wait_to_be_told());
    }
    sem_post(&gate.may_go_on);
    void *has_taken = NULL;
    pthread_join(thread, &has_taken);
    tell(child > 0 && has_taken && !gate.gave_up ? '!' : '?');
    for (;;) {
        pause();
    }
}

static void check_fork_beside(uint64_t where)
{
    make_line();
    kiln_store *store = cache_open(0);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK); /* creates the file */
    kiln_lease_release(&lease);
    const pid_t parent = start_process(fork_beside_gate, where);
    char byte = 0;
    assert_int_equal(read(line.told[0], &byte, 1), 1);
    const kiln_status beside = kiln_store_lease(store, key, 0, &lease);
    kiln_lease_release(&lease);
    kill(parent, SIGKILL);
    wait_for(parent);
    const kiln_status after = kiln_store_lease(store, key, 0, &lease);
    kiln_lease_release(&lease);
    assert_int_equal(write(line.tell[1], "!", 1), 1);
    close_line();
    kiln_key_release(&key);
    kiln_store_close(&store);
    assert_int_equal(byte, '!');
    assert_int_equal(beside, where == AT_OPEN ? KILN_BUSY : KILN_OK);
    assert_int_equal(after, KILN_OK);
}

static void test_fork_does_not_wait_for_a_file_server(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    /* ThreadSanitizer has started a thread itself, and allows no new thread in a child of a process
     * with threads. */
    skip();
#endif
    check_fork_beside(AT_OPEN);
    check_fork_beside(AT_UNLOCK);
}

/* ---- counters ---- */

#define ACCOUNTS 200

/* A clock that is a thousand times slower: the lock of the totals is obtained in time even on a
 * busy machine, and no pending count is given up. */
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
    kiln_store *store = cache_open(0);
    const kiln_stats delta = {.hits_store = 1, .saved_ns = 10};
    for (int i = 0; i < ACCOUNTS; i++) {
        if (kiln_store_add_stats(store, &delta) != KILN_OK) {
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
    kiln_store *store = cache_open(0);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, cache_set_up, cache_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_excludes_other_processes),
        TEST(test_a_killed_holder_frees_its_lease),
        TEST(test_a_forked_child_keeps_no_lease),
        TEST(test_a_child_does_not_release_its_parents_lease),
        TEST(test_a_child_forgets_where_locks_were),
        TEST(test_fork_does_not_wait_for_a_file_server),
        TEST(test_counters_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
