/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the tiers of a chain have queues of their own: a tier that is stuck delays no other
 * tier. A gate stops each thread that publishes an entry in a directory whose name begins with
 * "slow".
 */
#include "support/store_scene.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "os/os.h"
#include "store/store.h"
#include "store/writer.h"
#include "support/failing_malloc.h"

#define FOREVER_NS UINT64_MAX
#define QUEUE_BYTES 100000u
#define TIERS_MAX 3

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char statistics[SCRATCH_DIRECTORY_SIZE + 16];
static kiln_store *store;
static kilni_writer *writer;

/* ---- the gate ---- */

/* Guards the variables below. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_is_closed;
static unsigned waiting_at_gate;

static bool is_of_slow_tier(int folder)
{
    char link[64], path[SCRATCH_PATH_SIZE] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/slow");
}

static int gated_renameat(int from, const char *old_path, int to, const char *new_path)
{
    if (strlen(new_path) == KILN_DIGEST_TEXT_SIZE - 1 && is_of_slow_tier(to)) {
        pthread_mutex_lock(&gate_lock);
        waiting_at_gate++;
        pthread_cond_broadcast(&gate_changed);
        while (gate_is_closed) {
            pthread_cond_wait(&gate_changed, &gate_lock);
        }
        waiting_at_gate--;
        pthread_mutex_unlock(&gate_lock);
    }
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

/* Incremented with release order, and loaded with acquire order by a thread that waits for threads
 * that it can't join. */
static _Atomic unsigned closed_count;

static int counted_close(int file)
{
    const int result = kilni_os_system()->close(file);
    atomic_fetch_add_explicit(&closed_count, 1, memory_order_release);
    return result;
}

static void set_gate(bool is_closed)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_closed = is_closed;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

