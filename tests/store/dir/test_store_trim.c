/* SPDX-License-Identifier: Apache-2.0
 *
 * Trimming: what is removed first, by policy and by age; trims that are done in slices, including
 * by processes that are killed between slices; files that are replaced while they are removed; and
 * damaged files of the janitor, which the janitor repairs.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "entry/structure.h"
#include "os/os.h"
#include "store/dir/dir.h"
#include "store/store.h"
#include "store/totals.h"
#include "support/failing_malloc.h"

#define LONG_AGO 1000000000
#define DAY_S 86400

static kiln_store *store;
static kilni_os_table table;

static int set_up(void **state)
{
    cache_set_up(state);
    table = *kilni_os_system();
    store = NULL;
    scratch_layout = "kiln";
    return 0;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

/* @options  of the URL, such as "policy=lru" */
static void open_store(const char *options)
{
    char url[SCRATCH_PATH_SIZE * 2];
    kiln_store_close(&store);
    snprintf(url, sizeof url, "file://%s%s%s", cache, options[0] ? "?" : "", options);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_OK);
}

/* Puts an entry like that of scratch_entry, with this build time and date. */
static void put_built(uint64_t number, size_t size, uint64_t build_ns, int64_t created_s)
{
    unsigned char *bytes = malloc(size);
    kiln_key *key = scratch_key(number);
    kiln_entry *entry = NULL;
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = scratch_byte(number, i);
    }
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .build_ns = build_ns,
                       .created_s = created_s},
        .payload = {bytes, size},
    };
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    free(bytes);
}

static void put(uint64_t number)
{
    assert_int_equal(scratch_put(store, number, 1000), KILN_OK);
}

static void set_use(uint64_t number, time_t use)
{
    char path[SCRATCH_PATH_SIZE];
    const struct timespec times[2] = {{.tv_sec = use}, {.tv_sec = use}};
    scratch_entry_path(cache, number, path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static bool has(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const kiln_status status = kiln_store_contains(store, key);
    kiln_key_release(&key);
    return status == KILN_OK;
}

static kiln_store_stat get_stat(void)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    return stat;
}

static kiln_store_stat get_known_stat(void)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    return stat;
}

static void expect_size_known(void)
{
    assert_int_equal(get_known_stat().bytes, get_stat().bytes);
    assert_int_equal(get_known_stat().entries, get_stat().entries);
}

static kiln_trim_report trim_by(uint32_t flags, uint64_t max_bytes, uint64_t older_than_s)
{
    const kiln_trim_params params = {.struct_size = sizeof params,
                                     .flags = flags,
                                     .max_bytes = max_bytes,
                                     .older_than_s = older_than_s};
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    return report;
}

/* Returns which of the entries 0 to 9 exist, as bits. */
static unsigned those_there(void)
{
    unsigned there = 0;
    for (uint64_t i = 0; i < 10; i++) {
        there |= (unsigned)has(i) << i;
    }
    return there;
}

/* ---- the order of removal ---- */

static const char *const layouts[] = {"kiln", "sycl", "onednn"};

static void open_with_layout(unsigned layout, const char *options)
{
    char all[128];
    kiln_store_close(&store);
    scratch_remove(cache);
    snprintf(all, sizeof all, "layout=%s&%s", layouts[layout], options);
    open_store(all);
}

/* An entry that always stays: the newest, and the most expensive. */
static void put_the_best(void)
{
    put_built(20, 1000, 500000000000, time(NULL));
}

static int use_long_ago(void *user, const kilni_dir_found *found)
{
    (void)user;
    const struct timespec times[2] = {{.tv_sec = LONG_AGO}, {.tv_sec = LONG_AGO}};
    assert_int_equal(utimensat(found->directory, found->name, times, 0), 0);
    return 0;
}

static void test_lru(void **state)
{
    (void)state;
    open_store("policy=lru");
    for (uint64_t i = 0; i < 10; i++) {
        /* A high cost does not save an entry from removal. */
        put_built(i, 1000, 1000000000 * (10 - i), LONG_AGO);
        set_use(i, LONG_AGO + (time_t)(i * 7 % 10));
    }
    trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes / 2, 0);
    /* the entries for which i * 7 % 10 is 5 or more */
    assert_int_equal(those_there(), 1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 8);
    expect_size_known();
}

static void test_fifo(void **state)
{
    (void)state;
    for (unsigned layout = 0; layout < 3; layout++) {
        open_with_layout(layout, "policy=fifo&stamp=0");
        for (uint64_t i = 0; i < 10; i++) {
            put_built(i, 1000, 1000000000 * i, LONG_AGO + (int64_t)(i * 3 % 10));
        }
        /* A use does not save an entry from removal. */
        for (uint64_t i = 0; i < 10; i += 2) {
            assert_int_equal(scratch_get(store, i), KILN_OK);
        }
        put_the_best();
        trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes / 11 * 6, 0);
        /* the entries for which i * 3 % 10 is 5 or more */
        assert_int_equal(those_there(), 1u << 2 | 1u << 3 | 1u << 5 | 1u << 6 | 1u << 9);
        expect_size_known();
    }
}

static void test_cost(void **state)
{
    (void)state;
    for (unsigned layout = 0; layout < 3; layout++) {
        open_with_layout(layout, "policy=cost");
        for (uint64_t i = 0; i < 10; i++) {
            put_built(i, 1000, 10000000 * (1 + i * 7 % 10), LONG_AGO);
        }
        assert_int_equal(kilni_dir_walk(kilni_dir_of(store), use_long_ago, NULL), KILN_OK);
        put_the_best();
        trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes / 11 * 6, 0);
        /* the entries for which i * 7 % 10 is 5 or more */
        assert_int_equal(those_there(), 1u << 1 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 8);
        expect_size_known();
    }
}

