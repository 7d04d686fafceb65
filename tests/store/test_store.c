/* SPDX-License-Identifier: Apache-2.0
 *
 * The guarantees of every store, and those that only directories give.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "entry/structure.h"
#include "key/hash.h"
#include "os/os.h"
#include "store/store.h"
#include "store/totals.h"

static kiln_store *store;

/* Whether each store is a chain of the directory and a second directory that stays empty. */
static bool is_chained;

static kiln_status open_with(const char *location, uint64_t max_bytes, uint32_t flags,
                             kiln_store **ret_store, kiln_error *error)
{
    char chain[2 * SCRATCH_PATH_SIZE];
    snprintf(chain, sizeof chain, "%s|file://%s/below?write=none", location, scratch);
    const kiln_store_params params = {
        .struct_size = sizeof params,
        .max_bytes = max_bytes,
        .flags = flags,
        .layout = scratch_layout,
    };
    return kiln_store_open(is_chained ? chain : location, &params, ret_store, error);
}

/* Skips a test that needs a single directory. */
static void skip_where_chained(void)
{
    if (is_chained) {
        skip();
    }
}

static int set_up(void **state)
{
    cache_set_up(state);
    return open_with(cache, 0, 0, &store, NULL) == KILN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

static void reopen(uint64_t max_bytes, uint32_t flags)
{
    kiln_store_close(&store);
    assert_int_equal(open_with(cache, max_bytes, flags, &store, NULL), KILN_OK);
}

static void put(uint64_t number)
{
    assert_int_equal(scratch_put(store, number, 1000), KILN_OK);
}

static void read_whole(const char *path, unsigned char **ret_bytes, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat stat;
    assert_int_equal(fstat(fileno(file), &stat), 0);
    *ret_size = (size_t)stat.st_size;
    *ret_bytes = malloc(*ret_size + 1);
    assert_non_null(*ret_bytes);
    assert_int_equal(fread(*ret_bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
}

static void write_whole(const char *path, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static kiln_store_stat get_stat(void)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    return stat;
}

static kiln_verify_report verify(void)
{
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, NULL, NULL, &report), KILN_OK);
    return report;
}

static void set_use(uint64_t number, time_t time_s)
{
    char path[SCRATCH_PATH_SIZE];
    const struct timespec times[2] = {{.tv_sec = time_s}, {.tv_sec = time_s}};
    scratch_entry_path(cache, number, path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* ---- the guarantees of every store ---- */

static void test_no_store(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_entry(1, 10);
    kiln_entry *found = NULL;
    kiln_lease *lease = NULL;
    const kiln_key *key = kiln_entry_key(entry);
    const kiln_stats delta = {.misses = 1};
    assert_int_equal(kiln_store_get(NULL, key, &found), KILN_MISS);
    assert_null(found);
    assert_int_equal(kiln_store_put(NULL, entry), KILN_OK);
    assert_int_equal(kiln_store_contains(NULL, key), KILN_MISS);
    assert_int_equal(kiln_store_remove(NULL, key), KILN_MISS);
    assert_int_equal(kiln_store_lease(NULL, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_store_add_stats(NULL, &delta), KILN_OK);
    kiln_store *none = NULL;
    kiln_store_close(&none);
    kiln_store_close(NULL);
    kiln_lease_release(&lease);
    kiln_lease_release(NULL);
    kiln_entry_release(&entry);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_entry(1, 10);
    const kiln_key *key = kiln_entry_key(entry);
    kiln_entry *found = NULL;
    kiln_store_stat no_size = {0};
    assert_int_equal(kiln_store_get(store, NULL, &found), KILN_E_INVALID);
    assert_int_equal(kiln_store_get(store, key, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_put(store, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_remove(store, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_contains(store, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_lease(store, key, 0, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_each(store, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_each_of_digest(store, NULL, NULL, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_stat(store, 0, &no_size), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN << 1, &no_size),
                     KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_store_add_stats(store, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_open(cache, NULL, NULL, NULL), KILN_E_INVALID);
    kiln_entry_release(&entry);
}

static void test_put_and_get(void **state)
{
    (void)state;
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    const size_t sizes[] = {0, 1, 4095, 4096, 100000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(scratch_put(store, i, sizes[i]), KILN_OK);
        assert_int_equal(scratch_get(store, i), KILN_OK);
    }
    kiln_entry *sent = scratch_entry(4, 100000);
    kiln_entry *found = NULL;
    assert_int_equal(kiln_store_get(store, kiln_entry_key(sent), &found), KILN_OK);
    assert_int_equal(kiln_entry_payload(found).size, 100000);
    assert_string_equal(kiln_entry_provenance(found).name, "kernel_4");
    kiln_entry_release(&found);
    kiln_entry_release(&sent);
    assert_int_equal(scratch_get(store, 99), KILN_MISS);
}

/* ---- the system calls of a put ---- */

static struct {
    unsigned openat, close, pread, write, pwrite, fstat, fstatat, renameat, lock, mask_signals;
    unsigned duplicate, getrandom, geteuid;
} asked;

static int asked_openat(int directory, const char *path, int flags, mode_t mode)
{
    asked.openat++;
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static int asked_close(int file)
{
    asked.close++;
    return kilni_os_system()->close(file);
}

static ssize_t asked_pread(int file, void *buffer, size_t size, off_t offset)
{
    asked.pread++;
    return kilni_os_system()->pread(file, buffer, size, offset);
}

static ssize_t asked_write(int file, const void *buffer, size_t size)
{
    asked.write++;
    return kilni_os_system()->write(file, buffer, size);
}

static ssize_t asked_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    asked.pwrite++;
    return kilni_os_system()->pwrite(file, buffer, size, offset);
}

static int asked_fstat(int file, struct stat *ret_stat)
{
    asked.fstat++;
    return kilni_os_system()->fstat(file, ret_stat);
}

static int asked_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    asked.fstatat++;
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static int asked_renameat(int from, const char *old_path, int to, const char *new_path)
{
    asked.renameat++;
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static int asked_lock(int file, short type, off_t offset, off_t size)
{
    asked.lock++;
    return kilni_os_system()->lock(file, type, offset, size);
}

static int asked_duplicate(int file, int least)
{
    asked.duplicate++;
    return kilni_os_system()->duplicate(file, least);
}

static ssize_t asked_getrandom(void *buffer, size_t size, unsigned flags)
{
    asked.getrandom++;
    return kilni_os_system()->getrandom(buffer, size, flags);
}

static uid_t asked_geteuid(void)
{
    asked.geteuid++;
    return kilni_os_system()->geteuid();
}

static int asked_mask_signals(int how, const sigset_t *set, sigset_t *ret_before)
{
    asked.mask_signals++;
    return kilni_os_system()->mask_signals(how, set, ret_before);
}

static unsigned shard_of(uint64_t number)
{
    kiln_key *key = scratch_key(number);
    const unsigned shard = kiln_key_digest(key).bytes[0];
    kiln_key_release(&key);
    return shard;
}

/* Puts a new entry into a store that is in use. */
static void test_a_put_makes_few_system_calls(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = asked_openat;
    table.close = asked_close;
    table.pread = asked_pread;
    table.write = asked_write;
    table.pwrite = asked_pwrite;
    table.fstat = asked_fstat;
    table.fstatat = asked_fstatat;
    table.renameat = asked_renameat;
    table.lock = asked_lock;
    table.duplicate = asked_duplicate;
    table.getrandom = asked_getrandom;
    table.geteuid = asked_geteuid;
    table.mask_signals = asked_mask_signals;
    uint64_t number = 1;
    put(0);
    while (shard_of(number) != shard_of(0)) { /* so that its folder exists */
        number++;
    }
    memset(&asked, 0, sizeof asked);
    kilni_os_replace(&table);
    put(number);
    kilni_os_replace(NULL);
    assert_int_equal(asked.getrandom + asked.duplicate, 0);
    assert_int_equal(asked.write, 1);
    assert_int_equal(asked.renameat, 1);
    /* The statistics: read once, and written once. */
    assert_int_equal(asked.pread, 1);
    assert_int_equal(asked.pwrite, 1);
    /* Two calls lock and unlock the statistics, and one locks the entry while it is written. */
    assert_int_equal(asked.lock, 3);
    assert_int_equal(asked.mask_signals, 2);
    assert_in_range(asked.openat + asked.close + asked.fstat + asked.fstatat + asked.geteuid, 1,
                    12);
}

static void test_entries_outlive_the_handle(void **state)
{
    (void)state;
    put(1);
    reopen(0, 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_contains_and_remove(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
    put(1);
    put(2);
    assert_int_equal(kiln_store_contains(store, key), KILN_OK);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(get_stat().entries, 1);
    kiln_key_release(&key);
}

static void test_put_replaces(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 50000), KILN_OK);
    kiln_key *key = scratch_key(1);
    kiln_entry *found = NULL;
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    assert_int_equal(kiln_entry_payload(found).size, 50000);
    assert_int_equal(get_stat().entries, 1);
    kiln_entry_release(&found);
    kiln_key_release(&key);
}

typedef struct listing {
    size_t count, sound;
    uint64_t bytes;
    bool stops;
    char name[64], device[64];
} listing;

static int list_item(void *user, kiln_item *item)
{
    listing *list = user;
    kiln_item_info info = {.struct_size = sizeof info};
    if (kiln_item_get_info(item, &info) != KILN_OK) {
        return 0;
    }
    list->count++;
    list->sound += info.state == KILN_OK && info.kind == KILN_ENTRY_PROGRAM &&
                   info.stored_bytes > info.bytes && info.last_used_s > 0 && info.created_s > 0;
    list->bytes += info.bytes;
    snprintf(list->name, sizeof list->name, "%s", info.name);
    snprintf(list->device, sizeof list->device, "%s", info.device);
    return list->stops;
}

static void test_each(void **state)
{
    (void)state;
    listing none = {0};
    assert_int_equal(kiln_store_each(store, list_item, &none), KILN_OK);
    assert_int_equal(none.count, 0);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(scratch_put(store, i, 100 + i), KILN_OK);
    }
    listing all = {0};
    assert_int_equal(kiln_store_each(store, list_item, &all), KILN_OK);
    assert_int_equal(all.count, 40);
    assert_int_equal(all.sound, 40);
    assert_int_equal(all.bytes, 40 * 100 + 39 * 40 / 2);
    assert_memory_equal(all.name, "kernel_", 7);
    assert_string_equal(all.device, "a device of tests");
    listing first = {.stops = true};
    assert_int_equal(kiln_store_each(store, list_item, &first), KILN_OK);
    assert_int_equal(first.count, 1);
    for (uint64_t i = 39; i <= 40; i++) {
        listing one = {0};
        kiln_key *key = scratch_key(i);
        const kiln_digest digest = kiln_key_digest(key);
        assert_int_equal(kiln_store_each_of_digest(store, &digest, list_item, &one), KILN_OK);
        assert_int_equal(one.count, i < 40);
        assert_int_equal(one.bytes, i < 40 ? 139 : 0);
        kiln_key_release(&key);
    }
}

static int remove_item(void *user, kiln_item *item)
{
    kiln_entry *entry = NULL;
    kiln_status *status = user;
    *status = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    if (*status == KILN_OK) {
        *status = kiln_item_remove(item);
    }
    return *status != KILN_OK;
}

static void test_items_are_read_and_removed(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        put(i);
    }
    kiln_status status = KILN_MISS;
    assert_int_equal(kiln_store_each(store, remove_item, &status), KILN_OK);
    assert_int_equal(status, KILN_OK);
    assert_int_equal(get_stat().entries, 0);
    assert_int_equal(get_stat().bytes, 0);
}

static int remove_replaced_item(void *user, kiln_item *item)
{
    kiln_item_info info = {.struct_size = sizeof info};
    kiln_status *status = user;
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(scratch_put(store, 1, 77), KILN_OK);
    set_use(1, 1000000);
    *status = kiln_item_remove(item);
    return 1;
}

static void test_an_item_that_was_replaced_stays(void **state)
{
    (void)state;
    put(1);
    set_use(1, 1000000);
    kiln_status status = KILN_OK;
    assert_int_equal(kiln_store_each(store, remove_replaced_item, &status), KILN_OK);
    assert_int_equal(status, KILN_MISS);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* ---- requests ---- */

static void put_request(uint64_t number)
{
    kiln_entry *entry = scratch_request(number);
    assert_int_equal(kiln_store_put(store, entry), KILN_OK);
    kiln_entry_release(&entry);
}

/* Checks how many items each of the two kinds of listing visits. */
static void assert_listed(unsigned requests, unsigned all)
{
    listing of_requests = {0}, of_all = {0};
    assert_int_equal(kiln_store_each_request(store, list_item, &of_requests), KILN_OK);
    assert_int_equal(kiln_store_each(store, list_item, &of_all), KILN_OK);
    assert_int_equal(of_requests.count, requests);
    assert_int_equal(of_all.count, all);
    assert_int_equal(get_stat().entries, all - requests);
    kilni_totals totals = {0};
    kilni_totals_read_file(AT_FDCWD, scratch_path(cache, "stats"), &totals);
    assert_int_equal(totals.entries, all - requests);
    assert_int_equal(totals.bytes, get_stat().bytes);
}

static void test_requests_are_listed_alone(void **state)
{
    (void)state;
    assert_int_equal(kiln_store_each_request(store, NULL, NULL), KILN_E_INVALID);
    assert_listed(0, 0);
    put(1);
    put(2);
    assert_listed(0, 2);
    for (uint64_t i = 0; i < 5; i++) {
        put_request(i);
    }
    assert_listed(5, 7);
    assert_int_equal(verify().ok, 7);
    assert_int_equal(get_stat().totals.puts, 2);
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.puts, 2);

    kiln_entry *request = scratch_request(3), *found = NULL;
    const kiln_key *key = kiln_entry_key(request);
    assert_int_equal(kiln_store_get(store, key, &found), KILN_OK);
    kiln_entry_release(&found);
    assert_int_equal(kiln_store_contains(store, key), KILN_OK);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    kiln_entry_release(&request);
    assert_listed(4, 6);

    kiln_status status = KILN_MISS;
    assert_int_equal(kiln_store_each_request(store, remove_item, &status), KILN_OK);
    assert_int_equal(status, KILN_OK);
    assert_listed(0, 2);
}

static void test_requests_are_trimmed_too(void **state)
{
    (void)state;
    put(1);
    put_request(1);
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_listed(1, 2);
    assert_int_equal(trim_to(store, 0, &report), KILN_OK);
    assert_listed(0, 0);
    assert_int_equal(report.removed, 1);
    assert_int_equal(get_stat().totals.evicted, 1);
}

static void test_lease(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_key *other_key = scratch_key(2);
    kiln_store *other = NULL;
    kiln_lease *lease = NULL, *second = NULL, *third = NULL;
    assert_int_equal(open_with(cache, 0, 0, &other, NULL), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
    assert_int_equal(kiln_store_lease(other, key, 0, &second), KILN_BUSY);
    assert_int_equal(kiln_store_lease(other, key, 20000000, &second), KILN_BUSY);
    assert_null(second);
    assert_int_equal(kiln_store_lease(other, other_key, 0, &third), KILN_OK);
    kiln_lease_release(&lease);
    assert_null(lease);
    assert_int_equal(kiln_store_lease(other, key, 0, &second), KILN_OK);
    kiln_lease_release(&second);
    kiln_lease_release(&third);
    kiln_store_close(&other);
    kiln_key_release(&key);
    kiln_key_release(&other_key);
}

static void *release_later(void *argument)
{
    usleep(30000);
    kiln_lease_release(argument);
    return NULL;
}

static void test_a_waiter_gets_the_lease(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL, *second = NULL;
    pthread_t thread;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(pthread_create(&thread, NULL, release_later, &lease), 0);
    assert_int_equal(kiln_store_lease(store, key, UINT64_MAX, &second), KILN_OK);
    pthread_join(thread, NULL);
    kiln_lease_release(&second);
    kiln_key_release(&key);
}

static void test_no_lease(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    reopen(0, KILN_STORE_NO_LEASE);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    kiln_key_release(&key);
}

static void test_totals(void **state)
{
    (void)state;
    const kiln_stats delta = {.hits_store = 2, .builds = 3, .saved_ns = 1000};
    put(1);
    put(2);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    reopen(0, 0);
    put(3);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    kiln_store_stat stat = get_stat();
    assert_int_equal(stat.totals.puts, 3);
    assert_int_equal(stat.totals.hits_store, 4);
    assert_int_equal(stat.totals.builds, 6);
    assert_int_equal(stat.totals.saved_ns, 2000);
    assert_int_equal(stat.entries, 3);
    assert_true(stat.bytes >= 3 * 1000);
    assert_int_equal(stat.max_bytes, (uint64_t)2 << 30);
}

/* ---- damage ---- */

static void test_another_key_of_the_same_digest(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE], forged[SCRATCH_PATH_SIZE];
    put(1);
    put(2);
    scratch_entry_path(cache, 1, path);
    scratch_entry_path(cache, 2, forged);
    assert_int_equal(rename(path, forged), 0);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    assert_int_equal(verify().corrupt, 1);
    listing list = {0};
    assert_int_equal(kiln_store_each(store, list_item, &list), KILN_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.sound, 0);
    put(2);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

/* Changes an entry's file so that it claims a later version of the format. */
static void make_newer(const char *path)
{
    unsigned char *bytes;
    size_t size;
    read_whole(path, &bytes, &size);
    bytes[KILNI_ENTRY_VERSION_OFFSET]++;
    write_whole(path, bytes, size);
    free(bytes);
}

static int remove_unread(void *user, kiln_item *item)
{
    *(kiln_status *)user = kiln_item_remove(item);
    return 1;
}

static void test_a_newer_entry_stays(void **state)
{
    (void)state;
    kiln_status removed = KILN_OK;
    kiln_key *key = scratch_key(1);
    char path[SCRATCH_PATH_SIZE];
    unsigned char *before, *after;
    size_t size_before, size_after;
    put(1);
    scratch_entry_path(cache, 1, path);
    make_newer(path);
    read_whole(path, &before, &size_before);
    assert_int_equal(scratch_get(store, 1), KILN_E_VERSION);
    assert_int_equal(scratch_put(store, 1, 10), KILN_EXISTS);
    assert_int_equal(kiln_store_remove(store, key), KILN_EXISTS);
    assert_int_equal(kiln_store_each(store, remove_unread, &removed), KILN_OK);
    assert_int_equal(removed, KILN_EXISTS);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    kiln_verify_report report = verify();
    assert_int_equal(report.checked, 1);
    assert_int_equal(report.newer, 1);
    assert_int_equal(report.corrupt, 0);
    read_whole(path, &after, &size_after);
    assert_int_equal(size_before, size_after);
    assert_memory_equal(before, after, size_before);
    assert_int_equal(get_stat().entries, 1);
    kiln_key_release(&key);
    free(before);
    free(after);
}

/* An entry has a flag in the header that this version does not know, and a correct checksum. */
static void test_an_entry_with_unknown_flags_stays(void **state)
{
    (void)state;
    const size_t flags_offset = 12;
    kiln_status removed = KILN_OK;
    kiln_key *key = scratch_key(1);
    char path[SCRATCH_PATH_SIZE];
    unsigned char *bytes;
    size_t size;
    put(1);
    scratch_entry_path(cache, 1, path);
    read_whole(path, &bytes, &size);
    bytes[flags_offset] |= 0x80;
    kilni_entry_seal(bytes, size);
    write_whole(path, bytes, size);
    assert_int_equal(scratch_get(store, 1), KILN_E_VERSION);
    assert_int_equal(scratch_put(store, 1, 10), KILN_EXISTS);
    assert_int_equal(kiln_store_remove(store, key), KILN_EXISTS);
    assert_int_equal(kiln_store_each(store, remove_unread, &removed), KILN_OK);
    assert_int_equal(removed, KILN_EXISTS);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(verify().newer, 1);
    /* With a wrong checksum, such an entry is damaged. */
    bytes[size - 1] ^= 1;
    write_whole(path, bytes, size);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    assert_int_equal(scratch_put(store, 1, 10), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_key_release(&key);
    free(bytes);
}

/* A later version may keep its own folder in the directory, with names that look like those of this
 * version. */
static void test_a_later_layouts_folder_is_not_touched(void **state)
{
    (void)state;
    char ours[SCRATCH_PATH_SIZE], theirs[SCRATCH_PATH_SIZE];
    static const unsigned char bytes[] = "of a later version";
    put(1);
    scratch_entry_path(cache, 1, ours);
    assert_int_equal(mkdir(scratch_path(cache, "v2"), 0700), 0);
    snprintf(theirs, sizeof theirs, "%s/v2/%s", cache, strrchr(ours, '/') + 1);
    write_whole(theirs, bytes, sizeof bytes);
    assert_int_equal(get_stat().entries, 1);
    assert_int_equal(verify().checked, 1);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_false(exists(ours));
    assert_true(exists(theirs));
}

/* Large files are read in pieces. The bytes on both sides of each boundary between two pieces are
 * flipped, and so is the last byte. */
static void test_flipped_bytes_of_a_large_entry_are_found(void **state)
{
    (void)state;
    const size_t pieces[] = {0, (size_t)1 << 20, (size_t)2 << 20, (size_t)3 << 20};
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, ((size_t)3 << 20) + 100), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    scratch_entry_path(cache, 1, path);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat stat;
    assert_int_equal(fstat(file, &stat), 0);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (off_t at = (off_t)pieces[i] - 2; at < (off_t)pieces[i] + 2; at++) {
            const off_t offset = at < 0 ? stat.st_size + at : at;
            unsigned char byte, flipped;
            assert_int_equal(pread(file, &byte, 1, offset), 1);
            flipped = byte ^ 0x10;
            assert_int_equal(pwrite(file, &flipped, 1, offset), 1);
            assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
            assert_int_equal(pwrite(file, &byte, 1, offset), 1);
        }
    }
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    for (size_t i = sizeof pieces / sizeof pieces[0]; i-- > 0;) {
        assert_int_equal(ftruncate(file, (off_t)pieces[i]), 0);
        assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    }
    close(file);
}

static void test_every_flipped_byte_is_found(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    unsigned char *bytes;
    size_t size;
    assert_int_equal(scratch_put(store, 1, 200), KILN_OK);
    scratch_entry_path(cache, 1, path);
    read_whole(path, &bytes, &size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x40;
        write_whole(path, bytes, size);
        bytes[i] ^= 0x40;
        kiln_status status = scratch_get(store, 1);
        assert_true(status == KILN_E_CORRUPT || status == KILN_E_VERSION);
        assert_true(exists(path));
    }
    free(bytes);
}

static void test_every_truncation_is_found(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    unsigned char *bytes;
    size_t size;
    assert_int_equal(scratch_put(store, 1, 200), KILN_OK);
    scratch_entry_path(cache, 1, path);
    read_whole(path, &bytes, &size);
    for (size_t length = 0; length < size; length++) {
        write_whole(path, bytes, length);
        assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    }
    assert_int_equal(scratch_put(store, 1, 200), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    free(bytes);
}

static void report_corrupt(void *user, kiln_item *item, kiln_status status, const char *why)
{
    if (status == KILN_OK) {
        assert_null(why);
        return;
    }
    kiln_item_info info = {.struct_size = sizeof info};
    assert_int_equal(kiln_item_get_info(item, &info), KILN_OK);
    assert_int_equal(info.state, KILN_E_CORRUPT);
    assert_string_equal(info.name, "");
    char path[SCRATCH_PATH_SIZE];
    scratch_entry_path(cache, 1, path);
    assert_string_equal(info.path, path);
    assert_int_equal(status, KILN_E_CORRUPT);
    assert_true(strlen(why) > 0);
    ++*(int *)user;
}

static void test_damage_is_counted_and_replaced(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put(1);
    put(2);
    scratch_entry_path(cache, 1, path);
    write_whole(path, "", 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    int reports = 0;
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(store, report_corrupt, &reports, &report), KILN_OK);
    assert_int_equal(report.checked, 2);
    assert_int_equal(report.ok, 1);
    assert_int_equal(report.corrupt, 1);
    assert_int_equal(reports, 1);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(verify().corrupt, 0);
    assert_int_equal(get_stat().totals.corrupt, 1);
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.corrupt, 1);
    assert_int_equal(counts.puts, 3);
}

static void test_damage_is_counted_without_a_put(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put(1);
    scratch_entry_path(cache, 1, path);
    write_whole(path, "x", 1);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    reopen(0, 0);
    assert_int_equal(get_stat().totals.corrupt, 1);
}

static void test_other_kinds_of_files_in_an_entrys_place(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE], other[SCRATCH_PATH_SIZE];
    put(1);
    put(2);
    scratch_entry_path(cache, 1, path);
    scratch_entry_path(cache, 2, other);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(scratch_put(store, 1, 10), KILN_E_IO);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_true(exists(path));
    assert_int_equal(verify().checked, 0);
}

static void test_a_file_writable_by_others(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put(1);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(verify().corrupt, 1);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
        assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
        assert_true(exists(path));
    }
}

/* ---- the directory ---- */

static mode_t mode_of(const char *path)
{
    struct stat stat;
    assert_int_equal(lstat(path, &stat), 0);
    return stat.st_mode & 07777;
}

static void test_layout(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    put(1);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(mode_of(cache), 0700);
    assert_int_equal(mode_of(scratch_path(cache, "v1")), 0700);
    assert_int_equal(mode_of(scratch_path(cache, "stats")), 0600);
    assert_int_equal(mode_of(scratch_path(cache, "lease")), 0600);
    unsigned char *tag;
    size_t size;
    read_whole(scratch_path(cache, "CACHEDIR.TAG"), &tag, &size);
    assert_memory_equal(tag, "Signature: 8a477f597d28d172789f06886806bc55", 43);
    free(tag);
    kiln_key_release(&key);
}

static void test_parents_are_made(void **state)
{
    (void)state;
    kiln_store *deep = NULL;
    const char *path = scratch_path(scratch, "a/b/./c//d/");
    assert_int_equal(kiln_store_open(path, NULL, &deep, NULL), KILN_OK);
    assert_int_equal(scratch_put(deep, 1, 10), KILN_OK);
    assert_int_equal(mode_of(scratch_path(scratch, "a")), 0700);
    assert_int_equal(mode_of(scratch_path(scratch, "a/b/c/d")), 0700);
    kiln_store_close(&deep);
}

/* Makes a store create everything that it may create below @path, and checks the modes. */
static void expect_modes(const char *path)
{
    unsigned char *bytes;
    size_t size;
    char entry[SCRATCH_PATH_SIZE], shard[SCRATCH_PATH_SIZE];
    scratch_entry_path(path, 1, entry);
    snprintf(shard, sizeof shard, "%s", entry);
    *strrchr(shard, '/') = '\0';
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(scratch_path(path, "v1")), 0700);
    assert_int_equal(mode_of(shard), 0700);
    assert_int_equal(mode_of(entry), 0600);
    assert_int_equal(mode_of(scratch_path(path, "stats")), 0600);
    assert_int_equal(mode_of(scratch_path(path, "lease")), 0600);
    assert_int_equal(mode_of(scratch_path(path, "CACHEDIR.TAG")), 0600);
    read_whole(scratch_path(path, "CACHEDIR.TAG"), &bytes, &size);
    free(bytes);
}

static void test_modes_do_not_depend_on_the_umask(void **state)
{
    (void)state;
    const mode_t masks[] = {0, 0277, 0777};
    kiln_key *key = scratch_key(1);
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        char path[SCRATCH_DIRECTORY_SIZE + 32];
        kiln_store *made = NULL;
        kiln_lease *lease = NULL;
        snprintf(path, sizeof path, "%s/above%zu/cache", scratch, i);
        mode_t before = umask(masks[i]);
        kiln_status opened = kiln_store_open(path, NULL, &made, NULL);
        kiln_status sent = scratch_put(made, 1, 100);
        kiln_status leased = kiln_store_lease(made, key, 0, &lease);
        umask(before);
        kiln_lease_release(&lease);
        assert_int_equal(opened, KILN_OK);
        assert_int_equal(sent, KILN_OK);
        assert_int_equal(leased, KILN_OK);
        assert_int_equal(scratch_get(made, 1), KILN_OK);
        expect_modes(path);
        kiln_store_close(&made);
    }
    kiln_key_release(&key);
}

/* Existing files keep their modes, even if these make the files unusable. */
static void test_modes_of_other_files_stay(void **state)
{
    (void)state;
    put(1);
    assert_int_equal(chmod(scratch_path(cache, "v1"), 0500), 0);
    assert_int_equal(chmod(scratch_path(cache, "stats"), 0400), 0);
    kiln_store_close(&store);
    if (kiln_store_open(cache, NULL, &store, NULL) == KILN_OK) {
        scratch_put(store, 2, 100); /* succeeds only as root */
    }
    assert_int_equal(mode_of(scratch_path(cache, "v1")), 0500);
    assert_int_equal(mode_of(scratch_path(cache, "stats")), 0400);
    assert_int_equal(chmod(scratch_path(cache, "v1"), 0700), 0);
}

static void test_no_tag_in_the_directory_of_a_different_program(void **state)
{
    (void)state;
    kiln_store *other = NULL;
    assert_int_equal(kiln_store_open(scratch, NULL, &other, NULL), KILN_OK);
    assert_int_equal(scratch_put(other, 1, 10), KILN_OK);
    assert_false(exists(scratch_path(scratch, "CACHEDIR.TAG")));
    kiln_store_close(&other);
    assert_int_equal(mkdir(scratch_path(scratch, "empty"), 0700), 0);
    assert_int_equal(kiln_store_open(scratch_path(scratch, "empty"), NULL, &other, NULL), KILN_OK);
    assert_true(exists(scratch_path(scratch, "empty/CACHEDIR.TAG")));
    kiln_store_close(&other);
}

static void expect_denied(const char *path, const char *text)
{
    kiln_store *denied = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_store_open(path, NULL, &denied, &error), KILN_E_DENIED);
    assert_null(denied);
    assert_int_equal(error.status, KILN_E_DENIED);
    assert_non_null(strstr(error.text, text));
}

static void test_hostile_directories(void **state)
{
    (void)state;
    const char *place = scratch_path(scratch, "place");
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(chmod(place, 0777), 0);
    expect_denied(place, "place is writable by others (mode 0777)");
    assert_int_equal(mode_of(place), 0777);
    assert_int_equal(chmod(place, 0770), 0);
    expect_denied(place, "place is writable by others (mode 0770)");
    assert_int_equal(chmod(place, 01777), 0);
    expect_denied(place, "is writable by others");

    assert_int_equal(mkdir(scratch_path(scratch, "place/leaf"), 0700), 0);
    kiln_store *fine = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "place/leaf"), NULL, &fine, NULL),
                     KILN_OK);
    kiln_store_close(&fine);
    assert_int_equal(chmod(place, 0777), 0);
    expect_denied(scratch_path(scratch, "place/leaf"), "place is writable by others");
    assert_int_equal(chmod(place, 0755), 0);

    write_whole(scratch_path(scratch, "file"), "", 0);
    expect_denied(scratch_path(scratch, "file"), "file is not a directory");
    expect_denied(scratch_path(scratch, "file/below"), "file is not a directory");
    assert_int_equal(symlink("place", scratch_path(scratch, "link")), 0);
    expect_denied(scratch_path(scratch, "link"), "link is a symbolic link");
    expect_denied(scratch_path(scratch, "link/."), "link is a symbolic link");
    assert_int_equal(symlink("nowhere", scratch_path(scratch, "dangling")), 0);
    expect_denied(scratch_path(scratch, "dangling"), "dangling is a symbolic link");
    assert_int_equal(symlink("loop", scratch_path(scratch, "loop")), 0);
    expect_denied(scratch_path(scratch, "loop/below"), "loop");
}

static void test_links_above(void **state)
{
    (void)state;
    kiln_store *linked = NULL;
    assert_int_equal(mkdir(scratch_path(scratch, "target"), 0700), 0);
    assert_int_equal(symlink("target", scratch_path(scratch, "near")), 0);
    assert_int_equal(symlink(scratch_path(scratch, "./near/"), scratch_path(scratch, "far")), 0);
    assert_int_equal(kiln_store_open(scratch_path(scratch, "far/leaf"), NULL, &linked, NULL),
                     KILN_OK);
    kiln_store_close(&linked);
    assert_true(exists(scratch_path(scratch, "target/leaf")));
    if (geteuid() == 0) {
        assert_int_equal(lchown(scratch_path(scratch, "near"), 12345, 12345), 0);
        expect_denied(scratch_path(scratch, "far/leaf"), "near belongs to user 12345, not to 0");
    }
}

static void test_a_directory_of_a_different_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(mkdir(scratch_path(scratch, "theirs"), 0755), 0);
    assert_int_equal(mkdir(scratch_path(scratch, "theirs/leaf"), 0700), 0);
    assert_int_equal(chown(scratch_path(scratch, "theirs"), 12345, 12345), 0);
    expect_denied(scratch_path(scratch, "theirs"), "theirs belongs to user 12345, not to 0");
    expect_denied(scratch_path(scratch, "theirs/leaf"), "theirs belongs to user 12345, not to 0");
}

static void test_a_link_in_the_place_of_the_entries(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path(scratch, "elsewhere"), 0700), 0);
    assert_int_equal(mkdir(scratch_path(scratch, "trap"), 0700), 0);
    assert_int_equal(symlink("../elsewhere", scratch_path(scratch, "trap/v1")), 0);
    expect_denied(scratch_path(scratch, "trap"), "trap/v1");
    assert_int_equal(mkdir(scratch_path(scratch, "other"), 0700), 0);
    write_whole(scratch_path(scratch, "other/v1"), "", 0);
    expect_denied(scratch_path(scratch, "other"), "other/v1");
}