static void wait_for_threads_at_the_gate(unsigned count)
{
    pthread_mutex_lock(&gate_lock);
    while (waiting_at_gate < count) {
        pthread_cond_wait(&gate_changed, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
}

/* ---- the scene ---- */

static int set_up(void **state)
{
    (void)state;
    static kilni_os_table table;
    table = *kilni_os_system();
    table.renameat = gated_renameat;
    table.close = counted_close;
    kilni_os_replace(&table);
    gate_is_closed = false;
    waiting_at_gate = 0;
    scratch_make(scratch);
    snprintf(statistics, sizeof statistics, "%s/statistics", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    set_gate(false);
    kilni_writer_free(&writer, FOREVER_NS);
    kiln_store_close(&store);
    kilni_os_replace(NULL);
    scratch_remove(scratch);
    return 0;
}

/* Opens a chain of directories, and creates its writer. */
static void open_tiers(const char *const names[TIERS_MAX], const kiln_store_params *params)
{
    char location[TIERS_MAX * SCRATCH_PATH_SIZE] = "";
    for (size_t i = 0; i < TIERS_MAX && names[i]; i++) {
        const size_t length = strlen(location);
        snprintf(location + length, sizeof location - length, "%sfile://%s/%s", i > 0 ? "|" : "",
                 scratch, names[i]);
    }
    assert_int_equal(kiln_store_open(location, params, &store, NULL), KILN_OK);
    assert_int_equal(kilni_writer_new(store, QUEUE_BYTES, &writer), KILN_OK);
    assert_int_equal(kilni_writer_set_stats_file(writer, statistics), KILN_OK);
}

static void open_slow_and_fast(void)
{
    open_tiers((const char *const[TIERS_MAX]){"slow", "fast"}, NULL);
}

static kiln_status put(uint64_t number, size_t size, kiln_lease **lease)
{
    kiln_entry *entry = scratch_entry(number, size);
    kiln_status status = kilni_writer_put(writer, entry, lease);
    kiln_entry_release(&entry);
    return status;
}

static kiln_status look_in(const char *name, uint64_t number)
{
    kiln_store *tier = NULL;
    assert_int_equal(kiln_store_open(scratch_path(scratch, name), NULL, &tier, NULL), KILN_OK);
    const kiln_status status = scratch_get(tier, number);
    kiln_store_close(&tier);
    return status;
}

/* Waits until a directory has an entry. */
static void wait_for_entry(const char *name, uint64_t number)
{
    for (int i = 0; i < 30000 && look_in(name, number) != KILN_OK; i++) {
        usleep(1000);
    }
    assert_int_equal(look_in(name, number), KILN_OK);
}

static void drain(void)
{
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
}

static kiln_stats read_statistics(void)
{
    kiln_stats stats = {0};
    assert_int_equal(kiln_stats_read_file(statistics, &stats), KILN_OK);
    return stats;
}

typedef struct seen_tiers {
    size_t count;
    uint64_t puts[TIERS_MAX], dropped[TIERS_MAX];
} seen_tiers;

static void take_tier(void *user, const kiln_tier_info *info)
{
    seen_tiers *seen = user;
    seen->puts[seen->count] = info->puts;
    seen->dropped[seen->count++] = info->dropped;
}

static seen_tiers look_at_tiers(void)
{
    seen_tiers seen = {0};
    assert_int_equal(kiln_store_each_tier(store, take_tier, &seen), KILN_OK);
    return seen;
}

/* ---- queues ---- */

static void test_a_stuck_tier_delays_no_other(void **state)
{
    (void)state;
    open_slow_and_fast();
    set_gate(true);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(put(i, 1000, NULL), KILN_OK);
    }
    for (uint64_t i = 0; i < 20; i++) {
        wait_for_entry("fast", i);
    }
    assert_int_equal(kilni_writer_drain(writer, 1000000), KILN_TIMEOUT);
    set_gate(false);
    drain();
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(look_in("slow", i), KILN_OK);
    }
    assert_int_equal(read_statistics().puts, 20);
    assert_int_equal(read_statistics().dropped, 0);
    assert_int_equal(look_at_tiers().puts[0], 20);
    assert_int_equal(look_at_tiers().puts[1], 20);
}

/* The entry is in the last tier, and is copied to the others. */
static void test_a_stuck_tier_delays_no_fill(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow", "fast", "low"}, NULL);
    kiln_store *low = NULL;
    kiln_entry *entry = NULL;
    kiln_key *key = scratch_key(1);
    size_t fill = 0;
    assert_int_equal(kiln_store_open(scratch_path(scratch, "low"), NULL, &low, NULL), KILN_OK);
    assert_int_equal(scratch_put(low, 1, 1000), KILN_OK);
    assert_int_equal(kilni_store_find(store, key, NULL, false, &entry, &fill), KILN_OK);
    set_gate(true);
    kilni_writer_fill(writer, fill, key, entry);
    wait_for_entry("fast", 1);
    assert_int_equal(look_in("slow", 1), KILN_MISS);
    set_gate(false);
    drain();
    assert_int_equal(look_in("slow", 1), KILN_OK);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_store_close(&low);
}

static void test_each_queue_has_its_own_bound(void **state)
{
    (void)state;
    open_slow_and_fast();
    set_gate(true);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(put(i, 30000, NULL), KILN_OK);
        wait_for_entry("fast", i);
    }
    assert_int_equal(put(10, 1000, NULL), KILN_OK);
    set_gate(false);
    drain();
    for (uint64_t i = 0; i < 11; i++) {
        assert_int_equal(look_in("fast", i), KILN_OK);
        assert_int_equal(look_in("slow", i), i < 3 || i == 10 ? KILN_OK : KILN_MISS);
    }
    /* Each entry was stored by one tier at least. */
    assert_int_equal(read_statistics().puts, 11);
    assert_int_equal(read_statistics().dropped, 0);
    assert_int_equal(look_at_tiers().dropped[0], 7);
    assert_int_equal(look_at_tiers().dropped[1], 0);
}