static void test_cost_weighs_size_and_age(void **state)
{
    (void)state;
    const time_t now = time(NULL);
    open_store("policy=cost");
    put_built(0, 1000, 100000000,
              LONG_AGO); /* as expensive as the next entry, and as large, but old */
    put_built(1, 1000, 100000000, LONG_AGO);
    put_built(2, 100000, 100000000, LONG_AGO); /* large */
    put_built(3, 1000, 3000000000, LONG_AGO);  /* old too, but so expensive that it stays */
    put_built(4, 1000, 100000000, LONG_AGO);   /* used last */
    set_use(0, now - 20 * DAY_S);
    set_use(1, now - DAY_S);
    set_use(2, now - DAY_S);
    set_use(3, now - 20 * DAY_S);
    trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
    assert_int_equal(those_there(), 0x1b);
    trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
    assert_int_equal(those_there(), 0x1a);
    trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
    assert_int_equal(those_there(), 0x18);
}

static void test_nothing_is_evicted(void **state)
{
    (void)state;
    uint64_t taken = 0;
    open_with_layout(1, "policy=no_evict&max-size=100000");
    while (taken < 100 && scratch_put(store, taken, 3000) == KILN_OK) {
        taken++;
    }
    assert_in_range(taken, 8, 24);
    assert_int_equal(scratch_put(store, 200, 3000), KILN_E_FULL);
    assert_int_equal(scratch_put(store, 3, 3000), KILN_OK);
    assert_int_equal(get_stat().entries, taken);
    assert_true(get_stat().bytes <= 100000);

    taken = 0;
    open_with_layout(0, "policy=no_evict&max-size=100000");
    while (taken < 100 && scratch_put(store, taken, 3000) == KILN_OK) {
        taken++;
    }
    assert_in_range(taken, 10, 24);
    assert_int_equal(scratch_put(store, 200, 3000), KILN_E_FULL);
    assert_int_equal(scratch_put(store, 3, 3000), KILN_OK); /* replaces the present one */
    assert_true(get_stat().bytes <= 100000);
    for (uint64_t i = 0; i < taken; i++) {
        assert_true(has(i));
    }
    assert_int_equal(get_stat().totals.evicted, 0);

    /* If the totals are lost, the entries are counted. */
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    assert_int_equal(scratch_put(store, 201, 3000), KILN_E_FULL);
    set_use(5, LONG_AGO);
    assert_int_equal(trim_to(store, 90000, NULL), KILN_OK);
    assert_false(has(5));
    assert_int_equal(scratch_put(store, 202, 3000), KILN_OK);
}

static void test_the_newest_stays(void **state)
{
    (void)state;
    open_store("policy=cost&max-size=100000");
    put_built(1, 1000, 60000000000, LONG_AGO);
    put_built(2, 95000, 1000000, LONG_AGO); /* by far the least valuable, but just used */
    assert_true(has(2));
    assert_false(has(1));
    assert_int_equal(trim_to(store, 1000, NULL), KILN_OK);
    assert_false(has(2));
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        uint32_t policy;
        uint64_t max_age_s;
    } right[] = {
        {"policy=cost", KILN_POLICY_COST, 0},
        {"policy=lru", KILN_POLICY_LRU, 0},
        {"policy=fifo&max-age=0", KILN_POLICY_FIFO, 0},
        {"policy=no_evict&max-age=7", KILN_POLICY_NO_EVICT, 7 * DAY_S},
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        open_store(right[i].option);
        assert_int_equal(store->options.policy, right[i].policy);
        assert_int_equal(store->options.max_age_s, right[i].max_age_s);
    }
    static const char *const wrong[] = {
        "policy=",    "policy=LRU", "policy=lru1",        "max-age=",
        "max-age=-1", "max-age=7d", "max-age=4294967296", "policy=lru&policy=lru"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char url[SCRATCH_PATH_SIZE * 2];
        kiln_store *other = NULL;
        kiln_error error = {.struct_size = sizeof error};
        snprintf(url, sizeof url, "file://%s?%s", cache, wrong[i]);
        assert_int_equal(kiln_store_open(url, NULL, &other, &error), KILN_E_PARSE);
        assert_non_null(strstr(error.text, wrong[i][0] == 'p' ? "policy" : "max-age"));
    }
    const kiln_store_params params = {.struct_size = sizeof params, .policy = 4};
    kiln_store *other = NULL;
    assert_int_equal(kiln_store_open(cache, &params, &other, NULL), KILN_E_UNSUPPORTED);
}

static void test_parameters_of_a_trim(void **state)
{
    (void)state;
    kiln_trim_params params = {.struct_size = sizeof params, .flags = 8};
    kiln_trim_report report = {.struct_size = sizeof report};
    open_store("");
    put(1);
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_store_trim(store, NULL, &report), KILN_E_INVALID);
    params.struct_size = 0;
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_E_INVALID);
    struct {
        kiln_trim_params known;
        uint64_t unknown;
    } later = {.known = {.struct_size = sizeof later}};
    assert_int_equal(kiln_store_trim(store, &later.known, &report), KILN_OK);
    later.unknown = 1;
    assert_int_equal(kiln_store_trim(store, &later.known, &report), KILN_E_UNSUPPORTED);
    params = (kiln_trim_params){.struct_size = offsetof(kiln_trim_params, older_than_s),
                                .older_than_s = 1};
    set_use(1, LONG_AGO);
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_true(has(1)); /* neither a size nor an age was given */
    assert_int_equal(kiln_store_trim(NULL, &params, &report), KILN_OK);
    open_store("readonly=1");
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_E_READONLY);
}

/* ---- age ---- */

static void finish_trim(void)
{
    while (exists(scratch_path(cache, "v1/janitor/job"))) {
        kilni_dir_begin_count(kilni_dir_of(store));
    }
}

static void put_with_ages(void)
{
    for (uint64_t i = 0; i < 10; i++) {
        put(i);
        set_use(i, time(NULL) - (time_t)i * 2 * DAY_S - 100);
    }
}

static void test_older_than(void **state)
{
    (void)state;
    open_store("");
    put_with_ages();
    kiln_trim_report report = trim_by(0, 0, 9 * DAY_S);
    assert_int_equal(report.removed, 5);
    assert_int_equal(report.entries, 5);
    assert_int_equal(those_there(), 0x1f);
    /* The size limit applies in addition to age. */
    report = trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes / 5 * 3, 7 * DAY_S);
    assert_int_equal(report.removed, 2);
    assert_int_equal(those_there(), 0x07);
    expect_size_known();
}

static void age_summary(time_t seconds)
{
    const time_t then = time(NULL) - seconds;
    const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(cache, "v1/janitor/summary"), times, 0), 0);
}

