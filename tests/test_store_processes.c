/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes on one store, some of them killed at any moment. Every value is a function of
 * its key, so that whoever reads can tell a wrong one.
 */
#include "support/store_scene.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "store/lock.h"
#include "store/totals.h"

#define SEED 20240607u
#define WORKERS 4
#define KEYS 12
#define STORM_S 5

/* What the processes share. */
typedef struct board {
    _Atomic uint64_t gets, puts, leases;
    _Atomic uint64_t wrong_bytes;   /* gets that answered other bytes than the key's */
    _Atomic uint64_t failures;      /* statuses that have no place here */
    _Atomic uint64_t broken_leases; /* two held one key */
    _Atomic int holder[KEYS];
} board;

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_DIRECTORY_SIZE + 8];
static board *shared;

static kiln_store *open_store(uint64_t max_bytes)
{
    const kiln_store_params params = {.struct_size = sizeof params, .max_bytes = max_bytes};
    kiln_store *store = NULL;
    return kiln_store_open(cache, &params, &store, NULL) == KILN_OK ? store : NULL;
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    munmap(shared, sizeof *shared);
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

/* ---- the storm ---- */

static void read_one(kiln_store *store, uint64_t number)
{
    kiln_status status = scratch_get(store, number);
    atomic_fetch_add(&shared->gets, 1);
    atomic_fetch_add(&shared->wrong_bytes, status == KILN_E_REFUSED);
    atomic_fetch_add(&shared->failures, status != KILN_OK && status != KILN_MISS);
}

static void write_one(kiln_store *store, uint64_t number, uint64_t random)
{
    kiln_status status = scratch_put(store, number, 100 + random % 60000);
    atomic_fetch_add(&shared->puts, 1);
    atomic_fetch_add(&shared->failures, status != KILN_OK);
}

/* While one holds a lease, nobody else may put his name down. */
static void lease_one(kiln_store *store, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_lease *lease = NULL;
    kiln_status status = kiln_store_lease(store, key, 2000000, &lease);
    kiln_key_release(&key);
    if (status == KILN_OK) {
        atomic_store(&shared->holder[number], getpid());
        usleep(500);
        bool is_ours = atomic_load(&shared->holder[number]) == getpid();
        atomic_fetch_add(&shared->broken_leases, !is_ours);
        atomic_fetch_add(&shared->leases, 1);
    }
    atomic_fetch_add(&shared->failures, status != KILN_OK && status != KILN_BUSY);
    kiln_lease_release(&lease);
}

static int storm(uint64_t seed)
{
    kiln_store *store = open_store(300000);
    if (!store) {
        return 1;
    }
    for (uint64_t i = 0;; i++) {
        uint64_t random = scratch_mix(seed * 1000003 + i);
        uint64_t number = random % KEYS;
        switch (random / KEYS % 4) {
        case 0:
            write_one(store, number, random / 64);
            break;
        case 1:
            lease_one(store, number);
            break;
        default:
            read_one(store, number);
        }
    }
}

static bool is_over(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - start->tv_sec >= STORM_S;
}

static unsigned kill_at_random(void)
{
    pid_t workers[WORKERS];
    unsigned kills = 0;
    uint64_t next_seed = SEED;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = start_process(storm, next_seed++);
    }
    while (!is_over(&start)) {
        uint64_t random = scratch_mix(SEED + kills);
        usleep((useconds_t)(3000 + random % 30000));
        unsigned victim = (unsigned)(random >> 32) % WORKERS;
        kill(workers[victim], SIGKILL);
        assert_true(WIFSIGNALED(wait_for(workers[victim])));
        kills++;
        workers[victim] = start_process(storm, next_seed++);
    }
    for (int i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGKILL);
        assert_true(WIFSIGNALED(wait_for(workers[i])));
    }
    return kills;
}

static void expect_leases_free(kiln_store *store)
{
    for (uint64_t number = 0; number < KEYS; number++) {
        kiln_key *key = scratch_key(number);
        kiln_lease *lease = NULL;
        assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
        kiln_lease_release(&lease);
        kiln_key_release(&key);
    }
}

static int age_temporary(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    return path[walk->base] == '.' && utimensat(AT_FDCWD, path, old, 0) != 0;
}

static unsigned temporaries;

static int count_temporary(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    temporaries += path[walk->base] == '.';
    return 0;
}

static void test_a_storm_of_kills(void **state)
{
    (void)state;
    unsigned kills = kill_at_random();
    print_message("          %u kills, %lu gets, %lu puts, %lu leases\n", kills,
                  (unsigned long)shared->gets, (unsigned long)shared->puts,
                  (unsigned long)shared->leases);
    assert_true(kills > 10);
    assert_true(shared->gets > 100 && shared->puts > 100 && shared->leases > 100);
    assert_int_equal(shared->wrong_bytes, 0);
    assert_int_equal(shared->failures, 0);
    assert_int_equal(shared->broken_leases, 0);

    kiln_store *store = open_store(0);
    assert_non_null(store);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.corrupt, 0);
    assert_true(report.ok > 0);
    expect_leases_free(store);
    kilni_totals totals;
    assert_int_equal(kilni_totals_read_file(AT_FDCWD, scratch_path(cache, "stats"), &totals),
                     KILN_OK);

    nftw(cache, age_temporary, 16, FTW_PHYS);
    assert_int_equal(kiln_store_trim(store, KILN_UNLIMITED, NULL), KILN_OK);
    temporaries = 0;
    nftw(cache, count_temporary, 16, FTW_PHYS);
    assert_int_equal(temporaries, 0);
    kiln_store_close(&store);
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

static int account(uint64_t number)
{
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_storm_of_kills),
        TEST(test_a_lease_excludes_other_processes),
        TEST(test_a_killed_holder_frees_its_lease),
        TEST(test_a_forked_child_keeps_no_lease),
        TEST(test_a_child_frees_nothing_of_its_parents),
        TEST(test_a_child_forgets_where_locks_were),
        TEST(test_counters_add_up),
    };
    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