static void test_an_entry_that_no_queue_takes(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow-1", "slow-2"}, NULL);
    set_gate(true);
    assert_int_equal(put(1, QUEUE_BYTES, NULL), KILN_OK);
    kiln_key *key = scratch_key(2);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(put(2, 1000, &lease), KILN_E_FULL);
    assert_null(lease);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    set_gate(false);
    drain();
    assert_int_equal(read_statistics().puts, 1);
    assert_int_equal(read_statistics().dropped, 1);
    assert_int_equal(look_at_tiers().dropped[0], 1);
    assert_int_equal(look_at_tiers().dropped[1], 1);
}

static void test_a_chain_that_is_not_written(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow?write=none", "fast?write=none"}, NULL);
    assert_int_equal(put(1, 1000, NULL), KILN_E_READONLY);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().dropped, 1);
}

/* ---- tiers that depend on others ---- */

/* Puts a file in the place of an entry's folder, so that the entry can't be written. */
static void block_entry(const char *name, uint64_t number)
{
    char directory[SCRATCH_DIRECTORY_SIZE + 8], folder[SCRATCH_PATH_SIZE];
    snprintf(directory, sizeof directory, "%s/%s", scratch, name);
    assert_int_equal(mkdir(scratch_path(directory, "v1"), 0700), 0);
    scratch_entry_folder(directory, number, folder);
    FILE *file = fopen(folder, "wx");
    assert_non_null(file);
    fclose(file);
}

/* The last tier stores the entry before the first one has answered. */
static void test_write_first_waits_for_the_tiers_above(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow", "spare?write=first", "fast"}, NULL);
    block_entry("slow", 2);
    set_gate(true);
    assert_int_equal(put(1, 1000, NULL), KILN_OK);
    assert_int_equal(put(2, 1000, NULL), KILN_OK);
    wait_for_entry("fast", 2);
    assert_int_equal(look_in("spare", 1), KILN_MISS);
    assert_int_equal(look_in("spare", 2), KILN_MISS);
    set_gate(false);
    drain();
    assert_int_equal(look_in("slow", 1), KILN_OK);
    assert_int_equal(look_in("spare", 1), KILN_MISS);
    assert_int_equal(look_in("slow", 2), KILN_MISS);
    assert_int_equal(look_in("spare", 2), KILN_OK);
    assert_int_equal(read_statistics().puts, 2);
}

static void test_write_first_gets_what_a_full_queue_drops(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow", "spare?write=first"}, NULL);
    set_gate(true);
    assert_int_equal(put(1, QUEUE_BYTES, NULL), KILN_OK);
    assert_int_equal(put(2, 1000, NULL), KILN_OK);
    wait_for_entry("spare", 2);
    set_gate(false);
    drain();
    assert_int_equal(look_in("slow", 2), KILN_MISS);
    assert_int_equal(look_in("spare", 1), KILN_MISS);
    assert_int_equal(read_statistics().puts, 2);
}

static int count_item(void *user, kiln_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

static unsigned count_requests_in(const char *name)
{
    kiln_store *tier = NULL;
    unsigned count = 0;
    assert_int_equal(kiln_store_open(scratch_path(scratch, name), NULL, &tier, NULL), KILN_OK);
    assert_int_equal(kiln_store_each_request(tier, count_item, &count), KILN_OK);
    kiln_store_close(&tier);
    return count;
}

static void test_a_request_goes_to_one_tier(void **state)
{
    (void)state;
    open_slow_and_fast();
    kiln_entry *request = scratch_request(1);
    assert_int_equal(kilni_writer_put(writer, request, NULL), KILN_OK);
    kiln_entry_release(&request);
    drain();
    assert_int_equal(count_requests_in("slow"), 1);
    assert_int_equal(count_requests_in("fast"), 0);
}

/* ---- leases ---- */

static void test_the_lease_ends_when_a_tier_has_the_entry(void **state)
{
    (void)state;
    open_slow_and_fast();
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(1, 1000, &lease), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, FOREVER_NS, &lease), KILN_OK);
    assert_int_equal(look_in("fast", 1), KILN_OK);
    assert_int_equal(look_in("slow", 1), KILN_MISS);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
}