static void test_age_when_a_store_is_closed(void **state)
{
    (void)state;
    open_store("");
    put_with_ages();
    open_store("max-age=9");
    assert_int_equal(those_there(), 0x3ff);
    open_store("max-age=9"); /* closes the store that was open; the last survey is recent */
    assert_int_equal(those_there(), 0x3ff);
    age_summary(3700);
    open_store("");
    assert_int_equal(those_there(), 0x1f);
}

static void test_a_store_that_is_refused_is_not_trimmed(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE * 2];
    kiln_store *refused = NULL;
    open_store("");
    put_with_ages();
    age_summary(3700);
    assert_int_equal(chmod(scratch_path(cache, "v1"), 0770), 0);
    snprintf(url, sizeof url, "file://%s?max-age=9", cache);
    assert_int_equal(kiln_store_open(url, NULL, &refused, NULL), KILN_E_DENIED);
    assert_int_equal(chmod(scratch_path(cache, "v1"), 0700), 0);
    assert_int_equal(those_there(), 0x3ff);
}

/* The application closes all descriptors and opens the directory of a different store, which gets
 * the same number. */
static void test_only_its_own_directory_is_trimmed_at_the_end(void **state)
{
    (void)state;
    char others[SCRATCH_DIRECTORY_SIZE + 8];
    open_store("");
    put_with_ages();
    age_summary(3700);
    kiln_store_close(&store);
    snprintf(others, sizeof others, "%s/others", scratch);
    assert_int_equal(rename(cache, others), 0);
    open_store("max-age=9");
    const int number = kilni_dir_root(kilni_dir_of(store));
    const int file = open(others, O_RDONLY | O_DIRECTORY);
    assert_int_equal(dup2(file, number), number);
    close(file);
    kiln_store_close(&store);
    assert_int_equal(close(number), 0);
    scratch_remove(cache);
    assert_int_equal(rename(others, cache), 0);
    open_store("");
    assert_int_equal(those_there(), 0x3ff);
}

static void test_age_once_a_day(void **state)
{
    (void)state;
    open_store("");
    put_with_ages();
    kiln_store *one = store;
    store = NULL;
    open_store("max-age=9");
    put(20); /* the last survey is recent */
    assert_int_equal(those_there(), 0x3ff);
    kiln_store *two = store;
    store = NULL;
    age_summary(DAY_S + 60);
    open_store("max-age=9");
    put(21);
    finish_trim();
    assert_int_equal(those_there(), 0x1f);
    kiln_store_close(&one);
    kiln_store_close(&two);
}