static void test_relative_locations(void **state)
{
    (void)state;
    char before[SCRATCH_PATH_SIZE];
    kiln_store *relative = NULL;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch), 0);
    assert_int_equal(kiln_store_open("./here/../there", NULL, &relative, NULL), KILN_OK);
    assert_int_equal(scratch_put(relative, 1, 10), KILN_OK);
    assert_true(exists(scratch_path(scratch, "there/v1")));
    assert_int_equal(chdir("/"), 0);
    scratch_remove(scratch_path(scratch, "there"));
    assert_int_equal(scratch_put(relative, 1, 10), KILN_OK);
    assert_true(exists(scratch_path(scratch, "there/v1")));
    kiln_store_close(&relative);
    assert_int_equal(chdir(scratch_path(scratch, "here")), 0);
    assert_int_equal(kiln_store_open("..", NULL, &relative, NULL), KILN_OK);
    kiln_store_close(&relative);
    assert_int_equal(chmod(scratch, 0777), 0);
    expect_denied("./below", "is writable by others");
    assert_int_equal(chdir(before), 0);
}

static void test_no_create(void **state)
{
    (void)state;
    skip_where_chained();
    kiln_store *none = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const char *path = scratch_path(scratch, "absent/below");
    assert_int_equal(open_with(path, 0, KILN_STORE_NO_CREATE, &none, &error), KILN_MISS);
    assert_non_null(strstr(error.text, "absent"));
    assert_int_equal(open_with(path, 0, KILN_STORE_READONLY, &none, NULL), KILN_MISS);
    assert_null(none);
    assert_false(exists(scratch_path(scratch, "absent")));
    assert_int_equal(open_with(cache, 0, KILN_STORE_NO_CREATE, &none, NULL), KILN_OK);
    kiln_store_close(&none);
}

