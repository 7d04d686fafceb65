/* SPDX-License-Identifier: Apache-2.0
 *
 * For every system call that the store makes, and for every n, the n-th call of that kind fails:
 * first that call alone, then it and all later ones. Whatever fails, no wrong bytes are returned,
 * no descriptor leaks, each call returns only statuses that its header lists, and afterwards the
 * store works as before.
 */
#include "support/store_scene.h"

#include <errno.h>

#include "os/os.h"
#include "support/failing_malloc.h"

#define EXISTING 4u    /* existing entries */
#define EXHAUSTIVE 40u /* this many calls of a kind fail in turn; then one in STRIDE */
#define STRIDE 199u

#define CALLS(X)                                                                                   \
    X(openat)                                                                                      \
    X(open_below)                                                                                  \
    X(close)                                                                                       \
    X(read)                                                                                        \
    X(pread)                                                                                       \
    X(write)                                                                                       \
    X(pwrite)                                                                                      \
    X(fstat)                                                                                       \
    X(fstatat)                                                                                     \
    X(renameat)                                                                                    \
    X(rename_new)                                                                                  \
    X(linkat)                                                                                      \
    X(unlinkat)                                                                                    \
    X(mkdirat)                                                                                     \
    X(readlinkat)                                                                                  \
    X(futimens)                                                                                    \
    X(fdatasync)                                                                                   \
    X(ftruncate)                                                                                   \
    X(lock)                                                                                        \
    X(fdopendir)                                                                                   \
    X(readdir)                                                                                     \
    X(closedir)                                                                                    \
    X(nanosleep)                                                                                   \
    X(getrandom)                                                                                   \
    X(duplicate)                                                                                   \
    X(duplicate_over)

enum call {
#define ENUM(name) CALL_##name,
    CALLS(ENUM)
#undef ENUM
        CALL_COUNT
};

static const char *const call_names[] = {
#define NAME(name) #name,
    CALLS(NAME)
#undef NAME
};

/* The failing call. One thread. */
static enum call failing_call;
static int failing_error;
static bool fails_on; /* all later calls fail too */
static unsigned fails_at, seen;
static size_t longest_transfer;
static unsigned short_at, transfers; /* only one transfer is short; 0: none */
static uint64_t fake_time_ns;

static const kilni_os_table *system_table;

static bool fails(enum call call)
{
    if (call != failing_call || fails_at == 0) {
        return false;
    }
    seen++;
    if (seen == fails_at || (fails_on && seen > fails_at)) {
        errno = failing_error;
        return true;
    }
    return false;
}

static size_t shortened(size_t size)
{
    if (short_at > 0 && ++transfers == short_at) {
        return (size + 1) / 2;
    }
    return size < longest_transfer ? size : longest_transfer;
}

static int faulty_openat(int directory, const char *path, int flags, mode_t mode)
{
    return fails(CALL_openat) ? -1 : system_table->openat(directory, path, flags, mode);
}

static int faulty_open_below(int directory, const char *path, int flags)
{
    return fails(CALL_open_below) ? -1 : system_table->open_below(directory, path, flags);
}

static int faulty_duplicate(int file, int least)
{
    return fails(CALL_duplicate) ? -1 : system_table->duplicate(file, least);
}

static int faulty_duplicate_over(int file, int number)
{
    return fails(CALL_duplicate_over) ? -1 : system_table->duplicate_over(file, number);
}

/* The system closes a descriptor even if it reports a failure. */
static int faulty_close(int file)
{
    bool failed = fails(CALL_close);
    int result = system_table->close(file);
    if (failed) {
        errno = failing_error;
        return -1;
    }
    return result;
}

static ssize_t faulty_read(int file, void *buffer, size_t size)
{
    return fails(CALL_read) ? -1 : system_table->read(file, buffer, shortened(size));
}

static ssize_t faulty_pread(int file, void *buffer, size_t size, off_t offset)
{
    return fails(CALL_pread) ? -1 : system_table->pread(file, buffer, shortened(size), offset);
}

static ssize_t faulty_write(int file, const void *buffer, size_t size)
{
    return fails(CALL_write) ? -1 : system_table->write(file, buffer, shortened(size));
}

static ssize_t faulty_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    return fails(CALL_pwrite) ? -1 : system_table->pwrite(file, buffer, shortened(size), offset);
}

static int faulty_fstat(int file, struct stat *ret_stat)
{
    return fails(CALL_fstat) ? -1 : system_table->fstat(file, ret_stat);
}