static void test_sizes_are_counted_once_a_day(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    open_store("");
    put_with_ages();
    scratch_entry_path(cache, 3, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(get_known_stat().entries, 10);
    age_summary(DAY_S + 60);
    open_store("");
    put(3);
    finish_trim();
    assert_int_equal(get_known_stat().entries, 10);
    expect_size_known();
}

/* ---- trims that can't be done in slices ---- */

static unsigned folders_listed;

static DIR *counting_fdopendir(int file)
{
    folders_listed++;
    return kilni_os_system()->fdopendir(file);
}

static int lock_without_locks(int file, short type, off_t offset, off_t size)
{
    (void)file, (void)type, (void)offset, (void)size;
    errno = ENOLCK;
    return -1;
}

/* Returns how many folders a put lists if it is the first call of a store that was just opened. */
static unsigned listed_by_a_put(uint64_t number)
{
    open_store("");
    folders_listed = 0;
    kilni_os_replace(&table);
    put(number);
    return folders_listed;
}

static void test_walks_without_locks(void **state)
{
    (void)state;
    table.lock = lock_without_locks;
    table.fdopendir = counting_fdopendir;
    assert_true(listed_by_a_put(1) > 0);
    assert_int_equal(listed_by_a_put(2), 0); /* the first put counted less than a day ago */
    age_summary(DAY_S + 60);
    assert_true(listed_by_a_put(3) > 0);
    assert_int_equal(listed_by_a_put(4), 0);
}

static void test_walks_without_a_janitors_folder(void **state)
{
    (void)state;
    table.fdopendir = counting_fdopendir;
    open_store("");
    put(1);
    scratch_remove(scratch_path(cache, "v1/janitor"));
    const int file = open(scratch_path(cache, "v1/janitor"), O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(listed_by_a_put(2), 0);
    kiln_store_close(&store);
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    assert_true(listed_by_a_put(3) > 0); /* the limit requires that the size is known */
    expect_size_known();
    char small[64];
    snprintf(small, sizeof small, "max-size=%llu", (unsigned long long)get_stat().bytes);
    open_store(small);
    put(4);
    assert_true(get_stat().bytes < get_stat().max_bytes); /* room is made */
}

/* ---- dry runs ---- */

static char snapshot[2][1 << 16];
static size_t snapshot_length[2];
static unsigned snapshot_index;

static int note_file(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)kind, (void)walk;
    const unsigned i = snapshot_index;
    snapshot_length[i] += (size_t)snprintf(
        snapshot[i] + snapshot_length[i], sizeof snapshot[i] - snapshot_length[i],
        "%s %llu %lld %lld.%09ld %lld.%09ld\n", path, (unsigned long long)stat->st_ino,
        (long long)stat->st_size, (long long)stat->st_mtim.tv_sec, stat->st_mtim.tv_nsec,
        (long long)stat->st_ctim.tv_sec, stat->st_ctim.tv_nsec);
    assert_true(snapshot_length[i] < sizeof snapshot[i]);
    return 0;
}

static void take_snapshot(unsigned index)
{
    snapshot_index = index;
    snapshot_length[index] = 0;
    nftw(cache, note_file, 16, FTW_PHYS);
}

static void test_a_dry_run_changes_nothing(void **state)
{
    (void)state;
    char leftover[SCRATCH_PATH_SIZE];
    open_store("");
    put_with_ages();
    scratch_entry_path(cache, 1, leftover);
    strcpy(strrchr(leftover, '/'), "/.tmp-0000000000000001");
    const int file = open(leftover, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(file, "half", 4), 4);
    close(file);
    const struct timespec times[2] = {{.tv_sec = LONG_AGO}, {.tv_sec = LONG_AGO}};
    assert_int_equal(utimensat(AT_FDCWD, leftover, times, 0), 0);
    const uint64_t bytes = get_stat().bytes;
    for (int readonly = 0; readonly < 2; readonly++) {
        open_store(readonly ? "readonly=1" : "");
        take_snapshot(0);
        kiln_trim_report told =
            trim_by(KILN_TRIM_DRY_RUN | KILN_TRIM_BY_SIZE, bytes / 2, 15 * DAY_S);
        take_snapshot(1);
        assert_int_equal(snapshot_length[0], snapshot_length[1]);
        assert_memory_equal(snapshot[0], snapshot[1], snapshot_length[0]);
        assert_true(told.removed >= 5);
        if (!readonly) {
            continue;
        }
        open_store("");
        const kiln_trim_report done = trim_by(KILN_TRIM_BY_SIZE, bytes / 2, 15 * DAY_S);
        assert_int_equal(done.removed, told.removed);
        assert_int_equal(done.removed_bytes, told.removed_bytes);
        assert_int_equal(done.entries, told.entries);
        assert_int_equal(done.bytes, told.bytes);
    }
}

/* ---- slices ---- */

#define MANY 700

/* Makes each slice end after the minimum of work. */
static int fast_clock(clockid_t clock, struct timespec *ret_time)
{
    static long calls;
    const int result = kilni_os_system()->clock_gettime(clock, ret_time);
    if (clock == CLOCK_MONOTONIC) {
        ret_time->tv_sec += ++calls;
    }
    return result;
}

static void fill_one(uint64_t number)
{
    assert_int_equal(scratch_put(store, number, 100), KILN_OK);
    set_use(number, LONG_AGO + (time_t)(number * 3 % MANY));
}

static void fill(void)
{
    for (uint64_t i = 0; i < MANY; i++) {
        fill_one(i);
    }
}

/* Puts the removed entries again. */
static void fill_again(void)
{
    for (uint64_t i = 0; i < MANY; i++) {
        if (!has(i)) {
            fill_one(i);
        }
    }
}

static uint64_t limit_of_many;

static void fill_store(void)
{
    open_store("policy=lru");
    fill();
    limit_of_many = get_stat().bytes / 10 * 9;
}

static void open_too_small(void)
{
    char options[64];
    snprintf(options, sizeof options, "policy=lru&max-size=%llu",
             (unsigned long long)limit_of_many);
    open_store(options);
}

static unsigned work_until_done(void)
{
    unsigned slices = 0;
    do {
        kilni_dir_begin_count(kilni_dir_of(store));
        slices++;
        assert_true(slices < 1000);
    } while (exists(scratch_path(cache, "v1/janitor/job")));
    return slices;
}

/* Checks that the entries that exist are exactly those used at or after some point in time. */
static void expect_trimmed(void)
{
    uint64_t first = MANY;
    for (uint64_t i = 0; i < MANY; i++) {
        const uint64_t use = i * 3 % MANY;
        if (has(i) && use < first) {
            first = use;
        }
    }
    for (uint64_t i = 0; i < MANY; i++) {
        assert_int_equal(has(i), i * 3 % MANY >= first);
    }
    const uint64_t bytes = get_stat().bytes;
    assert_true(bytes <= limit_of_many);
    assert_true(bytes >= limit_of_many / 10 * 9 - 8192);
    expect_size_known();
}

static void test_a_trim_in_slices(void **state)
{
    (void)state;
    fill_store();
    table.clock_gettime = fast_clock;
    kilni_os_replace(&table);
    open_too_small();
    assert_in_range(work_until_done(), 20, 900);
    expect_trimmed();
    assert_int_equal(get_stat().totals.evicted, MANY - get_stat().entries);
}

static int count_file(void *user, const kilni_dir_found *found)
{
    unsigned *count = user;
    (void)found;
    return ++*count % 3 == 0;
}

/* Makes a slice end when it reads the time for the n-th time. */
static unsigned looks_left;

static int clock_that_jumps(clockid_t clock, struct timespec *ret_time)
{
    const int result = kilni_os_system()->clock_gettime(clock, ret_time);
    if (clock == CLOCK_MONOTONIC) {
        ret_time->tv_sec = looks_left > 0 ? 1000 : 2000;
        looks_left -= looks_left > 0;
    }
    return result;
}

static void test_a_slice_may_end_at_any_time(void **state)
{
    (void)state;
    open_store("policy=lru&layout=sycl");
    scratch_layout = "sycl";
    for (uint64_t i = 0; i < 20; i++) {
        put(i);
        set_use(i, LONG_AGO + (time_t)i);
    }
    char options[64];
    snprintf(options, sizeof options, "policy=lru&layout=sycl&max-size=%llu",
             (unsigned long long)get_stat().bytes - 1);
    open_store(options);
    table.clock_gettime = clock_that_jumps;
    kiln_store *larger = NULL;
    char url[SCRATCH_PATH_SIZE * 2];
    snprintf(url, sizeof url, "file://%s?layout=sycl", cache);
    assert_int_equal(kiln_store_open(url, NULL, &larger, NULL), KILN_OK);
    uint64_t number = 1000;
    for (unsigned n = 1; n < 30; n++) {
        while (get_stat().bytes <= get_stat().max_bytes) {
            assert_int_equal(scratch_put(larger, number++, 1000), KILN_OK);
        }
        looks_left = n;
        kilni_os_replace(&table);
        kilni_dir_begin_count(kilni_dir_of(store));
        kilni_os_replace(NULL);
        finish_trim();
        assert_true(get_stat().bytes <= get_stat().max_bytes);
    }
    kiln_store_close(&larger);
}

/* A survey in slices visits every entry, however often it is interrupted. */
static void test_walks_in_parts(void **state)
{
    (void)state;
    for (unsigned layout = 0; layout < 3; layout++) {
        unsigned count = 0;
        open_with_layout(layout, "policy=lru");
        for (uint64_t i = 0; i < 100; i++) {
            put(i);
        }
        for (unsigned part = 0; part < KILNI_DIR_SHARD_COUNT; part++) {
            kilni_dir_position position = {.offsets = {0}};
            bool has_ended = true;
            while (has_ended) {
                has_ended = false;
                const kiln_status status = kilni_dir_walk_part(kilni_dir_of(store), part, &position,
                                                               count_file, &count, &has_ended);
                assert_true(status == KILN_OK || status == KILN_MISS);
            }
        }
        assert_int_equal(count, 100);
    }
}

static void test_slices_in_each_layout(void **state)
{
    (void)state;
    for (unsigned layout = 0; layout < 3; layout++) {
        char options[64];
        kilni_os_replace(NULL);
        open_with_layout(layout, "policy=fifo");
        for (uint64_t i = 0; i < 400; i++) {
            put_built(i, 100, 1000000, LONG_AGO + (int64_t)(i * 7 % 400));
        }
        const uint64_t limit = get_stat().bytes / 10 * 9;
        table.clock_gettime = fast_clock;
        kilni_os_replace(&table);
        snprintf(options, sizeof options, "layout=%s&policy=fifo&max-size=%llu", layouts[layout],
                 (unsigned long long)limit);
        open_store(options);
        assert_in_range(work_until_done(), 10, 900);
        const uint64_t left = get_stat().entries;
        for (uint64_t i = 0; i < 400; i++) {
            assert_int_equal(has(i), i * 7 % 400 >= 400 - left);
        }
        assert_in_range(left, 300, 330);
        expect_size_known();
    }
}

static void test_puts_do_slices(void **state)
{
    (void)state;
    fill_store();
    table.clock_gettime = fast_clock;
    kilni_os_replace(&table);
    open_too_small();
    unsigned puts = 0;
    do {
        assert_int_equal(scratch_put(store, MANY + puts, 100), KILN_OK);
        puts++;
        assert_true(puts < 200);
    } while (exists(scratch_path(cache, "v1/janitor/job")) ||
             get_known_stat().bytes > limit_of_many);
    for (unsigned i = 0; i < puts; i++) {
        assert_true(has(MANY + i));
    }
}

/* Ends the process at one of the calls that change files, as SIGKILL may at any of them. */
static unsigned dies_at, changes;

static void change(void)
{
    if (++changes == dies_at) {
        raise(SIGKILL);
    }
}

static int dying_unlinkat(int directory, const char *path, int flags)
{
    change();
    return kilni_os_system()->unlinkat(directory, path, flags);
}

static int dying_renameat(int from, const char *old_path, int to, const char *new_path)
{
    change();
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static int dying_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    change();
    return kilni_os_system()->rename_new(from, old_path, to, new_path);
}

static ssize_t dying_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    change();
    return kilni_os_system()->pwrite(file, buffer, size, offset);
}