/* ---- read only ---- */

typedef struct snapshot {
    size_t count;
    uint64_t sum; /* of names, kinds, sizes and times */
} snapshot;

static snapshot taken;

static int take_one(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)kind, (void)walk;
    uint64_t sum = scratch_mix((uint64_t)stat->st_ino) ^ (uint64_t)stat->st_size ^ stat->st_mode;
    sum = scratch_mix(sum + (uint64_t)stat->st_mtim.tv_nsec + (uint64_t)stat->st_ctim.tv_nsec);
    sum = scratch_mix(sum + (uint64_t)stat->st_mtim.tv_sec + (uint64_t)stat->st_ctim.tv_sec);
    for (const char *at = path; *at; at++) {
        sum = scratch_mix(sum + (unsigned char)*at);
    }
    taken.count++;
    taken.sum += sum;
    return 0;
}

static snapshot take_snapshot(const char *path)
{
    taken = (snapshot){0};
    nftw(path, take_one, 16, FTW_PHYS);
    return taken;
}

static void test_a_readonly_store_writes_nothing(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    kiln_stats delta = {.misses = 1};
    put(1);
    put(2);
    scratch_entry_path(cache, 1, path);
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    scratch_entry_path(cache, 2, path);
    write_whole(path, "damaged", 7);
    kiln_store_close(&store);
    assert_int_equal(unlink(scratch_path(cache, "lease")), 0);
    snapshot before = take_snapshot(cache);
    assert_int_equal(open_with(cache, 0, KILN_STORE_READONLY, &store, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_E_CORRUPT);
    assert_int_equal(scratch_get(store, 3), KILN_MISS);
    assert_int_equal(scratch_put(store, 3, 10), KILN_E_READONLY);
    assert_int_equal(kiln_store_remove(store, key), KILN_E_READONLY);
    assert_int_equal(kiln_store_contains(store, key), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_UNSUPPORTED);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_E_READONLY);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_READONLY);
    assert_int_equal(get_stat().totals.puts, 2);
    assert_int_equal(verify().checked, 2);
    kiln_status status = KILN_OK;
    assert_int_equal(kiln_store_each(store, remove_item, &status), KILN_OK);
    assert_true(status == KILN_E_READONLY || status == KILN_E_CORRUPT);
    assert_false(kilni_store_capabilities(store) & KILNI_STORE_WRITABLE);
    kiln_store_close(&store);
    snapshot after = take_snapshot(cache);
    assert_int_equal(before.count, after.count);
    assert_int_equal(before.sum, after.sum);
    kiln_key_release(&key);
}

