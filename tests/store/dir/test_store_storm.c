/* SPDX-License-Identifier: Apache-2.0
 *
 * Many processes put, get, remove, trim and lease in one store, and are killed at any moment. Every
 * value is a function of its key, so a reader detects a wrong one.
 *
 *     test_store_storm [SECONDS [LAYOUT]]
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "os/os.h"
#include "store/totals.h"

#define SEED 20240607u
#define WORKERS 8
#define KEYS 12
#define MAX_BYTES 300000 /* less than all values, so puts trim too */

/* What all processes share. */
typedef struct board {
    _Atomic uint64_t gets, puts, removals, trims, leases;
    _Atomic uint64_t wrong_bytes;   /* gets that returned bytes other than the key's */
    _Atomic uint64_t failures;      /* statuses that must not occur here */
    _Atomic uint64_t broken_leases; /* two processes held the lease of the same key */
    _Atomic int holder[KEYS];
} board;

static int storm_s = 5;

static board *shared;

static int set_up(void **state)
{
    cache_set_up(state);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    munmap(shared, sizeof *shared);
    return cache_tear_down(state);
}

/* ---- the actions of a process ---- */

/* Counts a status that must not occur, and prints it: the processes share the test's output. */
static void count_failure(bool failed, const char *action, kiln_status status)
{
    if (failed) {
        atomic_fetch_add(&shared->failures, 1);
        fprintf(stderr, "%s: %s (errno %d)\n", action, kiln_status_name(status), errno);
    }
}

static void read_one(kiln_store *store, uint64_t number)
{
    kiln_status status = scratch_get(store, number);
    atomic_fetch_add(&shared->gets, 1);
    atomic_fetch_add(&shared->wrong_bytes, status == KILN_E_REFUSED);
    count_failure(status != KILN_OK && status != KILN_MISS, "get", status);
}

static void write_one(kiln_store *store, uint64_t number, uint64_t random)
{
    kiln_status status = scratch_put(store, number, 100 + random % 60000);
    atomic_fetch_add(&shared->puts, 1);
    count_failure(status != KILN_OK, "put", status);
}

/* A process that is killed while it removes a file blocks further removals of that name for an
 * hour. */
static void remove_one(kiln_store *store, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_status status = kiln_store_remove(store, key);
    kiln_key_release(&key);
    atomic_fetch_add(&shared->removals, status == KILN_OK);
    count_failure(status != KILN_OK && status != KILN_MISS && status != KILN_BUSY, "remove",
                  status);
}

static void trim_all(kiln_store *store, uint64_t random)
{
    kiln_status status = trim_to(store, random % MAX_BYTES, NULL);
    atomic_fetch_add(&shared->trims, status == KILN_OK);
    count_failure(status != KILN_OK && status != KILN_BUSY, "trim", status);
}

/* Registers this process as the holder while it has the lease. If another process is registered
 * then, that is a fault. */
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
    count_failure(status != KILN_OK && status != KILN_BUSY, "lease", status);
    kiln_lease_release(&lease);
}

/* Does not return: the process is killed from outside. */
static void storm(uint64_t seed)
{
    kiln_store *store = cache_open(MAX_BYTES);
    if (!store) {
        count_failure(true, "open", KILN_E_IO);
        return;
    }
    for (uint64_t i = 0;; i++) {
        uint64_t random = scratch_mix(seed * 1000003 + i);
        uint64_t number = random % KEYS;
        uint64_t deed = random / KEYS % 16;
        if (deed < 7) {
            read_one(store, number);
        } else if (deed < 11) {
            write_one(store, number, random / 256);
        } else if (deed < 14) {
            lease_one(store, number);
        } else if (deed < 15) {
            remove_one(store, number);
        } else {
            trim_all(store, random / 256);
        }
    }
}

/* ---- the killer ---- */

static pid_t start_process(uint64_t seed)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        storm(seed);
        _exit(1);
    }
    assert_true(child > 0);
    return child;
}

static void kill_process(pid_t worker)
{
    int status = 0;
    kill(worker, SIGKILL);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
    }
    assert_true(WIFSIGNALED(status));
}

static bool is_over(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - start->tv_sec >= storm_s;
}

static unsigned kill_at_random(void)
{
    pid_t workers[WORKERS];
    unsigned kills = 0;
    uint64_t next_seed = SEED;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = start_process(next_seed++);
    }
    while (!is_over(&start)) {
        uint64_t random = scratch_mix(SEED + kills);
        usleep((useconds_t)(3000 + random % 30000));
        unsigned victim = (unsigned)(random >> 32) % WORKERS;
        kill_process(workers[victim]);
        kills++;
        workers[victim] = start_process(next_seed++);
    }
    for (int i = 0; i < WORKERS; i++) {
        kill_process(workers[i]);
    }
    return kills;
}

/* ---- the end ---- */

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

static bool is_temporary(const char *path, const struct FTW *walk)
{
    return strncmp(path + walk->base, ".tmp-", 5) == 0;
}

static int age_temporary(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    return is_temporary(path, walk) && utimensat(AT_FDCWD, path, old, 0) != 0;
}

static unsigned temporaries;

static int count_temporary(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    temporaries += is_temporary(path, walk);
    return 0;
}

/* Reports a file's time of last modification as its time of last change too. A test can set only
 * the former, but both decide whether a file that was set aside is old. */
static int fstatat_of_old_times(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    ret_stat->st_ctim = ret_stat->st_mtim;
    return result;
}

/* Leftovers of killed writers are removed by the first trim after the grace period. */
static void expect_no_litter(kiln_store *store)
{
    kilni_os_table table = *kilni_os_system();
    table.fstatat = fstatat_of_old_times;
    assert_int_equal(nftw(cache, age_temporary, 16, FTW_PHYS), 0);
    kilni_os_replace(&table);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    kilni_os_replace(NULL);
    temporaries = 0;
    nftw(cache, count_temporary, 16, FTW_PHYS);
    assert_int_equal(temporaries, 0);
}

static void test_a_storm_of_kills(void **state)
{
    (void)state;
    unsigned kills = kill_at_random();
    print_message("          %u kills, %lu gets, %lu puts, %lu removals, %lu trims, %lu leases\n",
                  kills, (unsigned long)shared->gets, (unsigned long)shared->puts,
                  (unsigned long)shared->removals, (unsigned long)shared->trims,
                  (unsigned long)shared->leases);
    assert_true(kills > 10);
    assert_true(shared->gets > 0 && shared->puts > 0 && shared->leases > 0);
    assert_true(shared->trims > 0 && shared->removals > 0);
    assert_int_equal(shared->wrong_bytes, 0);
    assert_int_equal(shared->failures, 0);
    assert_int_equal(shared->broken_leases, 0);

    kiln_store *store = cache_open(0);
    assert_non_null(store);
    assert_int_equal(scratch_put(store, 0, 1000), KILN_OK);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.corrupt, 0);
    assert_true(report.ok > 0);
    expect_leases_free(store);
    kilni_totals totals;
    assert_int_equal(kilni_totals_read_file(AT_FDCWD, scratch_path(cache, "stats"), &totals),
                     KILN_OK);
    expect_no_litter(store);
    kiln_store_close(&store);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_storm_of_kills, set_up, tear_down),
    };
    if (count > 1) {
        storm_s = atoi(arguments[1]);
    }
    if (count > 2) {
        scratch_layout = arguments[2];
    }
    print_message("seed %u\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