/* Returns whether the process was killed before it was done. */
static bool work_and_die(unsigned at)
{
    const pid_t child = fork();
    if (child == 0) {
        changes = 0;
        dies_at = at;
        table.unlinkat = dying_unlinkat;
        table.renameat = dying_renameat;
        table.rename_new = dying_rename_new;
        table.pwrite = dying_pwrite;
        kilni_os_replace(&table);
        work_until_done();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

static unsigned aside;

static int count_aside(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    aside += path[walk->base] == '.';
    return 0;
}

/* Reports a file's time of last modification, which a test can set, as its time of last change
 * too. */
static int fstatat_of_old_times(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    ret_stat->st_ctim = ret_stat->st_mtim;
    return result;
}

static void test_trim_continues_after_a_kill(void **state)
{
    (void)state;
    unsigned kills = 0;
    fill_store();
    table.clock_gettime = fast_clock;
    table.fstatat = fstatat_of_old_times;
    kilni_os_replace(&table);
    open_too_small();
    /* Each process gets a little further than the one before. */
    while (work_and_die(1 + kills * 3 % 40)) {
        kills++;
        assert_true(kills < 500);
    }
    assert_true(kills > 10);
    /* Files that killed processes had set aside are removed with the next survey. */
    nftw(cache, count_aside, 16, FTW_PHYS);
    work_until_done();
    aside = 0;
    nftw(cache, count_aside, 16, FTW_PHYS);
    assert_int_equal(aside, 0);
    const kiln_store_stat stat = get_stat();
    assert_true(stat.bytes <= limit_of_many);
    assert_true(stat.bytes >= limit_of_many / 10 * 9 - 16 * 4096);
    expect_size_known();
}

static void test_two_processes(void **state)
{
    (void)state;
    pid_t children[2];
    fill_store();
    table.clock_gettime = fast_clock;
    kilni_os_replace(&table);
    open_too_small();
    for (uint64_t c = 0; c < 2; c++) {
        children[c] = fork();
        if (children[c] == 0) {
            for (uint64_t i = 0; i < 100; i++) {
                if (scratch_put(store, 10000 + c * 1000 + i, 100) != KILN_OK) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    for (int c = 0; c < 2; c++) {
        int status = 0;
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    /* Entries that arrive during a survey are counted by the next one, and trimmed after that.
     */
    work_until_done();
    work_until_done();
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.corrupt, 0);
    assert_true(get_stat().bytes <= limit_of_many);
    assert_true(get_stat().bytes >= limit_of_many / 10 * 8);
    expect_size_known();
    /* The entry that arrived last was also used last. */
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(has(10000 + i) && has(11000 + i));
    }
}

static void test_explicit_trim_ends_a_sliced_one(void **state)
{
    (void)state;
    fill_store();
    table.clock_gettime = fast_clock;
    kilni_os_replace(&table);
    open_too_small();
    kilni_dir_begin_count(kilni_dir_of(store));
    assert_true(exists(scratch_path(cache, "v1/janitor/job")));
    assert_int_equal(trim_to(store, limit_of_many / 2, NULL), KILN_OK);
    assert_false(exists(scratch_path(cache, "v1/janitor/job")));
    const uint64_t entries = get_stat().entries;
    work_until_done();
    assert_int_equal(get_stat().entries, entries);
}

/* ---- times that are wrong ---- */

/* An entry whose time of last use is in the future is removed first, not last. */
static void test_times_ahead_are_the_oldest(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=lru", "policy=cost", "policy=fifo"};
    const time_t now = time(NULL);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        kiln_store_close(&store);
        scratch_remove(cache);
        open_store(policies[i]);
        put_built(1, 3000, 1000000000, now + 10 * 86400);
        put_built(2, 3000, 1000000000, now - 200);
        put_built(3, 3000, 1000000000, now - 100);
        set_use(1, now + 10 * 86400);
        set_use(2, now - 200);
        set_use(3, now - 100);
        trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
        assert_false(has(1));
        assert_true(has(2) && has(3));
        /* A time less than a day ahead is accepted, because the clocks of machines may differ. */
        set_use(3, now + 3600);
        trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
        assert_true(has(3) && !has(2));
    }
    open_store("max-age=1");
    set_use(3, now + 10 * 86400);
    kiln_store_close(&store);
    open_store("");
    trim_by(0, 0, 86400);
    assert_false(has(3));
}

static void test_a_leftover_of_a_wrong_clock(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    const time_t ahead = time(NULL) + 10 * 86400;
    const struct timespec times[2] = {{.tv_sec = ahead}, {.tv_sec = ahead}};
    open_store("");
    put(1);
    scratch_entry_folder(cache, 1, path);
    strcat(path, "/.tmp-0000000000000001");
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_false(exists(path));
}

/* ---- files that no trim can remove ---- */

static unsigned opened;

static int counting_openat(int directory, const char *path, int flags, mode_t mode)
{
    opened++;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int counting_open_below(int directory, const char *path, int flags)
{
    opened++;
    return kilni_os_system()->open_below(directory, path, flags);
}

static unsigned opened_by_a_put(uint64_t number)
{
    kilni_os_table counting = *kilni_os_system();
    counting.openat = counting_openat;
    counting.open_below = counting_open_below;
    opened = 0;
    kilni_os_replace(&counting);
    put(number);
    kilni_os_replace(NULL);
    return opened;
}

/* Puts an entry of 300 kB and marks it as one of a newer format. Writes its path to @path. */
static void put_large_newer(uint64_t number, char *path)
{
    const uint32_t newer = 2;
    open_store("");
    assert_int_equal(scratch_put(store, number, 300000), KILN_OK);
    scratch_entry_path(cache, number, path);
    const int file = open(path, O_WRONLY);
    assert_int_equal(pwrite(file, &newer, sizeof newer, 8), sizeof newer);
    close(file);
}

/* A file of a newer format, which no trim removes, is larger than the store's limit. Puts must not
 * keep surveying the store to no effect. */
static void test_stuck_store_is_not_surveyed_repeatedly(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put_large_newer(1, path);
    open_store("max-size=64K&policy=lru");
    put(2);
    work_until_done();
    for (uint64_t i = 3; i < 10; i++) {
        assert_true(opened_by_a_put(i) < 60);
        assert_true(has(i));
    }
    assert_true(exists(path));

    /* The survey is repeated an hour later, and again when as many bytes have been put as the
     * store may hold. */
    const struct timespec before[2] = {{.tv_sec = time(NULL) - 3700},
                                       {.tv_sec = time(NULL) - 3700}};
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(cache, "v1/janitor/stuck"), before, 0), 0);
    put(10);
    work_until_done();
    assert_false(has(3));
    for (uint64_t i = 100; i < 140; i++) {
        put(i);
    }
    work_until_done();
    assert_false(has(100));
    assert_true(exists(path));

    /* Once that file is removed, trims work as before. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    work_until_done();
    assert_false(exists(scratch_path(cache, "v1/janitor/stuck")));
}

static void test_newer_entries_are_removed_only_with_the_flag(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put_large_newer(1, path);
    open_store("max-size=64K&policy=lru");
    put(2);
    work_until_done();
    assert_true(exists(scratch_path(cache, "v1/janitor/stuck")));
    put(3);

    /* Entries within the limit stay, and a dry run changes nothing. */
    kiln_trim_report report = {.struct_size = sizeof report};
    kiln_trim_params params = {.struct_size = sizeof params, .flags = KILN_TRIM_NEWER};
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_int_equal(report.removed, 0);
    params.flags |= KILN_TRIM_BY_SIZE | KILN_TRIM_DRY_RUN;
    params.max_bytes = 65536;
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_int_equal(report.removed, 1);
    assert_true(exists(path));

    params.flags &= ~(uint32_t)KILN_TRIM_DRY_RUN;
    assert_int_equal(kiln_store_trim(store, &params, &report), KILN_OK);
    assert_int_equal(report.removed, 1);
    assert_false(exists(path));
    assert_true(has(3));

    /* The store keeps its limit again at once. */
    assert_false(exists(scratch_path(cache, "v1/janitor/stuck")));
    for (uint64_t i = 10; i < 40; i++) {
        put(i);
    }
    work_until_done();
    assert_true(get_stat().bytes <= 65536);
}

/* ---- entries that are replaced meanwhile ---- */

static char victim[SCRATCH_PATH_SIZE], fresh[SCRATCH_PATH_SIZE];
static enum { AT_OPEN, AT_LOOK, AT_RENAME, MOMENTS } moment;
static bool is_replaced;

static void replace_victim(const char *path, unsigned now)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!is_replaced && moment == now && strcmp(name, strrchr(victim, '/') + 1) == 0) {
        assert_int_equal(rename(fresh, victim), 0);
        is_replaced = true;
    }
}