static void test_a_readonly_store_of_root(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    put(1);
    kiln_store_close(&store);
    assert_int_equal(chmod(scratch, 0755), 0);
    char command[SCRATCH_PATH_SIZE * 2];
    snprintf(command, sizeof command, "chmod -R a+rX %s", cache);
    assert_int_equal(system(command), 0);
    assert_int_equal(seteuid(12345), 0);
    kiln_store *theirs = NULL;
    kiln_status writable = open_with(cache, 0, 0, &theirs, NULL);
    kiln_store_close(&theirs);
    kiln_status readonly = open_with(cache, 0, KILN_STORE_READONLY, &theirs, NULL);
    kiln_status found = scratch_get(theirs, 1);
    kiln_store_close(&theirs);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(writable, KILN_E_DENIED);
    assert_int_equal(readonly, KILN_OK);
    assert_int_equal(found, KILN_OK);
}

/* ---- size ---- */

static void test_trim_removes_what_was_used_least_recently(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        put(i);
        set_use(i, 1000000 + (time_t)(i * 7 % 10));
    }
    uint64_t bytes = get_stat().bytes;
    kiln_trim_report report = {.struct_size = sizeof report};
    assert_int_equal(trim_to(store, bytes / 2, &report), KILN_OK);
    assert_int_equal(report.removed, 5);
    assert_int_equal(report.removed_bytes, bytes / 2);
    assert_int_equal(report.entries, 5);
    assert_int_equal(report.bytes, bytes / 2);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(scratch_get(store, i), i * 7 % 10 < 5 ? KILN_MISS : KILN_OK);
    }
    assert_int_equal(get_stat().totals.evicted, 5);
    assert_int_equal(trim_to(store, 0, &report), KILN_OK);
    assert_int_equal(report.entries, 0);
    assert_int_equal(get_stat().entries, 0);
}

