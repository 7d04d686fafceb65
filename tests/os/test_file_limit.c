/* SPDX-License-Identifier: Apache-2.0
 *
 * Each function that writes a file exceeds RLIMIT_FSIZE. The process survives, the call fails like
 * any other write, no incomplete file remains, and the application still gets the signals that it
 * causes itself.
 */
#include "support/cache_scene.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include <kiln/pack.h>
#include <kiln/stats.h>

#include "store/store.h"
#include "store/writer.h"
#include "support/child.h"

#define ENTRY_BYTES 20000u
#define SECOND_NS 1000000000u

static char location[SCRATCH_DIRECTORY_SIZE + 32];

/* Leaves the hard limit unchanged, so that a child can raise its own limit again. */
static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static kiln_store *open_store(uint64_t max_bytes, uint32_t flags)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .max_bytes = max_bytes, .flags = flags};
    kiln_store *store = NULL;
    CHECK(kiln_store_open(location, &params, &store, NULL) == KILN_OK);
    return store;
}

static bool has_temporaries(const char *below)
{
    char command[SCRATCH_PATH_SIZE + 64];
    snprintf(command, sizeof command, "test -n \"$(find %s -name '.tmp-*')\"", below);
    return system(command) == 0;
}

static sigset_t only_limit_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

static bool is_blocked(void)
{
    sigset_t mask;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    return sigismember(&mask, SIGXFSZ) == 1;
}

/* Returns whether a signal is pending, as a line of the thread's status says: SigPnd for signals of
 * the thread, ShdPnd for signals of the process. */
static bool waits(const char *line)
{
    FILE *status = fopen("/proc/thread-self/status", "re");
    CHECK(status);
    char text[256];
    bool is_there = false;
    while (fgets(text, sizeof text, status)) {
        if (strncmp(text, line, strlen(line)) == 0) {
            is_there = strtoull(text + strlen(line) + 1, NULL, 16) >> (SIGXFSZ - 1) & 1;
        }
    }
    fclose(status);
    return is_there;
}

static void block_signal(void)
{
    const sigset_t set = only_limit_signal();
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

/* ---- every writer ---- */

/* The limits allow nothing to be written, a part of the file, and all but its last byte. */
static void put_beyond_limits(void)
{
    kiln_store *store = open_store(0, 0);
    CHECK(scratch_put(store, 1, 100) == KILN_OK);
    kiln_entry *entry = scratch_entry(2, ENTRY_BYTES);
    const size_t size = kiln_entry_encoding(entry).size;
    const rlim_t limits[] = {0, 1, size / 2, size - 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        set_limit(limits[i]);
        CHECK(kiln_store_put(store, entry) == KILN_E_FULL);
        CHECK(!is_blocked());
    }
    set_limit(size);
    CHECK(!has_temporaries(cache));
    CHECK(scratch_get(store, 2) == KILN_MISS);
    CHECK(kiln_store_put(store, entry) == KILN_OK);
    CHECK(scratch_get(store, 2) == KILN_OK);
    CHECK(scratch_get(store, 1) == KILN_OK);
    kiln_entry_release(&entry);
    kiln_store_close(&store);
}

static void test_puts(void **state)
{
    (void)state;
    static const char *const layouts[] = {"kiln", "sycl", "onednn"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        snprintf(cache, sizeof cache, "%s/%s", scratch, layouts[i]);
        snprintf(location, sizeof location, "file://%s?layout=%s", cache, layouts[i]);
        assert_int_equal(run_in_child(put_beyond_limits), 0);
    }
}

/* Writes the files of a store other than entries. */
static void write_all_but_entries(void)
{
    kiln_store *store = open_store(0, KILN_STORE_NOTE_MISSES);
    CHECK(scratch_put(store, 1, 100) == KILN_OK);
    CHECK(unlink(scratch_path(cache, "stats")) == 0); /* so that it is written anew */
    kiln_key *key = scratch_key(7);
    const kiln_stats delta = {.misses = 1};
    const rlim_t limits[] = {0, 20};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        set_limit(limits[i]);
        CHECK(kiln_store_add_stats(store, &delta) == KILN_E_IO);
        kiln_store_note_miss(store, key);
        CHECK(kiln_stats_add_to_file(scratch_path(scratch, "counters"), &delta) == KILN_E_IO);
        CHECK(!is_blocked());
    }
    CHECK(kiln_store_remove(store, key) == KILN_MISS);
    CHECK(trim_to(store, 0, NULL) == KILN_OK);
    kiln_key_release(&key);
    kiln_store_close(&store);
}