static void test_the_lease_is_held_while_no_tier_has_the_entry(void **state)
{
    (void)state;
    open_slow_and_fast();
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL, *second = NULL;
    block_entry("fast", 1);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(1, 1000, &lease), KILN_OK);
    wait_for_threads_at_the_gate(1);
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
    set_gate(false);
    assert_int_equal(kiln_store_lease(store, key, FOREVER_NS, &second), KILN_OK);
    assert_int_equal(look_in("slow", 1), KILN_OK);
    kiln_lease_release(&second);
    kiln_key_release(&key);
}

/* ---- the end ---- */

/* Opens the gate as soon as the lease of a dropped entry is released. */
static void *open_gate_after_the_drop(void *key)
{
    kiln_lease *lease = NULL;
    kiln_store_lease(store, key, FOREVER_NS, &lease);
    kiln_lease_release(&lease);
    set_gate(false);
    return NULL;
}

/* One timeout is for all tiers, and what then still waits is dropped in all of them. */
static void test_free_drops_what_is_left_in_all_queues(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow-1", "slow-2", "spare?write=first"}, NULL);
    pthread_t opener;
    kiln_key *key = scratch_key(2);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    wait_for_threads_at_the_gate(2);
    assert_int_equal(put(2, 10, &lease), KILN_OK);
    assert_int_equal(put(3, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, 1000000), KILN_TIMEOUT);
    assert_int_equal(pthread_create(&opener, NULL, open_gate_after_the_drop, key), 0);
    kilni_writer_free(&writer, 0);
    pthread_join(opener, NULL);
    assert_int_equal(look_in("slow-1", 1), KILN_OK);
    assert_int_equal(look_in("slow-2", 1), KILN_OK);
    assert_int_equal(look_in("slow-1", 2), KILN_MISS);
    assert_int_equal(look_in("slow-2", 3), KILN_MISS);
    assert_int_equal(look_in("spare", 3), KILN_MISS);
    assert_int_equal(read_statistics().puts, 1);
    assert_int_equal(read_statistics().dropped, 2);
    const seen_tiers seen = look_at_tiers();
    assert_int_equal(seen.dropped[0], 2);
    assert_int_equal(seen.dropped[1], 2);
    assert_int_equal(seen.dropped[2], 2);
    kiln_key_release(&key);
}

/* The process may end now, and no thread of the writer could write the counts. */
static void test_a_drain_that_times_out_writes_the_counts(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"slow"}, NULL);
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    wait_for_threads_at_the_gate(1);
    const kiln_stats delta = {.hits_memory = 3};
    kilni_writer_count(writer, &delta);
    assert_int_equal(kilni_writer_drain(writer, 1000000), KILN_TIMEOUT);
    assert_int_equal(read_statistics().hits_memory, 3);
    assert_int_equal(read_statistics().puts, 0);
    set_gate(false);
    drain();
    assert_int_equal(read_statistics().hits_memory, 3);
    assert_int_equal(read_statistics().puts, 1);
}

/* The log callback frees the writer on the thread of one tier. The other tier's thread still has
 * entries to write. */
static _Atomic bool has_closed;

static void close_writer(void *user, kiln_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
    wait_for_threads_at_the_gate(1);
    kilni_writer_close(&writer, FOREVER_NS);
    atomic_store(&has_closed, true);
}

static unsigned count_threads(void)
{
    DIR *listing = opendir("/proc/self/task");
    unsigned count = 0;
    while (readdir(listing)) {
        count++;
    }
    closedir(listing);
    return count;
}

static void test_a_writer_freed_by_the_thread_of_a_tier(void **state)
{
    (void)state;
    const kiln_store_params params = {.struct_size = sizeof params, .log = {close_writer, NULL}};
    const unsigned threads = count_threads(), descriptors = scratch_count_descriptors();
    open_tiers((const char *const[TIERS_MAX]){"slow", "fast"}, &params);
    atomic_store(&has_closed, false);
    block_entry("fast", 1);
    set_gate(true);
    for (uint64_t i = 2; i < 6; i++) {
        assert_int_equal(put(i, 10, NULL), KILN_OK);
    }
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    while (!atomic_load(&has_closed)) {
        usleep(1000);
    }
    assert_null(writer);
    set_gate(false);
    for (int i = 0; i < 30000 && count_threads() != threads; i++) {
        usleep(1000);
    }
    assert_int_equal(count_threads(), threads);
    assert_true(atomic_load_explicit(&closed_count, memory_order_acquire) > 0);
    assert_int_equal(scratch_count_descriptors(), descriptors);
    store = NULL;
    for (uint64_t i = 1; i < 6; i++) {
        assert_int_equal(look_in("slow", i), KILN_OK);
    }
}