static void test_a_get_is_a_use(void **state)
{
    (void)state;
    kiln_store_close(&store);
    char url[SCRATCH_PATH_SIZE * 2];
    snprintf(url, sizeof url, "file://%s?stamp=0&layout=%s", cache, scratch_layout);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_OK);
    for (uint64_t i = 0; i < 4; i++) {
        put(i);
        set_use(i, 1000000 + (time_t)i);
    }
    assert_int_equal(scratch_get(store, 0), KILN_OK);
    assert_int_equal(trim_to(store, get_stat().bytes / 4, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 0), KILN_OK);
    assert_int_equal(scratch_get(store, 3), KILN_MISS);
}

static time_t use_of(uint64_t number)
{
    char path[SCRATCH_PATH_SIZE];
    struct stat stat;
    scratch_entry_path(cache, number, path);
    assert_int_equal(lstat(path, &stat), 0);
    return stat.st_mtim.tv_sec;
}

static void test_uses_are_recorded_once_an_interval(void **state)
{
    (void)state;
    put(1);
    time_t now = time(NULL);
    set_use(1, now - 1800);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(use_of(1), now - 1800);
    set_use(1, now - 3700);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_true(use_of(1) >= now - 1);
    set_use(1, now + 100000);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_true(use_of(1) < now + 100000);
}

static void expect_size_known(void)
{
    kilni_totals totals;
    kiln_store_stat stat = get_stat();
    assert_int_equal(kilni_totals_read_file(AT_FDCWD, scratch_path(cache, "stats"), &totals),
                     KILN_OK);
    assert_int_equal(totals.entries, stat.entries);
    assert_int_equal(totals.bytes, stat.bytes);
}

static void test_the_size_is_known_without_counting(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(3);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(scratch_put(store, i, 1000 + 5000 * i), KILN_OK);
        expect_size_known();
    }
    assert_int_equal(scratch_put(store, 2, 50000), KILN_OK);
    expect_size_known();
    assert_int_equal(scratch_put(store, 2, 10), KILN_OK);
    expect_size_known();
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    expect_size_known();
    assert_int_equal(trim_to(store, 10000, NULL), KILN_OK);
    expect_size_known();
    kiln_key_release(&key);
}

static void test_a_put_makes_room(void **state)
{
    (void)state;
    reopen(200000, 0);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(scratch_put(store, i, 10000), KILN_OK);
        set_use(i, 1000000 + (time_t)i);
        assert_true(get_stat().bytes <= 200000);
    }
    kiln_store_stat stat = get_stat();
    assert_true(stat.entries >= 10);
    assert_int_equal(stat.totals.puts, 100);
    assert_int_equal(stat.totals.evicted, 100 - stat.entries);
    assert_int_equal(scratch_get(store, 99), KILN_OK);
    assert_int_equal(scratch_get(store, 0), KILN_MISS);
    kiln_stats counts;
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.evicted, stat.totals.evicted);
    kilni_store_take_counts(store, &counts);
    assert_int_equal(counts.evicted, 0);
}

static void test_one_entry_may_fill_the_store(void **state)
{
    (void)state;
    reopen(100000, 0);
    put(1);
    const size_t nearly_all = strcmp(scratch_layout, "kiln") == 0 ? 95000 : 91000; /* and a key */
    assert_int_equal(scratch_put(store, 2, nearly_all), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(scratch_put(store, 3, 100001), KILN_E_TOO_LARGE);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

static void test_a_store_of_size_zero(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE * 2];
    put(1);
    kiln_store_close(&store);
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    snprintf(url, sizeof url, "file://%s?max-size=0&layout=%s", cache, scratch_layout);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_OK);
    const kiln_stats delta = {.misses = 1};
    assert_int_equal(scratch_put(store, 2, 10), KILN_E_FULL);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_lost_totals_are_recounted(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(scratch_put(store, i, 10000), KILN_OK);
        set_use(i, 1000000 + (time_t)i);
    }
    assert_int_equal(unlink(scratch_path(cache, "stats")), 0);
    reopen(100000, 0);
    const kiln_stats delta = {.misses = 1};
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    while (access(scratch_path(cache, "v1/janitor/job"), F_OK) == 0) {
        assert_int_equal(scratch_put(store, 19, 10000), KILN_OK); /* this put continues the count */
    }
    assert_true(get_stat().bytes <= 100000);
    assert_int_equal(scratch_get(store, 19), KILN_OK);
}

static void test_room_is_made_without_totals(void **state)
{
    (void)state;
    kiln_store_close(&store);
    write_whole(scratch_path(cache, "stats"), "something else", 14);
    reopen(200000, 0);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(scratch_put(store, i, 10000), KILN_OK);
        set_use(i, 1000000 + (time_t)i);
    }
    assert_true(get_stat().bytes <= 200000 + 40000);
    unsigned char *bytes;
    size_t size;
    read_whole(scratch_path(cache, "stats"), &bytes, &size);
    assert_int_equal(size, 14);
    free(bytes);
}

static void test_one_janitor_at_a_time(void **state)
{
    (void)state;
    put(1);
    int file = open(scratch_path(cache, "lease"), O_RDWR | O_CREAT, 0600);
    struct flock lock = {.l_type = F_WRLCK, .l_start = (off_t)1 << 41, .l_len = 1};
    assert_int_equal(fcntl(file, F_OFD_SETLK, &lock), 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_BUSY);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    close(file);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
}

static void test_leftovers_of_dead_writers(void **state)
{
    (void)state;
    char shard[SCRATCH_PATH_SIZE], paths[4][SCRATCH_PATH_SIZE * 2];
    put(1);
    scratch_entry_folder(cache, 1, shard);
    const char *names[4] = {".tmp-0000000000000001", ".tmp-0000000000000002",
                            ".tmp-0000000000000003", ".tmp-note"};
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", shard, names[i]);
        write_whole(paths[i], "half", 4);
        if (i != 1) {
            assert_int_equal(utimensat(AT_FDCWD, paths[i], old, 0), 0);
        }
    }
    int file = open(paths[2], O_RDWR);
    struct flock lock = {.l_type = F_WRLCK};
    assert_int_equal(fcntl(file, F_OFD_SETLK, &lock), 0);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_false(exists(paths[0])); /* old */
    assert_true(exists(paths[1]));  /* young */
    assert_true(exists(paths[2]));  /* being written */
    assert_true(exists(paths[3]));  /* not ours */
    close(file);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_OK);
    assert_false(exists(paths[2]));
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* Calls the system's function, but fails for the folder of requests. */
static int open_all_but_requests(int directory, const char *path, int flags)
{
    if (strcmp(path, "v1/requests") == 0) {
        errno = EIO;
        return -1;
    }
    return kilni_os_system()->open_below(directory, path, flags);
}

static void test_leftovers_were_never_counted(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    put(1);
    scratch_entry_folder(cache, 1, path);
    strcat(path, "/.tmp-0000000000000001");
    write_whole(path, "half", 4);
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    kilni_os_table table = *kilni_os_system();
    table.open_below = open_all_but_requests;
    kilni_os_replace(&table);
    assert_int_equal(trim_to(store, KILN_UNLIMITED, NULL), KILN_E_IO);
    kilni_os_replace(NULL);
    assert_false(exists(path));
    expect_size_known();
}