static int faulty_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    return fails(CALL_fstatat) ? -1 : system_table->fstatat(directory, path, ret_stat, flags);
}

static int faulty_renameat(int from, const char *old_path, int to, const char *new_path)
{
    return fails(CALL_renameat) ? -1 : system_table->renameat(from, old_path, to, new_path);
}

static int faulty_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    return fails(CALL_rename_new) ? -1 : system_table->rename_new(from, old_path, to, new_path);
}

static int faulty_linkat(int from, const char *old_path, int to, const char *new_path, int flags)
{
    return fails(CALL_linkat) ? -1 : system_table->linkat(from, old_path, to, new_path, flags);
}

static int faulty_unlinkat(int directory, const char *path, int flags)
{
    return fails(CALL_unlinkat) ? -1 : system_table->unlinkat(directory, path, flags);
}

static int faulty_mkdirat(int directory, const char *path, mode_t mode)
{
    return fails(CALL_mkdirat) ? -1 : system_table->mkdirat(directory, path, mode);
}

static ssize_t faulty_readlinkat(int directory, const char *path, char *buffer, size_t size)
{
    return fails(CALL_readlinkat) ? -1 : system_table->readlinkat(directory, path, buffer, size);
}

static int faulty_futimens(int file, const struct timespec times[2])
{
    return fails(CALL_futimens) ? -1 : system_table->futimens(file, times);
}

static int faulty_fdatasync(int file)
{
    (void)file; /* no power cut is simulated here, and flushing to a disk is slow */
    return fails(CALL_fdatasync) ? -1 : 0;
}

static int faulty_ftruncate(int file, off_t size)
{
    return fails(CALL_ftruncate) ? -1 : system_table->ftruncate(file, size);
}

static int faulty_lock(int file, short type, off_t offset, off_t size)
{
    return fails(CALL_lock) ? -1 : system_table->lock(file, type, offset, size);
}

static DIR *faulty_fdopendir(int file)
{
    return fails(CALL_fdopendir) ? NULL : system_table->fdopendir(file);
}

static struct dirent *faulty_readdir(DIR *directory)
{
    return fails(CALL_readdir) ? NULL : system_table->readdir(directory);
}

static int faulty_closedir(DIR *directory)
{
    bool failed = fails(CALL_closedir);
    int result = system_table->closedir(directory);
    return failed ? -1 : result;
}

/* Time passes when the store sleeps, and a little when it reads the clock, so that no wait takes
 * long. */
static int fake_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (clock != CLOCK_MONOTONIC) {
        return system_table->clock_gettime(clock, ret_time);
    }
    fake_time_ns += 1000000;
    *ret_time = (struct timespec){.tv_sec = (time_t)(fake_time_ns / 1000000000),
                                  .tv_nsec = (long)(fake_time_ns % 1000000000)};
    return 0;
}

static int faulty_nanosleep(const struct timespec *duration, struct timespec *remaining)
{
    (void)remaining;
    if (fails(CALL_nanosleep)) {
        return -1;
    }
    fake_time_ns += (uint64_t)duration->tv_sec * 1000000000 + (uint64_t)duration->tv_nsec;
    return 0;
}

static ssize_t faulty_getrandom(void *buffer, size_t size, unsigned flags)
{
    return fails(CALL_getrandom) ? -1 : system_table->getrandom(buffer, size, flags);
}

static kilni_os_table faulty_table(void)
{
    kilni_os_table table = *system_table;
#define REPLACE(name) table.name = faulty_##name;
    CALLS(REPLACE)
#undef REPLACE
    table.clock_gettime = fake_clock_gettime;
    return table;
}

static void arm(enum call call, int error, bool on, unsigned at)
{
    failing_call = call;
    failing_error = error;
    fails_on = on;
    fails_at = at;
    seen = 0;
}

static void disarm(void)
{
    fails_at = 0;
}

/* ---- the script ---- */

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_DIRECTORY_SIZE + 64];