static unsigned looks;

static int replacing_openat(int directory, const char *path, int flags, mode_t mode)
{
    replace_victim(path, AT_OPEN);
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int replacing_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    /* The survey and the sweep make the first two checks; the third check is the one just before
     * the removal. */
    if (strstr(victim, path) && ++looks == 3) {
        replace_victim(path, AT_LOOK);
    }
    return result;
}

static int replacing_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    replace_victim(old_path, AT_RENAME);
    return kilni_os_system()->rename_new(from, old_path, to, new_path);
}

static void test_replaced_entry_is_never_removed(void **state)
{
    (void)state;
    for (unsigned m = 0; m < MOMENTS; m++) {
        kiln_store_close(&store);
        scratch_remove(cache);
        open_store("policy=lru");
        put(1);
        put(2);
        set_use(1, LONG_AGO);
        scratch_entry_path(cache, 1, victim);
        snprintf(fresh, sizeof fresh, "%s/fresh", scratch);
        /* The same entry, written again by another process. */
        kiln_entry *entry = scratch_entry(1, 3000);
        const kiln_bytes bytes = kiln_entry_encoding(entry);
        const int file = open(fresh, O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(file, bytes.data, bytes.size), (ssize_t)bytes.size);
        close(file);
        kiln_entry_release(&entry);
        trim_by(KILN_TRIM_DRY_RUN, 0, 0);

        moment = m;
        is_replaced = false;
        looks = 0;
        table.openat = replacing_openat;
        table.fstatat = replacing_fstatat;
        table.rename_new = replacing_rename_new;
        kilni_os_replace(&table);
        trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes - 1, 0);
        kilni_os_replace(NULL);
        assert_true(is_replaced);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
        struct stat stat;
        assert_int_equal(lstat(victim, &stat), 0);
        assert_true(stat.st_size > 3000);
        aside = 0;
        nftw(cache, count_aside, 16, FTW_PHYS);
        assert_int_equal(aside, 0);
    }
}