static void test_foreign_files_are_untouched(void **state)
{
    (void)state;
    char shard[SCRATCH_PATH_SIZE], digits[SCRATCH_PATH_SIZE], inner[SCRATCH_PATH_SIZE * 2];
    put(1);
    scratch_entry_path(cache, 1, digits);
    snprintf(shard, sizeof shard, "%s", digits);
    *strrchr(shard, '/') = '\0';
    const char *two = strrchr(shard, '/') + 1;
    char names[5][64];
    snprintf(names[0], 64, "README");
    snprintf(names[1], 64, "%.2sABCDEFABCDEFABCDEFABCDEFABCDEF", two);
    snprintf(names[2], 64, "%.2s00000000000000000000000000000", two);
    snprintf(names[3], 64, "%.2s0000000000000000000000000000000", two);
    snprintf(names[4], 64, "%02lx000000000000000000000000000000", strtoul(two, NULL, 16) ^ 1);
    for (int i = 0; i < 5; i++) {
        snprintf(inner, sizeof inner, "%s/%s", shard, names[i]);
        write_whole(inner, "mine", 4);
    }
    write_whole(scratch_path(cache, "notes"), "mine", 4);
    write_whole(scratch_path(cache, "v1/notes"), "mine", 4);
    assert_int_equal(mkdir(scratch_path(cache, "v1/zz"), 0700), 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    for (int i = 0; i < 5; i++) {
        snprintf(inner, sizeof inner, "%s/%s", shard, names[i]);
        assert_true(exists(inner));
    }
    assert_true(exists(scratch_path(cache, "notes")));
    assert_true(exists(scratch_path(cache, "v1/notes")));
    assert_true(exists(scratch_path(cache, "v1/zz")));
    assert_int_equal(verify().checked, 0);
}

static void test_a_full_disk(void **state)
{
    (void)state;
    char place[SCRATCH_DIRECTORY_SIZE + 8];
    snprintf(place, sizeof place, "%s/small", scratch);
    assert_int_equal(mkdir(place, 0700), 0);
    if (mount("none", place, "tmpfs", 0, "size=1m,mode=0700") != 0) {
        print_message("          no tmpfs can be mounted here: %s\n", strerror(errno));
        skip();
    }
    kiln_store *small = NULL;
    kiln_status opened = kiln_store_open(place, NULL, &small, NULL);
    kiln_status status = opened;
    uint64_t count = 0;
    while (status == KILN_OK && count < 1000) {
        status = scratch_put(small, count++, 50000);
    }
    kiln_status first = scratch_get(small, 0);
    kiln_verify_report report = {.struct_size = sizeof report};
    kiln_status verified = kiln_store_verify(small, NULL, NULL, &report);
    char command[SCRATCH_PATH_SIZE * 2];
    snprintf(command, sizeof command, "test -z \"$(find %s -name '.tmp-*')\"", place);
    int leftovers = system(command);
    kiln_store_close(&small);
    umount(place);
    assert_int_equal(opened, KILN_OK);
    assert_int_equal(status, KILN_E_FULL);
    assert_int_equal(first, KILN_OK);
    assert_int_equal(verified, KILN_OK);
    assert_int_equal(report.corrupt, 0);
    assert_int_equal(report.ok, count - 1);
    assert_int_equal(leftovers, 0);
}

static void test_the_directory_is_removed_while_it_is_open(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    const kiln_stats delta = {.misses = 1};
    char top[SCRATCH_PATH_SIZE];
    put(1);
    scratch_entry_path(cache, 1, top);
    *strchr(top + strlen(cache) + 1, '/') = '\0';
    scratch_remove(top);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);

    scratch_remove(cache);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(kiln_store_contains(store, key), KILN_MISS);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_true(exists(cache));

    scratch_remove(cache);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    scratch_remove(cache);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_OK);
    assert_int_equal(get_stat().totals.misses, 1);

    scratch_remove(cache);
    write_whole(cache, "a file", 6);
    assert_int_equal(scratch_put(store, 1, 10), KILN_E_DENIED);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    kiln_key_release(&key);
}

static void test_removals_leak_no_descriptors(void **state)
{
    (void)state;
    skip_where_chained();
    put(1);
    unsigned descriptors = scratch_count_descriptors();
    for (int i = 0; i < 20; i++) {
        scratch_remove(cache);
        put(1);
        assert_int_equal(scratch_get(store, 1), KILN_OK);
    }
    assert_int_equal(scratch_count_descriptors(), descriptors);
    kiln_store_close(&store);
    assert_int_equal(scratch_count_descriptors(), descriptors - 1);
}

/* Returns the descriptor by which the store has a file open. */
static int descriptor_of(const char *path)
{
    struct stat wanted, found;
    assert_int_equal(stat(path, &wanted), 0);
    for (int file = 3; file < 256; file++) {
        if (fstat(file, &found) == 0 && found.st_dev == wanted.st_dev &&
            found.st_ino == wanted.st_ino) {
            return file;
        }
    }
    fail_msg("%s is not open", path);
    return -1;
}

/* Acts like an application that closes every descriptor it did not open, and then opens its own
 * files.
 */
static void put_another_file_there(int file, const char *path)
{
    int own = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(own >= 0);
    assert_int_equal(dup2(own, file), file);
    close(own);
}

static void test_the_directorys_descriptor_is_taken_away(void **state)
{
    (void)state;
    const char *other = scratch_path(scratch, "other");
    assert_int_equal(mkdir(other, 0700), 0);
    put(1);
    int file = descriptor_of(cache);
    put_another_file_there(file, other);

    assert_int_equal(scratch_get(store, 1), KILN_OK);
    put(2);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(rmdir(other), 0); /* the directory is still empty */

    kiln_store_close(&store);
    assert_int_equal(fcntl(file, F_GETFD), 0); /* and still open */
    close(file);
}

/* Removes the store's directory, and gives the number of its descriptor to the directory of a
 * different store, which has entry 1. Returns the number. */
static int lose_the_directory(char other[SCRATCH_PATH_SIZE])
{
    reopen(0, KILN_STORE_NO_CREATE);
    put(1);
    const int file = descriptor_of(cache);
    assert_int_equal(rename(cache, scratch_path(scratch, "away")), 0);
    snprintf(other, SCRATCH_PATH_SIZE, "%s/other", scratch);
    kiln_store *others = NULL;
    assert_int_equal(open_with(other, 0, 0, &others, NULL), KILN_OK);
    assert_int_equal(scratch_put(others, 1, 1000), KILN_OK);
    kiln_store_close(&others);
    put_another_file_there(file, other);
    return file;
}

static unsigned found_files;

static int count_found(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)path, (void)stat, (void)kind, (void)walk;
    found_files++;
    return 0;
}

/* Returns the number of files and folders below a folder, including the folder. */
static unsigned count_below(const char *path)
{
    found_files = 0;
    nftw(path, count_found, 16, FTW_PHYS);
    return found_files;
}

static void test_directory_of_another_store_is_left_alone(void **state)
{
    (void)state;
    skip_where_chained();
    char other[SCRATCH_PATH_SIZE];
    const int file = lose_the_directory(other);
    const unsigned before = count_below(other);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    kiln_store_stat stat = {.struct_size = sizeof stat};
    const kiln_stats delta = {.misses = 1};
    listing list = {0};
    assert_int_equal(scratch_get(store, 1), KILN_E_IO);
    assert_int_equal(kiln_store_contains(store, key), KILN_E_IO);
    assert_int_equal(scratch_put(store, 2, 1000), KILN_E_IO);
    assert_int_equal(kiln_store_remove(store, key), KILN_E_IO);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_E_IO);
    assert_int_equal(kiln_store_add_stats(store, &delta), KILN_E_IO);
    assert_int_equal(kiln_store_each(store, list_item, &list), KILN_E_IO);
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_E_IO);
    assert_int_equal(trim_to(store, 0, NULL), KILN_E_IO);
    assert_int_equal(list.count, 0);
    assert_int_equal(count_below(other), before);
    kiln_key_release(&key);

    assert_int_equal(rename(scratch_path(scratch, "away"), cache), 0);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_store_close(&store);
    assert_int_equal(close(file), 0);
}

static void test_damage_is_not_counted_in_another_stores_directory(void **state)
{
    (void)state;
    skip_where_chained();
    char other[SCRATCH_PATH_SIZE], path[SCRATCH_PATH_SIZE];
    kilni_totals totals;
    put(1);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(truncate(path, 300), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    kiln_store *damaged = store;
    store = NULL;
    const int file = descriptor_of(cache);
    assert_int_equal(open_with(scratch_path(scratch, "other"), 0, 0, &store, NULL), KILN_OK);
    put(1);
    kiln_store_close(&store);
    snprintf(other, sizeof other, "%s/other", scratch);
    put_another_file_there(file, other);
    assert_int_equal(rename(cache, scratch_path(scratch, "away")), 0);
    write_whole(cache, "", 0); /* nothing can be created there */
    kiln_store_close(&damaged);
    assert_int_equal(close(file), 0);
    assert_int_equal(
        kilni_totals_read_file(AT_FDCWD, scratch_path(scratch, "other/stats"), &totals), KILN_OK);
    assert_int_equal(totals.counters.corrupt, 0);
}

/* A directory that replaces a removed one is checked like a directory in which a store is opened.
 */
static void test_a_link_in_a_revived_directory(void **state)
{
    (void)state;
    skip_where_chained();
    const char *other = scratch_path(scratch, "other");
    put(1);
    scratch_remove(cache);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(symlink(other, scratch_path(cache, "v1")), 0);
    assert_int_equal(scratch_put(store, 2, 1000), KILN_E_DENIED);
    assert_int_equal(count_below(other), 1);
    assert_int_equal(unlink(scratch_path(cache, "v1")), 0);
    put(2);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
}

static void test_walks_look_after_the_descriptor_too(void **state)
{
    (void)state;
    listing list = {0};
    assert_int_equal(mkdir(scratch_path(scratch, "other"), 0700), 0);
    put(1);
    int file = descriptor_of(cache);
    put_another_file_there(file, scratch_path(scratch, "other"));
    assert_int_equal(kiln_store_each(store, list_item, &list), KILN_OK);
    assert_int_equal(list.count, 1);
    close(file);

    file = descriptor_of(cache);
    put_another_file_there(file, scratch_path(scratch, "other"));
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    assert_int_equal(rmdir(scratch_path(scratch, "other")), 0); /* the directory is still empty */
    close(file);
}

static void test_the_working_directorys_descriptor_is_taken_away(void **state)
{
    (void)state;
    char before[SCRATCH_PATH_SIZE];
    kiln_store *relative = NULL;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(scratch), 0);
    assert_int_equal(kiln_store_open("./there", NULL, &relative, NULL), KILN_OK);
    assert_int_equal(mkdir(scratch_path(scratch, "other"), 0700), 0);
    int file = descriptor_of(scratch);
    put_another_file_there(file, scratch_path(scratch, "other"));
    scratch_remove(scratch_path(scratch, "there"));
    assert_int_equal(scratch_put(relative, 1, 10), KILN_E_IO);
    assert_false(exists(scratch_path(scratch, "other/there")));
    kiln_store_close(&relative);
    assert_int_equal(fcntl(file, F_GETFD), 0); /* still open */
    close(file);
    assert_int_equal(chdir(before), 0);
}