#define EXPECT(status, ...)                                                                        \
    expect_one_of(status, (const kiln_status[]){__VA_ARGS__, INT32_MIN}, #status, __LINE__)

static void expect_one_of(kiln_status status, const kiln_status *allowed, const char *what,
                          int line)
{
    for (; *allowed != INT32_MIN; allowed++) {
        if (*allowed == status) {
            return;
        }
    }
    fail_msg("line %d: %s is %s, with call %u of %s failing (errno %d%s)", line, what,
             kiln_status_name(status), fails_at, call_names[failing_call], failing_error,
             fails_on ? ", and all later ones" : "");
}

static int visit(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_entry *entry = NULL;
    (void)user;
    EXPECT(kiln_item_get_info(item, &info), KILN_OK, KILN_MISS, KILN_E_IO, KILN_E_NO_MEMORY);
    kiln_status status = kiln_item_read(item, &entry);
    EXPECT(status, KILN_OK, KILN_MISS, KILN_E_CORRUPT, KILN_E_IO, KILN_E_DENIED, KILN_E_NO_MEMORY);
    kiln_entry_release(&entry);
    if (info.digest.bytes[0] % 4 == 0) {
        EXPECT(kiln_item_remove(item), KILN_OK, KILN_MISS, KILN_EXISTS, KILN_BUSY, KILN_E_READONLY,
               KILN_E_IO);
    }
    return 0;
}

#define EXPECT_GET(status)                                                                         \
    EXPECT(status, KILN_OK, KILN_MISS, KILN_E_CORRUPT, KILN_E_IO, KILN_E_DENIED, KILN_E_NO_MEMORY)
#define EXPECT_PUT(status)                                                                         \
    EXPECT(status, KILN_OK, KILN_EXISTS, KILN_E_FULL, KILN_E_READONLY, KILN_E_IO, KILN_E_DENIED,   \
           KILN_E_NO_MEMORY)

static void look(kiln_store *store, const kiln_key *key)
{
    EXPECT_GET(scratch_get(store, 1));
    EXPECT_GET(scratch_get(store, 77));
    EXPECT(kiln_store_contains(store, key), KILN_OK, KILN_MISS, KILN_E_IO);
}

static void change(kiln_store *store, const kiln_key *key)
{
    const kiln_stats delta = {.misses = 1};
    EXPECT_PUT(scratch_put(store, 1, 600));
    EXPECT_PUT(scratch_put(store, 50, 700));
    EXPECT(kiln_store_remove(store, key), KILN_OK, KILN_MISS, KILN_EXISTS, KILN_BUSY,
           KILN_E_READONLY, KILN_E_IO, KILN_E_NO_MEMORY);
    EXPECT(kiln_store_add_stats(store, &delta), KILN_OK, KILN_E_READONLY, KILN_E_IO);
}

static void take_lease(kiln_store *store, const kiln_key *key)
{
    kiln_lease *lease = NULL;
    kiln_lease *second = NULL;
    kiln_status status = kiln_store_lease(store, key, 100000000, &lease);
    EXPECT(status, KILN_OK, KILN_BUSY, KILN_E_UNSUPPORTED, KILN_E_IO, KILN_E_NO_MEMORY);
    assert_int_equal(status == KILN_OK, lease != NULL);
    if (lease) {
        EXPECT(kiln_store_lease(store, key, 5000000, &second), KILN_BUSY, KILN_E_UNSUPPORTED,
               KILN_E_IO, KILN_E_NO_MEMORY);
        assert_null(second);
    }
    kiln_lease_release(&lease);
}

static void govern(kiln_store *store)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    kiln_verify_report verified = {.struct_size = sizeof verified};
    EXPECT(kiln_store_get_stat(store, 0, &stat), KILN_OK, KILN_E_DENIED, KILN_E_IO,
           KILN_E_NO_MEMORY);
    EXPECT(kiln_store_verify(store, NULL, NULL, &verified), KILN_OK, KILN_E_DENIED, KILN_E_IO,
           KILN_E_NO_MEMORY);
    EXPECT(kiln_store_each(store, visit, NULL), KILN_OK, KILN_E_DENIED, KILN_E_IO,
           KILN_E_NO_MEMORY);
    EXPECT(trim_to(store, 8192, NULL), KILN_OK, KILN_BUSY, KILN_E_DENIED, KILN_E_IO,
           KILN_E_NO_MEMORY);
}

typedef void script_fn(void);

static kiln_store *open_store(void)
{
    kiln_store *store = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_store_params params = {
        .struct_size = sizeof params,
        .flags = KILN_STORE_SYNC,
        .max_bytes = 1000000,
        .layout = scratch_layout,
    };
    kiln_status status = kiln_store_open(cache, &params, &store, &error);
    EXPECT(status, KILN_OK, KILN_E_DENIED, KILN_E_READONLY, KILN_E_FULL, KILN_E_IO,
           KILN_E_NO_MEMORY);
    assert_int_equal(status == KILN_OK, store != NULL);
    return store;
}