static void test_counters_and_misses(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(write_all_but_entries), 0);
}

static void open_beyond_limit(void)
{
    set_limit(1);
    kiln_store *store = open_store(0, 0);
    kiln_store_close(&store);
    CHECK(access(scratch_path(cache, "CACHEDIR.TAG"), F_OK) != 0);
}

static void test_an_incomplete_tag_does_not_stay(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(open_beyond_limit), 0);
}

/* The entries fit within the limit, but their summary and the trim's progress do not. */
static void trim_beyond_limit(void)
{
    kiln_store *store = open_store(64 << 10, 0);
    set_limit(600);
    for (uint64_t i = 0; i < 64; i++) {
        CHECK(scratch_put(store, i, 10) == KILN_OK);
    }
    set_limit(RLIM_INFINITY);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    CHECK(kiln_store_get_stat(store, 0, &stat) == KILN_OK);
    CHECK(stat.entries < 64);
    CHECK(scratch_get(store, 63) == KILN_OK);
    kiln_store_close(&store);
}

static void test_trims(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(trim_beyond_limit), 0);
}

static void pack_beyond_limits(void)
{
    const char *path = scratch_path(scratch, "pack");
    kiln_entry *entry = scratch_entry(3, ENTRY_BYTES);
    kiln_pack_writer *writer = NULL;
    CHECK(kiln_pack_writer_open(path, NULL, &writer, NULL) == KILN_OK);
    set_limit(100);
    CHECK(kiln_pack_writer_add(writer, entry) == KILN_E_FULL);
    kiln_pack_writer_abandon(&writer);
    set_limit(RLIM_INFINITY);

    CHECK(kiln_pack_writer_open(path, NULL, &writer, NULL) == KILN_OK);
    CHECK(kiln_pack_writer_add(writer, entry) == KILN_OK);
    set_limit(100);
    CHECK(kiln_pack_writer_finish(&writer, NULL, NULL) == KILN_E_FULL);
    CHECK(!has_temporaries(scratch));
    CHECK(access(path, F_OK) != 0);
    CHECK(!is_blocked());
    kiln_entry_release(&entry);
}

static void test_packs(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(pack_beyond_limits), 0);
}

static void unpack_beyond_limit(void)
{
    const char *path = scratch_path(scratch, "pack");
    kiln_pack_writer *writer = NULL;
    CHECK(kiln_pack_writer_open(path, NULL, &writer, NULL) == KILN_OK);
    for (uint64_t i = 0; i < 3; i++) {
        kiln_entry *entry = scratch_entry(i, i == 1 ? ENTRY_BYTES : 100);
        CHECK(kiln_pack_writer_add(writer, entry) == KILN_OK);
        kiln_entry_release(&entry);
    }
    CHECK(kiln_pack_writer_finish(&writer, NULL, NULL) == KILN_OK);
    kiln_store *store = open_store(0, 0);
    char pack_location[SCRATCH_PATH_SIZE + 8];
    snprintf(pack_location, sizeof pack_location, "pack:%s", path);
    kiln_store *pack = NULL;
    CHECK(kiln_store_open(pack_location, NULL, &pack, NULL) == KILN_OK);
    const kiln_copy_params params = {.struct_size = sizeof params, .flags = KILN_COPY_TRUST};
    kiln_copy_report report = {.struct_size = sizeof report};
    set_limit(2000);
    CHECK(kiln_store_copy(pack, store, &params, &report, NULL) == KILN_OK);
    kiln_store_close(&pack);
    CHECK(report.taken == 2);
    CHECK(report.refused == 1);
    CHECK(!has_temporaries(cache));
    kiln_store_close(&store);
}

static void test_unpacking(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(unpack_beyond_limit), 0);
}