static void test_a_leases_descriptor_is_taken_away(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    int file = descriptor_of(scratch_path(cache, "lease"));
    assert_true(file >= 48); /* outside the numbers that the application uses … */
    assert_true(file < 64);  /* … in the range that a process has initially */
    put_another_file_there(file, "/dev/null");
    kiln_lease_release(&lease);
    assert_int_equal(fcntl(file, F_GETFD), 0);
    close(file);
    kiln_key_release(&key);
}

/* A thread that reopens the directory waits between two system calls until the test releases it. */
static atomic_int has_entered, may_go_on;

static int openat_that_waits(int directory, const char *path, int flags, mode_t mode)
{
    if (strcmp(path, "/") == 0) {
        atomic_store(&has_entered, 1);
        while (!atomic_load(&may_go_on)) {
            usleep(1000);
        }
    }
    return kilni_os_system()->openat(directory, path, flags, mode);
}

static void *put_one(void *status)
{
    *(kiln_status *)status = scratch_put(store, 1, 10);
    return NULL;
}

static void test_a_child_reopens_what_a_thread_of_its_parent_was_reopening(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.openat = openat_that_waits;
    pthread_t thread;
    kiln_status sent = KILN_MISS;
    atomic_store(&has_entered, 0);
    atomic_store(&may_go_on, 0);
    kiln_store *lost = NULL;
    assert_int_equal(open_with(scratch_path(scratch, "lost"), 0, 0, &lost, NULL), KILN_OK);
    const int file = descriptor_of(scratch_path(scratch, "lost"));
    assert_int_equal(mkdir(scratch_path(scratch, "other"), 0700), 0);
    put_another_file_there(file, scratch_path(scratch, "other"));
    scratch_remove(cache);
    kilni_os_replace(&table);
    assert_int_equal(pthread_create(&thread, NULL, put_one, &sent), 0);
    while (!atomic_load(&has_entered)) {
        usleep(1000);
    }
    assert_int_equal(scratch_put(store, 2, 10), KILN_E_IO); /* while another thread reopens it */
    assert_int_equal(scratch_put(lost, 2, 10), KILN_E_IO);
    assert_int_equal(rmdir(scratch_path(scratch, "other")), 0); /* the directory is still empty */
    const pid_t child = fork();
    if (child == 0) {
        kilni_os_replace(NULL);
        _exit(scratch_put(store, 2, 10) == KILN_OK ? 0 : 1);
    }
    int wait_status = -1;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    atomic_store(&may_go_on, 1);
    pthread_join(thread, NULL);
    kilni_os_replace(NULL);
    assert_int_equal(wait_status, 0);
    assert_int_equal(sent, KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    kiln_store_close(&lost);
    assert_int_equal(close(file), 0);
}

/* ---- locations ---- */

static void expect_open(const char *location, kiln_status expected, const char *text)
{
    kiln_store *opened = NULL;
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = kiln_store_open(location, NULL, &opened, &error);
    kiln_store_close(&opened);
    assert_int_equal(status, expected);
    if (text) {
        assert_non_null(strstr(error.text, text));
    }
}

static void test_locations(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE * 2];
    expect_open(NULL, KILN_E_INVALID, "no location");
    expect_open("", KILN_E_INVALID, "no location");
    expect_open("cache", KILN_E_PARSE, "\"cache\"");
    expect_open("gopher://host", KILN_E_UNSUPPORTED, "\"gopher\"");
    expect_open("file:tmp", KILN_E_PARSE, "file:tmp");
    expect_open("file:./tmp", KILN_E_PARSE, "file:./tmp");
    expect_open("file:", KILN_E_PARSE, "file:///path");
    expect_open("file://", KILN_E_PARSE, "file:///path");
    expect_open("file://host/path", KILN_E_PARSE, "file://host/path");
    const struct {
        const char *options;
        kiln_status status;
        const char *text;
    } cases[] = {
        {"", KILN_OK, NULL},
        {"?max-size=2G&readonly=0&sync=1&lease=off&stamp=60&layout=kiln", KILN_OK, NULL},
        {"?max-size=3X", KILN_E_PARSE, "max-size=3X"},
        {"?max-size=", KILN_E_PARSE, "max-size="},
        {"?max-size", KILN_E_PARSE, "max-size"},
        {"?readonly=yes", KILN_E_PARSE, "readonly=yes"},
        {"?lease=1", KILN_E_PARSE, "lease=1"},
        {"?stamp=1K", KILN_E_PARSE, "stamp=1K"},
        {"?stamp=99999999999", KILN_E_PARSE, "stamp"},
        {"?sync=1&sync=1", KILN_E_PARSE, "twice"},
        {"?colour=red", KILN_E_UNSUPPORTED, "\"colour\""},
        {"?", KILN_E_PARSE, ""},
        {"?layout=sycl", KILN_OK, NULL},
        {"?layout=onednn", KILN_OK, NULL},
        {"?layout=onednn&backend=level_zero", KILN_OK, NULL},
        {"?backend=opencl&layout=onednn", KILN_OK, NULL},
        {"?layout=maple", KILN_E_UNSUPPORTED, "layout=maple"},
        {"?layout=", KILN_E_UNSUPPORTED, "layout="},
        {"?layout=Kiln", KILN_E_UNSUPPORTED, "layout=Kiln"},
        {"?backend=opencl", KILN_E_UNSUPPORTED, "backend=opencl"},
        {"?layout=sycl&backend=opencl", KILN_E_UNSUPPORTED, "backend=opencl"},
        {"?layout=onednn&backend=", KILN_E_PARSE, "backend="},
        {"?layout=onednn&backend=..", KILN_E_PARSE, "backend=.."},
        {"?layout=onednn&backend=a%2fb", KILN_E_PARSE, "backend=a/b"},
        {"?layout=onednn&backend=v1", KILN_E_PARSE, "and not v1"},
        {"?layout=onednn&backend=abcdefabcdefabcdefabcdefabcdefab", KILN_E_PARSE, "backend="},
        {"%4", KILN_E_PARSE, "%4"},
        {"%00", KILN_E_PARSE, "%00"},
        {"%zz", KILN_E_PARSE, "%zz"},
        {"#top", KILN_E_UNSUPPORTED, "#"},
        {"|", KILN_E_PARSE, "empty tier"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(url, sizeof url, "file://%s/by-url%s", scratch, cases[i].options);
        expect_open(url, cases[i].status, cases[i].text);
    }
    snprintf(url, sizeof url, "file://%s/a%%20b%%3fc", scratch);
    expect_open(url, KILN_OK, NULL);
    assert_true(exists(scratch_path(scratch, "a b?c")));
    snprintf(url, sizeof url, "file:%s/one%%20slash?readonly=0", scratch);
    expect_open(url, KILN_OK, NULL);
    assert_true(exists(scratch_path(scratch, "one slash")));
    expect_open(scratch_path(scratch, "plain%20?name"), KILN_OK, NULL);
    assert_true(exists(scratch_path(scratch, "plain%20?name")));
}

static void test_a_url_overrides_parameters(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE * 2];
    kiln_store_close(&store);
    snprintf(url, sizeof url, "file://%s?max-size=100000&readonly=0", cache);
    assert_int_equal(open_with(url, 5000, KILN_STORE_READONLY, &store, NULL), KILN_OK);
    assert_int_equal(get_stat().max_bytes, 100000);
    assert_int_equal(scratch_put(store, 1, 50000), KILN_OK);
}

static void test_parameters_of_other_versions(void **state)
{
    (void)state;
    struct {
        kiln_store_params params;
        uint64_t later;
    } longer = {.params = {.struct_size = sizeof longer, .max_bytes = 12345}};
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(cache, &longer.params, &store, NULL), KILN_OK);
    assert_int_equal(get_stat().max_bytes, 12345);
    kiln_store_close(&store);
    longer.later = 1;
    assert_int_equal(kiln_store_open(cache, &longer.params, &store, NULL), KILN_E_UNSUPPORTED);
    kiln_store_params shorter = {
        .struct_size = offsetof(kiln_store_params, flags), .max_bytes = 777, .flags = 0xffffffffu};
    assert_int_equal(kiln_store_open(cache, &shorter, &store, NULL), KILN_OK);
    assert_int_equal(get_stat().max_bytes, 777);
    kiln_store_close(&store);
    assert_int_equal(open_with(cache, 0, 0x80000000u, &store, NULL), KILN_E_UNSUPPORTED);
    shorter.struct_size = 0;
    assert_int_equal(kiln_store_open(cache, &shorter, &store, NULL), KILN_E_INVALID);
}

static void count_line(void *user, kiln_log_level level, const char *text)
{
    assert_int_equal(level, KILN_LOG_WARNING);
    assert_non_null(strstr(text, "not trusted"));
    ++*(int *)user;
}

static void test_the_log_reports_it_once(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    int lines = 0;
    const kiln_store_params params = {
        .struct_size = sizeof params, .log = {count_line, &lines}, .layout = scratch_layout};
    put(1);
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(cache, &params, &store, NULL), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    assert_int_equal(lines, 1);
}

/* ---- statistics files ---- */

static void test_statistics_files(void **state)
{
    (void)state;
    const char *path = scratch_path(scratch, "statistics");
    const kiln_stats delta = {.hits_memory = 1, .saved_ns = 5};
    kiln_stats stats = {0};
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_MISS);
    assert_int_equal(kiln_stats_read_file(NULL, &stats), KILN_E_INVALID);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
    assert_int_equal(stats.hits_memory, 2);
    assert_int_equal(stats.saved_ns, 10);
    assert_int_equal(stats.misses, 0);
    assert_int_equal(kiln_stats_add_to_file(scratch_path(scratch, "no/such"), &delta), KILN_E_IO);
}