/* ---- repairs ---- */

static void overwrite(const char *path, const void *bytes, size_t size, bool truncates)
{
    const int file = open(path, O_WRONLY | O_CREAT | (truncates ? O_TRUNC : 0), 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
}

enum damage { CUT, EMPTIED, ALTERED, FOREIGN, GONE, DIRECTORY, LINK, DAMAGES };

static void damage_file(const char *path, enum damage damage)
{
    static const char other[] = "something else";
    struct stat stat;
    const bool is_there = lstat(path, &stat) == 0;
    switch (damage) {
    case CUT:
        assert_int_equal(is_there ? truncate(path, stat.st_size / 2) : 0, 0);
        break;
    case EMPTIED:
        overwrite(path, "", 0, true);
        break;
    case ALTERED:
        overwrite(path, other, sizeof other, false);
        break;
    case FOREIGN:
        overwrite(path, other, sizeof other, true);
        break;
    case GONE:
        unlink(path);
        break;
    case DIRECTORY:
        unlink(path);
        assert_int_equal(mkdir(path, 0700), 0);
        break;
    default:
        unlink(path);
        assert_int_equal(symlink(scratch_path(scratch, "elsewhere"), path), 0);
    }
}

static int counting_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    looks++;
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

/* Sets a flag in the header that this version does not know, and corrects the checksum. */
static void set_unknown_flag(const char *path)
{
    unsigned char bytes[1 << 14];
    const size_t flags_offset = 12;
    const int file = open(path, O_RDWR);
    const ssize_t size = pread(file, bytes, sizeof bytes, 0);
    assert_in_range(size, 1, sizeof bytes - 1);
    bytes[flags_offset] |= 0x80;
    kilni_entry_seal(bytes, (size_t)size);
    assert_int_equal(pwrite(file, bytes, (size_t)size, 0), size);
    close(file);
}

static void test_the_janitors_files_have_their_mode(void **state)
{
    (void)state;
    struct stat stat;
    table.clock_gettime = fast_clock;
    fill_store();
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    scratch_remove(scratch_path(cache, "v1/janitor"));
    kilni_os_replace(&table);
    const mode_t mask = umask(0777);
    kilni_dir_begin_count(kilni_dir_of(store));
    umask(mask);
    static const char *const names[] = {"v1/janitor/job", "v1/janitor/next"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(lstat(scratch_path(cache, names[i]), &stat), 0);
        assert_int_equal(stat.st_mode & 07777, 0600);
    }
}

/* A call that only adds to counters does a small piece of a survey, which the next calls
 * continue. */
static void test_a_count_is_made_in_slices(void **state)
{
    (void)state;
    const kiln_stats delta = {.misses = 1};
    table.clock_gettime = fast_clock;
    fill_store();
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    kilni_os_replace(&table);
    looks = 0;
    table.fstatat = counting_fstatat;
    kilni_os_replace(&table);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    assert_in_range(looks, 8, 32);
    assert_true(exists(scratch_path(cache, "v1/janitor/job")));
    unsigned puts = 0;
    while (exists(scratch_path(cache, "v1/janitor/job"))) {
        put(0);
        assert_true(puts++ < MANY);
    }
    expect_size_known();
}

/* An entry that only its flags show to be of a newer format stays, and other entries are removed
 * instead. */
static void test_seemingly_newer_entry_replaces_nothing(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    open_store("policy=lru");
    for (uint64_t i = 0; i < 10; i++) {
        put(i);
        set_use(i, LONG_AGO + (time_t)i);
    }
    scratch_entry_path(cache, 0, path);
    set_unknown_flag(path);
    set_use(0, LONG_AGO);
    scratch_remove(scratch_path(cache, "v1/janitor"));
    const uint64_t half = get_stat().bytes / 2;
    trim_by(KILN_TRIM_BY_SIZE, half, 0);
    assert_true(exists(path));
    assert_true(get_stat().bytes <= half);
    assert_int_equal(those_there(), 0x3c1);
}

static bool is_settled(void)
{
    const uint64_t bytes = get_stat().bytes;
    return bytes <= limit_of_many && get_known_stat().bytes == bytes &&
           !exists(scratch_path(cache, "v1/janitor/job"));
}

/* Adds to counters until the store is within its limit, and then for long enough that a further
 * trim would have begun. */
static void work_until_settled(void)
{
    enum { SLICES_MAX = 400, BETWEEN_LOOKS = 20 };
    for (unsigned slices = 0; slices < SLICES_MAX && !is_settled(); slices += BETWEEN_LOOKS) {
        for (unsigned i = 0; i < BETWEEN_LOOKS; i++) {
            kilni_dir_begin_count(kilni_dir_of(store));
        }
    }
    for (unsigned i = 0; i < BETWEEN_LOOKS; i++) {
        kilni_dir_begin_count(kilni_dir_of(store));
    }
}

static void test_damaged_files_of_the_janitor(void **state)
{
    (void)state;
    static const char *const names[] = {"v1/janitor/job", "v1/janitor/summary", "v1/janitor/next"};
    fill_store();
    for (unsigned name = 0; name < 3; name++) {
        for (unsigned damage = 0; damage < DAMAGES; damage++) {
            overwrite(scratch_path(scratch, "elsewhere"), "mine", 4, true);
            open_too_small();
            fill_again();
            table.clock_gettime = fast_clock;
            kilni_os_replace(&table);
            for (unsigned slices = 0; slices < 1 + damage; slices++) {
                kilni_dir_begin_count(kilni_dir_of(store));
            }
            damage_file(scratch_path(cache, names[name]), damage);
            work_until_settled();
            kilni_os_replace(NULL);
            kiln_store_stat stat = get_stat();
            assert_true(stat.bytes <= limit_of_many);
            assert_true(stat.bytes >= limit_of_many / 10 * 9 - 8192);
            expect_size_known();
            assert_true(exists(scratch_path(scratch, "elsewhere")));
            rmdir(scratch_path(cache, names[name]));
            unlink(scratch_path(cache, names[name]));
        }
    }
}

static void test_a_summary_that_is_out_of_date(void **state)
{
    (void)state;
    open_store("policy=cost");
    for (uint64_t i = 0; i < 10; i++) {
        put_built(i, 1000, 1000000000 * (i + 1), LONG_AGO);
        set_use(i, LONG_AGO);
    }
    kilni_dir_begin_count(kilni_dir_of(store));
    assert_true(exists(scratch_path(cache, "v1/janitor/summary")));
    put_built(0, 1000, 100000000000, LONG_AGO); /* expensive now */
    set_use(0, LONG_AGO);
    put_built(9, 1000, 1000000, LONG_AGO); /* cheap now */
    set_use(9, LONG_AGO);
    set_use(8, LONG_AGO + 1);
    trim_by(KILN_TRIM_BY_SIZE, get_stat().bytes / 10 * 8, 0);
    assert_int_equal(those_there(), 0x3ff & ~(1u << 9 | 1u << 1));
}

/* ---- sizes and leftovers ---- */

static void test_blocks_are_counted(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    struct stat stat;
    uint64_t bytes = 0;
    open_store("");
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(scratch_put(store, i, 1 + i * 5000), KILN_OK);
        scratch_entry_path(cache, i, path);
        assert_int_equal(lstat(path, &stat), 0);
        bytes += (uint64_t)stat.st_blocks * 512;
    }
    assert_int_equal(get_known_stat().bytes, bytes);
    /* A hole takes no room, however long it is. */
    scratch_entry_path(cache, 0, path);
    assert_int_equal(truncate(path, 1 << 30), 0);
    assert_int_equal(lstat(path, &stat), 0);
    if ((uint64_t)stat.st_blocks * 512 < 1 << 20) {
        assert_int_equal(trim_by(KILN_TRIM_BY_SIZE, 1 << 20, 0).removed, 0);
        assert_true(exists(path));
    }
}