static int use_in_child(void)
{
    if (put(9, 10, NULL) != KILN_E_FULL || kilni_writer_drain(writer, FOREVER_NS) != KILN_OK) {
        return 1;
    }
    kilni_writer_free(&writer, FOREVER_NS);
    kiln_store_close(&store); /* writes the counts of the tiers */
    return 0;
}

static void test_fork_while_a_tier_is_stuck(void **state)
{
    (void)state;
    open_slow_and_fast();
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    assert_int_equal(put(2, 10, NULL), KILN_OK);
    wait_for_threads_at_the_gate(1);
    wait_for_entry("fast", 2);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        _exit(use_in_child());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(look_in("slow", 2), KILN_MISS);
    set_gate(false);
    drain();
    assert_int_equal(look_in("slow", 2), KILN_OK);
    assert_int_equal(look_in("fast", 9), KILN_MISS);
    assert_int_equal(read_statistics().puts, 2);
    assert_int_equal(look_at_tiers().dropped[0], 0);
}

/* ---- all at once ---- */

#define THREADS 4
#define ROUNDS 100

static void *put_many(void *argument)
{
    const uint64_t first = (uint64_t)(uintptr_t)argument * ROUNDS;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        put(first + i, 100, NULL);
        if (i % 20 == 0) {
            kilni_writer_drain(writer, 1000000);
        }
    }
    return NULL;
}

static void test_many_threads_put_into_three_tiers(void **state)
{
    (void)state;
    open_tiers((const char *const[TIERS_MAX]){"a", "spare?write=first", "c"}, NULL);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    drain();
    const seen_tiers seen = look_at_tiers();
    const kiln_stats stats = read_statistics();
    assert_int_equal(stats.puts + stats.dropped, THREADS * ROUNDS);
    assert_int_equal(seen.puts[0] + seen.dropped[0], THREADS * ROUNDS);
    assert_int_equal(seen.puts[2] + seen.dropped[2], THREADS * ROUNDS);
    assert_true(seen.puts[1] <= seen.dropped[0]);
}

static void test_lack_of_memory(void **state)
{
    (void)state;
    open_slow_and_fast();
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_entry *entry = scratch_entry(1, 10);
    failing_malloc_arm(1);
    const kiln_status status = kilni_writer_put(writer, entry, &lease);
    failing_malloc_disarm();
    assert_int_equal(status, KILN_E_NO_MEMORY);
    assert_null(lease);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    drain();
    assert_int_equal(read_statistics().dropped, 1);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_stuck_tier_delays_no_other),
        TEST(test_a_stuck_tier_delays_no_fill),
        TEST(test_each_queue_has_its_own_bound),
        TEST(test_an_entry_that_no_queue_takes),
        TEST(test_a_chain_that_is_not_written),
        TEST(test_write_first_waits_for_the_tiers_above),
        TEST(test_write_first_gets_what_a_full_queue_drops),
        TEST(test_a_request_goes_to_one_tier),
        TEST(test_the_lease_ends_when_a_tier_has_the_entry),
        TEST(test_the_lease_is_held_while_no_tier_has_the_entry),
        TEST(test_free_drops_what_is_left_in_all_queues),
        TEST(test_a_drain_that_times_out_writes_the_counts),
        TEST(test_a_writer_freed_by_the_thread_of_a_tier),
        TEST(test_fork_while_a_tier_is_stuck),
        TEST(test_many_threads_put_into_three_tiers),
        TEST(test_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