static void test_damaged_statistics_files(void **state)
{
    (void)state;
    const char *path = scratch_path(scratch, "statistics");
    const kiln_stats delta = {.hits_memory = 1};
    kiln_stats stats = {0};
    unsigned char *bytes;
    size_t size;
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    read_whole(path, &bytes, &size);
    for (size_t i = 8; i < size; i++) {
        bytes[i] ^= 1;
        write_whole(path, bytes, size);
        bytes[i] ^= 1;
        assert_int_equal(kiln_stats_read_file(path, &stats), KILN_E_CORRUPT);
    }
    for (size_t length = 9; length < size; length++) {
        write_whole(path, bytes, length);
        assert_int_equal(kiln_stats_read_file(path, &stats), KILN_E_CORRUPT);
        assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
        assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
        assert_int_equal(stats.hits_memory, 1);
    }
    unsigned char longer[1024] = {0};
    memcpy(longer, bytes, size);
    write_whole(path, longer, size + 10);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_E_CORRUPT);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
    free(bytes);
    const unsigned char zeros[64] = {0};
    write_whole(path, zeros, sizeof zeros);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
    assert_int_equal(stats.hits_memory, 0);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
    assert_int_equal(stats.hits_memory, 1);
}

static void test_other_files_than_statistics(void **state)
{
    (void)state;
    const char *path = scratch_path(scratch, "letter");
    const char *link = scratch_path(scratch, "link");
    const kiln_stats delta = {.hits_memory = 1};
    kiln_stats stats;
    unsigned char *bytes;
    size_t size;
    write_whole(path, "Dear reader", 11);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_E_CORRUPT);
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_E_CORRUPT);
    read_whole(path, &bytes, &size);
    assert_int_equal(size, 11);
    assert_memory_equal(bytes, "Dear reader", 11);
    free(bytes);
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_int_equal(kiln_stats_add_to_file(link, &delta), KILN_E_DENIED);
    assert_false(exists(scratch_path(scratch, "elsewhere")));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_E_DENIED);
    assert_int_equal(mkfifo(scratch_path(scratch, "fifo"), 0600), 0);
    assert_int_equal(kiln_stats_add_to_file(scratch_path(scratch, "fifo"), &delta), KILN_E_DENIED);
}

/* A later version appends fields, which this version must preserve. */
static void test_later_statistics_files(void **state)
{
    (void)state;
    static const unsigned char later[] = "\x11\x22\x33\x44\x55\x66\x77\x88";
    const char *path = scratch_path(scratch, "statistics");
    const kiln_stats delta = {.hits_memory = 1};
    const kilni_totals_change none = {0};
    unsigned char *bytes;
    unsigned char grown[1024];
    size_t size;
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    read_whole(path, &bytes, &size);
    assert_memory_equal(bytes, "KILNSTAT\x01\0\0\0", 12);
    assert_int_equal(bytes[12], 2 + KILNI_STATS_COUNT);
    assert_int_equal(size, 16 + 8 * (2 + KILNI_STATS_COUNT) + 8);
    assert_int_equal(bytes[16 + 8 * 2], 1); /* hits_memory, the first field after the sizes */
    memcpy(grown, bytes, size - 8);
    grown[12]++;
    memcpy(grown + size - 8, later, 8);
    kiln_digest sum = kilni_hash(grown, size);
    for (int i = 0; i < 8; i++) {
        grown[size + (size_t)i] = sum.bytes[i];
    }
    write_whole(path, grown, size + 8);
    free(bytes);
    kiln_stats stats;
    assert_int_equal(kiln_stats_read_file(path, &stats), KILN_OK);
    assert_int_equal(stats.hits_memory, 1);
    assert_int_equal(kiln_stats_add_to_file(path, &delta), KILN_OK);
    assert_int_equal(kilni_totals_change_file(AT_FDCWD, path, &none, NULL), KILN_OK);
    read_whole(path, &bytes, &size);
    assert_memory_equal(bytes + size - 16, later, 8);
    assert_int_equal(bytes[16 + 8 * 2], 2);
    free(bytes);
}

/* ---- threads ---- */

#define THREADS 4
#define THREAD_KEYS 8
#define THREAD_ROUNDS 100

static void *work(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    uint64_t failures = 0;
    for (uint64_t i = 0; i < THREAD_ROUNDS; i++) {
        uint64_t number = scratch_mix(seed * 1000 + i) % THREAD_KEYS;
        kiln_status got = scratch_get(store, number);
        kiln_status sent = scratch_put(store, number, 500 + number * 100);
        failures += (got != KILN_OK && got != KILN_MISS) || sent != KILN_OK;
        if (i % 20 == 0) {
            kiln_status trimmed = trim_to(store, 10000, NULL);
            failures += trimmed != KILN_OK && trimmed != KILN_BUSY;
        }
    }
    return (void *)(uintptr_t)failures;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
    assert_int_equal(verify().corrupt, 0);
    assert_int_equal(get_stat().totals.puts, THREADS * THREAD_ROUNDS);
}

static void *work_on(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < THREAD_ROUNDS; i++) {
        uint64_t number = scratch_mix(seed * 1000 + i) % THREAD_KEYS;
        scratch_put(store, number, 500 + number * 100);
        wrong += scratch_get(store, number) == KILN_E_REFUSED;
    }
    return (void *)(uintptr_t)wrong;
}

static void test_threads_while_the_directory_is_removed(void **state)
{
    (void)state;
    unsigned descriptors = scratch_count_descriptors();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work_on, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 50; i++) {
        scratch_remove(cache);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(scratch_count_descriptors(), descriptors);
    put(1);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(verify().corrupt, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    /* The guarantees of every store, in each layout. */
    const struct CMUnitTest of_every_layout[] = {
        TEST(test_put_and_get),
        TEST(test_entries_outlive_the_handle),
        TEST(test_contains_and_remove),
        TEST(test_put_replaces),
        TEST(test_each),
        TEST(test_items_are_read_and_removed),
        TEST(test_an_item_that_was_replaced_stays),
        TEST(test_requests_are_listed_alone),
        TEST(test_requests_are_trimmed_too),
        TEST(test_lease),
        TEST(test_a_waiter_gets_the_lease),
        TEST(test_no_lease),
        TEST(test_totals),
        TEST(test_every_flipped_byte_is_found),
        TEST(test_every_truncation_is_found),
        TEST(test_damage_is_counted_and_replaced),
        TEST(test_damage_is_counted_without_a_put),
        TEST(test_a_file_writable_by_others),
        TEST(test_no_create),
        TEST(test_a_readonly_store_writes_nothing),
        TEST(test_a_readonly_store_of_root),
        TEST(test_trim_removes_what_was_used_least_recently),
        TEST(test_a_get_is_a_use),
        TEST(test_uses_are_recorded_once_an_interval),
        TEST(test_the_size_is_known_without_counting),
        TEST(test_a_put_makes_room),
        TEST(test_one_entry_may_fill_the_store),
        TEST(test_a_store_of_size_zero),
        TEST(test_lost_totals_are_recounted),
        TEST(test_room_is_made_without_totals),
        TEST(test_one_janitor_at_a_time),
        TEST(test_leftovers_of_dead_writers),
        TEST(test_leftovers_were_never_counted),
        TEST(test_a_full_disk),
        TEST(test_the_directory_is_removed_while_it_is_open),
        TEST(test_removals_leak_no_descriptors),
        TEST(test_the_directorys_descriptor_is_taken_away),
        TEST(test_directory_of_another_store_is_left_alone),
        TEST(test_damage_is_not_counted_in_another_stores_directory),
        TEST(test_a_link_in_a_revived_directory),
        TEST(test_walks_look_after_the_descriptor_too),
        TEST(test_the_working_directorys_descriptor_is_taken_away),
        TEST(test_a_leases_descriptor_is_taken_away),
        TEST(test_a_child_reopens_what_a_thread_of_its_parent_was_reopening),
        TEST(test_the_log_reports_it_once),
        TEST(test_threads),
        TEST(test_threads_while_the_directory_is_removed),
    };
    const struct CMUnitTest of_kiln[] = {
        TEST(test_a_put_makes_few_system_calls),
        TEST(test_no_store),
        TEST(test_wrong_arguments),
        TEST(test_another_key_of_the_same_digest),
        TEST(test_a_newer_entry_stays),
        TEST(test_an_entry_with_unknown_flags_stays),
        TEST(test_a_later_layouts_folder_is_not_touched),
        TEST(test_flipped_bytes_of_a_large_entry_are_found),
        TEST(test_other_kinds_of_files_in_an_entrys_place),
        TEST(test_layout),
        TEST(test_parents_are_made),
        TEST(test_modes_do_not_depend_on_the_umask),
        TEST(test_modes_of_other_files_stay),
        TEST(test_no_tag_in_the_directory_of_a_different_program),
        TEST(test_hostile_directories),
        TEST(test_links_above),
        TEST(test_a_directory_of_a_different_user),
        TEST(test_a_link_in_the_place_of_the_entries),
        TEST(test_relative_locations),
        TEST(test_foreign_files_are_untouched),
        TEST(test_locations),
        TEST(test_a_url_overrides_parameters),
        TEST(test_parameters_of_other_versions),
        TEST(test_statistics_files),
        TEST(test_damaged_statistics_files),
        TEST(test_other_files_than_statistics),
        TEST(test_later_statistics_files),
    };
    int failures = cmocka_run_group_tests_name("of layout kiln", of_kiln, NULL, NULL);
    static const char *const layouts[] = {"kiln", "sycl", "onednn"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        scratch_layout = layouts[i];
        failures += cmocka_run_group_tests_name(layouts[i], of_every_layout, NULL, NULL);
    }
    scratch_layout = "kiln";
    is_chained = true;
    failures += cmocka_run_group_tests_name("a chain", of_every_layout, NULL, NULL);
    return failures;
}