static void test_empty_folders_are_removed(void **state)
{
    (void)state;
    char shard[2][SCRATCH_PATH_SIZE], note[SCRATCH_PATH_SIZE * 2];
    open_store("");
    for (uint64_t i = 0; i < 2; i++) {
        put(i + 1);
        scratch_entry_path(cache, i + 1, shard[i]);
        *strrchr(shard[i], '/') = '\0';
    }
    snprintf(note, sizeof note, "%s/note", shard[1]);
    overwrite(note, "mine", 4, true);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_false(exists(shard[0]));
    assert_true(exists(note));
    assert_int_equal(get_stat().entries, 0);
    put(1);
    put(2);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* ---- memory ---- */

static void test_no_memory(void **state)
{
    (void)state;
    open_store("policy=lru");
    for (uint64_t i = 0; i < 40; i++) {
        put(i);
        set_use(i, LONG_AGO + (time_t)i);
    }
    const uint64_t bytes = get_stat().bytes;
    kilni_dir *dir = kilni_dir_of(store);
    store->options.max_bytes = bytes / 2;
    unsigned failures = 0;
    for (bool failed = true; failed; failures++) {
        failing_malloc_arm(failures + 1);
        kilni_dir_begin_count(dir);
        failed = failing_malloc_disarm() > failures;
    }
    finish_trim();
    assert_true(failures > 2);
    assert_true(get_stat().bytes <= bytes / 2);
    assert_true(has(39));
    assert_false(has(0));
    failures = 0;
    for (bool failed = true; failed; failures++) {
        kiln_trim_report report = {.struct_size = sizeof report};
        failing_malloc_arm(failures + 1);
        const kiln_status status = trim_to(store, bytes / 4, &report);
        failed = failing_malloc_disarm() > failures;
        assert_true(status == KILN_OK ||
                    (failed && (status == KILN_E_NO_MEMORY || status == KILN_E_IO)));
    }
    assert_true(get_stat().bytes <= bytes / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_lru),
        TEST(test_fifo),
        TEST(test_cost),
        TEST(test_cost_weighs_size_and_age),
        TEST(test_nothing_is_evicted),
        TEST(test_the_newest_stays),
        TEST(test_options),
        TEST(test_parameters_of_a_trim),
        TEST(test_older_than),
        TEST(test_age_when_a_store_is_closed),
        TEST(test_a_store_that_is_refused_is_not_trimmed),
        TEST(test_only_its_own_directory_is_trimmed_at_the_end),
        TEST(test_age_once_a_day),
        TEST(test_sizes_are_counted_once_a_day),
        TEST(test_walks_without_locks),
        TEST(test_walks_without_a_janitors_folder),
        TEST(test_a_dry_run_changes_nothing),
        TEST(test_a_trim_in_slices),
        TEST(test_a_slice_may_end_at_any_time),
        TEST(test_walks_in_parts),
        TEST(test_slices_in_each_layout),
        TEST(test_puts_do_slices),
        TEST(test_trim_continues_after_a_kill),
        TEST(test_two_processes),
        TEST(test_explicit_trim_ends_a_sliced_one),
        TEST(test_replaced_entry_is_never_removed),
        TEST(test_the_janitors_files_have_their_mode),
        TEST(test_a_count_is_made_in_slices),
        TEST(test_seemingly_newer_entry_replaces_nothing),
        TEST(test_times_ahead_are_the_oldest),
        TEST(test_a_leftover_of_a_wrong_clock),
        TEST(test_stuck_store_is_not_surveyed_repeatedly),
        TEST(test_newer_entries_are_removed_only_with_the_flag),
        TEST(test_damaged_files_of_the_janitor),
        TEST(test_a_summary_that_is_out_of_date),
        TEST(test_blocks_are_counted),
        TEST(test_empty_folders_are_removed),
        TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