static void queue_beyond_limit(void)
{
    kiln_store *store = open_store(0, 0);
    for (int spares = 1; spares >= 0; spares--) { /* first without a writer thread */
        kilni_writer *writer = NULL;
        CHECK(kilni_writer_new(store, 1 << 20, &writer) == KILN_OK);
        if (spares) {
            kilni_writer_spare_thread(writer);
        }
        kiln_entry *entry = scratch_entry(5, ENTRY_BYTES);
        set_limit(2000);
        CHECK(kilni_writer_put(writer, entry, NULL) == KILN_OK);
        CHECK(kilni_writer_drain(writer, 60ull * SECOND_NS) == KILN_OK);
        set_limit(RLIM_INFINITY);
        CHECK(scratch_get(store, 5) == KILN_MISS);
        kiln_entry_release(&entry);
        kilni_writer_free(&writer, SECOND_NS);
    }
    kiln_store_stat stat = {.struct_size = sizeof stat};
    CHECK(kiln_store_get_stat(store, 0, &stat) == KILN_OK);
    CHECK(stat.totals.dropped == 2);
    CHECK(!has_temporaries(cache));
    kiln_store_close(&store);
}

static void test_the_writer(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(queue_beyond_limit), 0);
}

/* ---- the application's signals ---- */

/* Puts an entry beyond the limit. The put fails in the same way, whatever the application does with
 * the signal. */
static void overrun(void)
{
    kiln_store *store = open_store(0, 0);
    set_limit(100);
    CHECK(scratch_put(store, 1, ENTRY_BYTES) == KILN_E_FULL);
    set_limit(RLIM_INFINITY);
    kiln_store_close(&store);
}

static void ignore_it(void)
{
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    overrun();
    CHECK(!is_blocked());
}

static _Atomic int handled;

static void handle(int number)
{
    (void)number;
    handled++;
}

static void handle_it(void)
{
    CHECK(signal(SIGXFSZ, handle) != SIG_ERR);
    overrun();
    CHECK(!is_blocked());
    CHECK(handled == 0);
    raise(SIGXFSZ);
    CHECK(handled == 1);
}

static void block_it(void)
{
    block_signal();
    overrun();
    CHECK(is_blocked());
    CHECK(!waits("SigPnd") && !waits("ShdPnd"));
}

static void let_threads_own_wait(void)
{
    block_signal();
    raise(SIGXFSZ);
    overrun();
    CHECK(is_blocked());
    CHECK(waits("SigPnd") && !waits("ShdPnd"));
}

static void let_processs_wait(void)
{
    block_signal();
    CHECK(kill(getpid(), SIGXFSZ) == 0);
    overrun();
    CHECK(!waits("SigPnd") && waits("ShdPnd"));
}

static void let_both_wait(void)
{
    block_signal();
    CHECK(kill(getpid(), SIGXFSZ) == 0);
    raise(SIGXFSZ);
    overrun();
    CHECK(waits("SigPnd") && waits("ShdPnd"));
}

/* The application's own write beyond the limit sends a signal as before. */
static void overrun_by_itself(void)
{
    overrun();
    CHECK(signal(SIGXFSZ, handle) != SIG_ERR);
    int file = open(scratch_path(scratch, "own"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    set_limit(0);
    CHECK(write(file, "x", 1) == -1);
    CHECK(handled == 1);
}

static void test_the_applications_signals(void **state)
{
    (void)state;
    snprintf(location, sizeof location, "%s", cache);
    assert_int_equal(run_in_child(ignore_it), 0);
    assert_int_equal(run_in_child(handle_it), 0);
    assert_int_equal(run_in_child(block_it), 0);
    assert_int_equal(run_in_child(let_threads_own_wait), 0);
    assert_int_equal(run_in_child(let_processs_wait), 0);
    assert_int_equal(run_in_child(let_both_wait), 0);
    assert_int_equal(run_in_child(overrun_by_itself), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cache_set_up, cache_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_puts),       TEST(test_counters_and_misses),
        TEST(test_trims),      TEST(test_an_incomplete_tag_does_not_stay),
        TEST(test_packs),      TEST(test_unpacking),
        TEST(test_the_writer), TEST(test_the_applications_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