static void use_script(void)
{
    kiln_store *store = open_store();
    kiln_key *key = scratch_key(2);
    if (store && key) {
        look(store, key);
        change(store, key);
        take_lease(store, key);
    }
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void govern_script(void)
{
    kiln_store *store = open_store();
    if (store) {
        govern(store);
    }
    kiln_store_close(&store);
}

static void revive_script(void)
{
    kiln_store *store = open_store();
    scratch_remove(cache);
    if (store) {
        EXPECT_PUT(scratch_put(store, 1, 600));
        EXPECT_GET(scratch_get(store, 1));
    }
    kiln_store_close(&store);
}

static void stats_script(void)
{
    const kiln_stats delta = {.hits_memory = 1};
    kiln_stats stats;
    EXPECT(kiln_stats_add_to_file(scratch_path(scratch, "statistics"), &delta), KILN_OK,
           KILN_E_DENIED, KILN_E_IO);
    EXPECT(kiln_stats_read_file(scratch_path(scratch, "statistics"), &stats), KILN_OK, KILN_MISS,
           KILN_E_CORRUPT, KILN_E_DENIED, KILN_E_IO);
}

static kiln_store *open_plain(void)
{
    const kiln_store_params params = {.struct_size = sizeof params, .layout = scratch_layout};
    kiln_store *store = NULL;
    assert_int_equal(kiln_store_open(cache, &params, &store, NULL), KILN_OK);
    return store;
}

/* The entries are old, so that gets record their use. One is small, one is large, and a folder
 * above them is a link. */
static void prepare(void)
{
    scratch_remove(scratch_path(scratch, "real"));
    kiln_store *store = open_plain();
    for (uint64_t i = 0; i < EXISTING; i++) {
        char path[SCRATCH_PATH_SIZE];
        const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
        assert_int_equal(scratch_put(store, i, i == 0 ? 20000 : 500), KILN_OK);
        scratch_entry_path(cache, i, path);
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    kiln_store_close(&store);
}

/* The store works, and contains nothing damaged. */
static void check_recovery(void)
{
    kiln_store *store = open_plain();
    kiln_lease *lease = NULL;
    kiln_verify_report report = {.struct_size = sizeof report};
    kiln_key *key = scratch_key(2);
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.corrupt, 0);
    for (uint64_t i = 0; i < EXISTING; i++) {
        kiln_status status = scratch_get(store, i);
        assert_true(status == KILN_OK || status == KILN_MISS);
    }
    assert_int_equal(scratch_put(store, 1, 300), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    kiln_store_close(&store);
    kiln_key_release(&key);
}

/* Runs the script with one fault. Returns whether the fault occurred. */
static bool run_with_fault(script_fn *script, enum call call, int error, bool on, unsigned at)
{
    prepare();
    unsigned descriptors = scratch_count_descriptors();
    arm(call, error, on, at);
    script();
    bool happened = seen >= fails_at;
    disarm();
    if (scratch_count_descriptors() != descriptors) {
        fail_msg("%u descriptors more, with call %u of %s failing (errno %d%s)",
                 scratch_count_descriptors() - descriptors, at, call_names[call], error,
                 on ? ", and all later ones" : "");
    }
    if (happened) {
        check_recovery();
    }
    return happened;
}

/* The store repeats an interrupted read or write, so a call would never return if all reads or
 * writes were interrupted. */
static bool is_endless(enum call call, int error, bool on)
{
    bool repeats =
        call == CALL_read || call == CALL_pread || call == CALL_write || call == CALL_pwrite;
    return on && error == EINTR && repeats;
}

/* Fails each kind of call with each error, once and permanently. @errors ends with 0. */
static void run_faults(script_fn *script, const int *errors)
{
    unsigned faults = 0;
    for (enum call call = 0; call < CALL_COUNT; call++) {
        for (size_t i = 0; errors[i / 2] != 0; i++) {
            int error = errors[i / 2];
            bool on = i % 2 == 1;
            unsigned at = is_endless(call, error, on) ? 0 : 1;
            while (at > 0 && run_with_fault(script, call, error, on, at)) {
                faults++;
                at += at < EXHAUSTIVE ? 1 : STRIDE;
            }
        }
    }
    print_message("          %u faults\n", faults);
    assert_true(faults > 100);
}

static const int all_errors[] = {EIO, ENOSPC, EMFILE, EINTR, ESTALE, EACCES, EROFS, ENOLCK, 0};
static const int few_errors[] = {EIO, EMFILE, ESTALE, 0};

static void test_using_a_store(void **state)
{
    (void)state;
    run_faults(use_script, all_errors);
}

static void test_maintaining_a_store(void **state)
{
    (void)state;
    run_faults(govern_script, all_errors);
}

static void test_recreating_a_store(void **state)
{
    (void)state;
    run_faults(revive_script, few_errors);
}

static void test_statistics_files(void **state)
{
    (void)state;
    run_faults(stats_script, all_errors);
}

static void test_short_transfers(void **state)
{
    (void)state;
    const size_t lengths[] = {1, 7, 100, 4095};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        prepare();
        longest_transfer = lengths[i];
        kiln_store *store = open_store();
        assert_int_equal(scratch_get(store, 0), KILN_OK);
        assert_int_equal(scratch_put(store, 9, 9000), KILN_OK);
        assert_int_equal(scratch_get(store, 9), KILN_OK);
        kiln_store_stat stat = {.struct_size = sizeof stat};
        assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
        assert_int_equal(stat.totals.puts, EXISTING + 1);
        kiln_store_close(&store);
        longest_transfer = SIZE_MAX;
        check_recovery();
    }
}

/* Opens the store, gets, puts and leases. The n-th read or write of these calls transfers half of
 * the requested bytes. */
static void test_one_short_transfer(void **state)
{
    (void)state;
    for (short_at = 1;; short_at++) {
        prepare();
        transfers = 0;
        kiln_store *store = open_store();
        assert_int_equal(scratch_get(store, 0), KILN_OK);
        assert_int_equal(scratch_put(store, 9, 9000), KILN_OK);
        assert_int_equal(scratch_get(store, 9), KILN_OK);
        assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
        kiln_store_close(&store);
        const bool happened = transfers >= short_at;
        const unsigned at = short_at;
        short_at = 0;
        check_recovery();
        if (!happened) {
            assert_true(at > 5);
            break;
        }
        short_at = at;
    }
}

/* The entry is read in several pieces, and the store must notice the failure of each read. */
static void test_reading_in_pieces(void **state)
{
    (void)state;
    prepare();
    kiln_store *store = open_plain();
    assert_int_equal(scratch_put(store, 5, (size_t)3 << 20), KILN_OK);
    for (size_t i = 0; all_errors[i / 2] != 0; i++) {
        const int error = all_errors[i / 2];
        const bool on = i % 2 == 1;
        unsigned at = is_endless(CALL_pread, error, on) ? 0 : 1;
        for (bool happened = at > 0; happened; at++) {
            const unsigned descriptors = scratch_count_descriptors();
            arm(CALL_pread, error, on, at);
            const kiln_status status = scratch_get(store, 5);
            happened = seen >= at;
            disarm();
            EXPECT_GET(status);
            assert_int_equal(status == KILN_OK, !happened || (error == EINTR && !on));
            assert_int_equal(scratch_count_descriptors(), descriptors);
            assert_true(happened || at > 2);
        }
    }
    longest_transfer = 700001;
    assert_int_equal(scratch_get(store, 5), KILN_OK);
    longest_transfer = SIZE_MAX;
    kiln_store_close(&store);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    script_fn *const scripts[] = {use_script, govern_script};
    for (int i = 0; i < 2; i++) {
        for (size_t n = 1;; n++) {
            prepare();
            unsigned descriptors = scratch_count_descriptors();
            failing_malloc_arm(n);
            scripts[i]();
            bool happened = failing_malloc_disarm() >= n;
            assert_int_equal(scratch_count_descriptors(), descriptors);
            check_recovery();
            if (!happened) {
                assert_true(n > 10);
                break;
            }
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    static kilni_os_table table;
    system_table = kilni_os_system();
    longest_transfer = SIZE_MAX;
    table = faulty_table();
    kilni_os_replace(&table);
    if (access("/dev/shm", W_OK) == 0) {
        /* On a disk, each of thousands of renames over existing files would wait for a flush. */
        setenv("TMPDIR", "/dev/shm", 0);
    }
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/link/cache", scratch);
    return mkdir(scratch_path(scratch, "real"), 0700) != 0 ||
                   symlink("real", scratch_path(scratch, "link")) != 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    (void)state;
    kilni_os_replace(NULL);
    scratch_remove(scratch);
    return 0;
}

/* test_store_faults [LAYOUT] */
int main(int argc, char **argv)
{
    if (argc > 1) {
        scratch_layout = argv[1];
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_using_a_store),     TEST(test_maintaining_a_store), TEST(test_recreating_a_store),
        TEST(test_statistics_files),  TEST(test_short_transfers),     TEST(test_one_short_transfer),
        TEST(test_reading_in_pieces), TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
