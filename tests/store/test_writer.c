/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the writer's thread. A test can pause this thread with a gate, which replaces the system
 * call that publishes an entry.
 */
#include "support/store_scene.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

#include "os/os.h"
#include "store/store.h"
#include "store/writer.h"

#define FOREVER_NS UINT64_MAX
#define QUEUE_BYTES 100000u

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char cache[SCRATCH_DIRECTORY_SIZE + 8];
static char statistics[SCRATCH_DIRECTORY_SIZE + 16];
static kiln_store *store;
static kilni_writer *writer;

/* ---- the gate ---- */

/* Guards the variables below. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_is_closed;
static long publishing_ns; /* the least time that publishing takes */
static unsigned waiting_at_gate;
static char published[16][64]; /* names, in order */
static unsigned published_count;

/* Delays the renames of entries, whose names are digests, and no others. */
static int gated_renameat(int from, const char *old_path, int to, const char *new_path)
{
    if (strlen(new_path) != KILN_DIGEST_TEXT_SIZE - 1) {
        return kilni_os_system()->renameat(from, old_path, to, new_path);
    }
    pthread_mutex_lock(&gate_lock);
    waiting_at_gate++;
    pthread_cond_broadcast(&gate_changed);
    while (gate_is_closed) {
        pthread_cond_wait(&gate_changed, &gate_lock);
    }
    waiting_at_gate--;
    if (published_count < 16) {
        snprintf(published[published_count++], sizeof published[0], "%s", new_path);
    }
    const struct timespec time = {.tv_nsec = publishing_ns};
    pthread_mutex_unlock(&gate_lock);
    nanosleep(&time, NULL);
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

/* Incremented with release order, and loaded with acquire order by a thread that waits for a thread
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

static void set_publishing_ns(long time_ns)
{
    pthread_mutex_lock(&gate_lock);
    publishing_ns = time_ns;
    pthread_mutex_unlock(&gate_lock);
}

static void wait_for_someone_at_the_gate(void)
{
    pthread_mutex_lock(&gate_lock);
    while (waiting_at_gate == 0) {
        pthread_cond_wait(&gate_changed, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
}

static int set_up(void **state)
{
    (void)state;
    static kilni_os_table table;
    table = *kilni_os_system();
    table.renameat = gated_renameat;
    table.close = counted_close;
    kilni_os_replace(&table);
    gate_is_closed = false;
    waiting_at_gate = published_count = 0;
    publishing_ns = 0;
    scratch_make(scratch);
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    snprintf(statistics, sizeof statistics, "%s/statistics", scratch);
    return kiln_store_open(cache, NULL, &store, NULL) == KILN_OK &&
                   kilni_writer_new(store, QUEUE_BYTES, &writer) == KILN_OK &&
                   kilni_writer_set_stats_file(writer, statistics) == KILN_OK
               ? 0
               : -1;
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

static kiln_status put(uint64_t number, size_t size, kiln_lease **lease)
{
    kiln_entry *entry = scratch_entry(number, size);
    kiln_status status = kilni_writer_put(writer, entry, lease);
    kiln_entry_release(&entry);
    return status;
}

static kiln_stats read_statistics(void)
{
    kiln_stats stats = {0};
    assert_int_equal(kiln_stats_read_file(statistics, &stats), KILN_OK);
    return stats;
}

static kiln_stats read_totals(void)
{
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    return stat.totals;
}

static bool read_task_file(const char *task, const char *name, char *text, size_t size)
{
    char path[SCRATCH_PATH_SIZE];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    size_t count = fread(text, 1, size - 1, file);
    text[count] = '\0';
    fclose(file);
    return true;
}

/* Returns whether the writer's thread runs, and in @status the content of its file "status" in
 * /proc. */
static bool find_thread(char *status, size_t size)
{
    DIR *listing = opendir("/proc/self/task");
    bool is_there = false;
    for (const struct dirent *found = readdir(listing); found; found = readdir(listing)) {
        char name[64];
        is_there = is_there || (read_task_file(found->d_name, "comm", name, sizeof name) &&
                                strcmp(name, "kiln-writer\n") == 0 &&
                                read_task_file(found->d_name, "status", status, size));
    }
    closedir(listing);
    return is_there;
}

/* The system may list a joined thread a moment longer. */
static bool has_no_thread(void)
{
    char status[4096];
    for (int i = 0; i < 5000 && find_thread(status, sizeof status); i++) {
        usleep(1000);
    }
    return !find_thread(status, sizeof status);
}

/* ---- writing ---- */

static void test_entries_are_written(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(put(i, 1000, NULL), KILN_OK);
    }
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(scratch_get(store, i), KILN_OK);
    }
    assert_int_equal(read_statistics().puts, 20);
    assert_int_equal(read_totals().puts, 20);
    assert_int_equal(read_totals().dropped, 0);
}

static void *do_nothing(void *unused)
{
    return unused;
}

/* Must run before any test that starts a thread. */
static void test_single_threaded_puts_start_no_thread(void **state)
{
    (void)state;
    if (!__libc_single_threaded) {
        skip(); /* ThreadSanitizer has started one */
    }
    kilni_writer_spare_thread(writer);
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    assert_int_equal(put(1, 1000, &lease), KILN_OK);
    assert_null(lease);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    kiln_key_release(&key);
    assert_true(has_no_thread());
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().puts, 1);

    pthread_t another;
    assert_int_equal(pthread_create(&another, NULL, do_nothing, NULL), 0);
    pthread_join(another, NULL);
    char status[4096];
    assert_int_equal(put(2, 1000, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_true(find_thread(status, sizeof status));
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(read_statistics().puts, 2);
}

/* Runs before any test that starts a thread. */
static void test_a_fill_waits_for_a_put_or_a_drain(void **state)
{
    (void)state;
    if (!__libc_single_threaded) {
        skip();
    }
    char above[SCRATCH_PATH_SIZE], chain[2 * SCRATCH_PATH_SIZE];
    snprintf(above, sizeof above, "%s/above", scratch);
    snprintf(chain, sizeof chain, "%s|%s", above, cache);
    for (uint64_t i = 1; i < 4; i++) {
        assert_int_equal(scratch_put(store, i, 1000), KILN_OK);
    }
    kiln_store *tiers = NULL;
    kilni_writer *filler = NULL;
    assert_int_equal(kiln_store_open(chain, NULL, &tiers, NULL), KILN_OK);
    assert_int_equal(kilni_writer_new(tiers, QUEUE_BYTES, &filler), KILN_OK);
    kilni_writer_spare_thread(filler);
    kiln_store *first = NULL;
    assert_int_equal(kiln_store_open(above, NULL, &first, NULL), KILN_OK);
    for (uint64_t i = 1; i < 4; i++) {
        kiln_key *key = scratch_key(i);
        kiln_entry *entry = NULL;
        size_t fill = 0;
        assert_int_equal(kilni_store_find(tiers, key, NULL, false, &entry, &fill), KILN_OK);
        assert_int_not_equal(fill, 0);
        kilni_writer_fill(filler, fill, key, entry);
        assert_int_equal(scratch_get(first, i), KILN_MISS);
        if (i == 2) {
            kiln_entry *built = scratch_entry(9, 100);
            assert_int_equal(kilni_writer_put(filler, built, NULL), KILN_OK);
            assert_int_equal(scratch_get(first, 9), KILN_OK);
            assert_int_equal(scratch_get(first, 2), KILN_OK);
            kiln_entry_release(&built);
        }
        kiln_entry_release(&entry);
        kiln_key_release(&key);
    }
    assert_int_equal(kilni_writer_drain(filler, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(first, 3), KILN_OK);
    assert_true(has_no_thread());
    kilni_writer_free(&filler, FOREVER_NS);
    kiln_store_close(&tiers);
    kiln_store_close(&first);
}

static void test_order(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 16; i++) {
        assert_int_equal(put(i, 10, NULL), KILN_OK);
    }
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(published_count, 16);
    for (uint64_t i = 0; i < 16; i++) {
        char path[SCRATCH_PATH_SIZE];
        scratch_entry_path("", i, path);
        assert_string_equal(published[i], strrchr(path, '/') + 1);
    }
}

static void test_the_queue_is_bounded(void **state)
{
    (void)state;
    set_gate(true);
    assert_int_equal(put(0, 30000, NULL), KILN_OK);
    wait_for_someone_at_the_gate();
    assert_int_equal(put(1, 30000, NULL), KILN_OK);
    assert_int_equal(put(2, 30000, NULL), KILN_OK);
    assert_int_equal(put(3, 30000, NULL), KILN_E_FULL);
    assert_int_equal(put(4, 200000, NULL), KILN_E_FULL);
    assert_int_equal(put(5, 1000, NULL), KILN_OK);
    set_gate(false);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(scratch_get(store, 3), KILN_MISS);
    assert_int_equal(scratch_get(store, 5), KILN_OK);
    assert_int_equal(read_statistics().puts, 4);
    assert_int_equal(read_statistics().dropped, 2);
    assert_int_equal(read_totals().dropped, 2);
}

static void test_one_large_entry_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(put(1, QUEUE_BYTES * 5, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

static void test_refused_entry_is_dropped(void **state)
{
    (void)state;
    kilni_writer_free(&writer, FOREVER_NS);
    kiln_store_close(&store);
    const kiln_store_params params = {.struct_size = sizeof params, .max_bytes = 5000};
    assert_int_equal(kiln_store_open(cache, &params, &store, NULL), KILN_OK);
    assert_int_equal(kilni_writer_new(store, QUEUE_BYTES, &writer), KILN_OK);
    assert_int_equal(kilni_writer_set_stats_file(writer, statistics), KILN_OK);
    assert_int_equal(put(1, 6000, NULL), KILN_OK);
    assert_int_equal(put(2, 1000, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().dropped, 1);
    assert_int_equal(read_statistics().puts, 1);
}

static void test_leases_are_held_until_the_entry_is_stored(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    kiln_lease *second = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(1, 10, &lease), KILN_OK);
    assert_null(lease);
    wait_for_someone_at_the_gate();
    assert_int_equal(kiln_store_lease(store, key, 0, &second), KILN_BUSY);
    set_gate(false);
    assert_int_equal(kiln_store_lease(store, key, FOREVER_NS, &second), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    kiln_lease_release(&second);
    kiln_key_release(&key);
}

static void test_a_dropped_entry_frees_its_lease(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(0, QUEUE_BYTES, NULL), KILN_OK);
    assert_int_equal(put(1, 10, &lease), KILN_E_FULL);
    assert_null(lease);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    set_gate(false);
    kiln_key_release(&key);
}

/* ---- draining ---- */

static void test_a_drain_ends_in_time(void **state)
{
    (void)state;
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    wait_for_someone_at_the_gate();
    assert_int_equal(kilni_writer_drain(writer, 0), KILN_TIMEOUT);
    assert_int_equal(kilni_writer_drain(writer, 10000000), KILN_TIMEOUT);
    set_gate(false);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
}

/* Opens the gate as soon as the lease of a dropped entry is released. */
static void *open_gate_after_the_drop(void *key)
{
    kiln_lease *lease = NULL;
    kiln_store_lease(store, key, FOREVER_NS, &lease);
    kiln_lease_release(&lease);
    set_gate(false);
    return NULL;
}

static void test_free_drops_what_is_left(void **state)
{
    (void)state;
    pthread_t opener;
    kiln_key *key = scratch_key(2);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    wait_for_someone_at_the_gate();
    assert_int_equal(put(2, 10, &lease), KILN_OK);
    assert_int_equal(put(3, 10, NULL), KILN_OK);
    assert_int_equal(pthread_create(&opener, NULL, open_gate_after_the_drop, key), 0);
    kilni_writer_free(&writer, 0);
    assert_null(writer);
    pthread_join(opener, NULL);
    assert_true(has_no_thread());
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kiln_lease_release(&lease);
    assert_int_equal(read_statistics().puts, 1);
    assert_int_equal(read_statistics().dropped, 2);
    assert_int_equal(read_totals().dropped, 2);
    kilni_writer_free(&writer, 0);
    kilni_writer_free(NULL, 0);
    kiln_key_release(&key);
}

/* The log callback of this store frees the writer, on the writer's own thread. */
typedef struct self_closing {
    kilni_writer *writer;
    sem_t has_begun, may_go_on, has_ended;
} self_closing;

static void close_writer(void *user, kiln_log_level level, const char *text)
{
    (void)level, (void)text;
    self_closing *closing = user;
    sem_post(&closing->has_begun);
    sem_wait(&closing->may_go_on);
    kilni_writer_close(&closing->writer, FOREVER_NS);
    sem_post(&closing->has_ended);
}

static void assert_posted(sem_t *semaphore)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    assert_int_equal(sem_timedwait(semaphore, &end), 0);
}

static kiln_status put_to(kilni_writer *to, uint64_t number)
{
    kiln_entry *entry = scratch_entry(number, 10);
    const kiln_status status = kilni_writer_put(to, entry, NULL);
    kiln_entry_release(&entry);
    return status;
}

/* Puts a file in the place of an entry's folder, so that the entry can't be written. */
static void block_entry(const char *directory, uint64_t number)
{
    char folder[SCRATCH_PATH_SIZE];
    assert_int_equal(mkdir(scratch_path(directory, "v1"), 0700), 0);
    scratch_entry_folder(directory, number, folder);
    FILE *file = fopen(folder, "wx");
    assert_non_null(file);
    fclose(file);
}

static void test_a_writer_freed_by_its_own_thread(void **state)
{
    (void)state;
    self_closing closing = {.writer = NULL};
    const kiln_store_params params = {.struct_size = sizeof params,
                                      .log = {close_writer, &closing}};
    const unsigned descriptors = scratch_count_descriptors();
    char folder[SCRATCH_DIRECTORY_SIZE + 8];
    snprintf(folder, sizeof folder, "%s/closed", scratch);
    kiln_store *closed = NULL;
    sem_init(&closing.has_begun, 0, 0);
    sem_init(&closing.may_go_on, 0, 0);
    sem_init(&closing.has_ended, 0, 0);
    assert_int_equal(kiln_store_open(folder, &params, &closed, NULL), KILN_OK);
    assert_int_equal(kilni_writer_new(closed, QUEUE_BYTES, &closing.writer), KILN_OK);
    block_entry(folder, 1);
    assert_int_equal(put_to(closing.writer, 1), KILN_OK);
    assert_posted(&closing.has_begun);
    assert_int_equal(put_to(closing.writer, 2), KILN_OK);
    sem_post(&closing.may_go_on);
    assert_posted(&closing.has_ended);
    assert_null(closing.writer);
    for (int i = 0; i < 30000 && !has_no_thread(); i++) {
        usleep(1000);
    }
    assert_true(has_no_thread());
    assert_true(atomic_load_explicit(&closed_count, memory_order_acquire) > 0);
    assert_int_equal(scratch_count_descriptors(), descriptors);
    /* The entry that was queued after it is stored. */
    assert_int_equal(kiln_store_open(folder, NULL, &closed, NULL), KILN_OK);
    assert_int_equal(scratch_get(closed, 2), KILN_OK);
    kiln_store_close(&closed);
    sem_destroy(&closing.has_begun);
    sem_destroy(&closing.may_go_on);
    sem_destroy(&closing.has_ended);
}

/* The log callback of this store forks. The child frees the writer and returns from the
 * callback. */
typedef struct forking {
    kilni_writer *writer;
    sem_t has_begun, may_go_on, has_ended;
    char entry[SCRATCH_PATH_SIZE]; /* the entry queued after the one that is logged */
    bool was_written;              /* the child has written an entry */
} forking;

static void leave_at_once(void)
{
    _exit(0);
}

static void fork_and_close_writer(void *user, kiln_log_level level, const char *text)
{
    (void)level, (void)text;
    forking *forked = user;
    sem_post(&forked->has_begun);
    sem_wait(&forked->may_go_on);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        atexit(leave_at_once); /* objects of the parent's other threads are not leaks */
        kilni_writer_close(&forked->writer, FOREVER_NS);
        return;
    }
    int status;
    struct stat stat;
    waitpid(child, &status, 0);
    forked->was_written = lstat(forked->entry, &stat) == 0;
    sem_post(&forked->has_ended);
}

static void test_a_child_of_its_own_thread_writes_nothing(void **state)
{
    (void)state;
    forking forked = {.writer = NULL};
    const kiln_store_params params = {.struct_size = sizeof params,
                                      .log = {fork_and_close_writer, &forked}};
    char folder[SCRATCH_DIRECTORY_SIZE + 8];
    snprintf(folder, sizeof folder, "%s/forking", scratch);
    scratch_entry_path(folder, 2, forked.entry);
    kiln_store *own = NULL;
    sem_init(&forked.has_begun, 0, 0);
    sem_init(&forked.may_go_on, 0, 0);
    sem_init(&forked.has_ended, 0, 0);
    assert_int_equal(kiln_store_open(folder, &params, &own, NULL), KILN_OK);
    assert_int_equal(kilni_writer_new(own, QUEUE_BYTES, &forked.writer), KILN_OK);
    block_entry(folder, 1);
    assert_int_equal(put_to(forked.writer, 1), KILN_OK);
    assert_posted(&forked.has_begun);
    assert_int_equal(put_to(forked.writer, 2), KILN_OK);
    sem_post(&forked.may_go_on);
    assert_posted(&forked.has_ended);
    assert_false(forked.was_written);
    assert_int_equal(kilni_writer_drain(forked.writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(own, 2), KILN_OK);
    kilni_writer_close(&forked.writer, FOREVER_NS);
    sem_destroy(&forked.has_begun);
    sem_destroy(&forked.may_go_on);
    sem_destroy(&forked.has_ended);
}

/* ---- counting ---- */

static void test_counters_need_no_thread(void **state)
{
    (void)state;
    const kiln_stats delta = {.hits_store = 1, .saved_ns = 7};
    for (int i = 0; i < 10; i++) {
        kilni_writer_count(writer, &delta);
    }
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_true(has_no_thread());
    assert_int_equal(read_statistics().hits_store, 10);
    assert_int_equal(read_totals().saved_ns, 70);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().hits_store, 10);
}

/* The mean counts all builds, whether or not their counters were flushed. */
static void test_mean_build(void **state)
{
    (void)state;
    assert_int_equal(kilni_writer_mean_build_ns(writer), 0);
    kilni_writer_count(writer, &(kiln_stats){.builds = 2, .build_ns = 600});
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(kilni_writer_mean_build_ns(writer), 300);
    kilni_writer_count(writer, &(kiln_stats){.builds = 1});
    assert_int_equal(kilni_writer_mean_build_ns(writer), 200);
}

static void test_counters_are_flushed_soon(void **state)
{
    (void)state;
    const kiln_stats delta = {.hits_store = 1};
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    kilni_writer_count(writer, &delta);
    kiln_stats stats = {0};
    for (int i = 0; i < 10000 && (stats.hits_store == 0 || stats.puts == 0); i++) {
        usleep(1000);
        kiln_stats_read_file(statistics, &stats);
    }
    assert_int_equal(stats.hits_store, 1);
    assert_int_equal(stats.puts, 1);
}

static void test_damage_reaches_the_statistics(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_CORRUPT);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().corrupt, 1);
    assert_int_equal(read_statistics().puts, 2);
    assert_int_equal(read_totals().corrupt, 1);
    assert_int_equal(read_totals().puts, 2);
}

#define THREADS 4
#define THREAD_ROUNDS 500

static void *count_and_put(void *argument)
{
    const kiln_stats delta = {.misses = 1, .build_ns = 3};
    uint64_t first = (uint64_t)(uintptr_t)argument * THREAD_ROUNDS;
    for (uint64_t i = 0; i < THREAD_ROUNDS; i++) {
        kilni_writer_count(writer, &delta);
        if (i % 50 == 0) {
            put(first + i, 100, NULL);
            kilni_writer_drain(writer, 1000000);
        }
    }
    return NULL;
}

/* Publishing is so slow that a timer flushes the counts before the queue is empty. */
static void test_a_drain_flushes_the_counts_of_what_it_waited_for(void **state)
{
    (void)state;
    set_publishing_ns(60000000);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(put(i, 100, NULL), KILN_OK);
    }
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().puts, 4);
}

static void test_no_count_is_lost(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_and_put, (void *)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    const kiln_stats counted[2] = {read_statistics(), read_totals()};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(counted[i].misses, THREADS * THREAD_ROUNDS);
        assert_int_equal(counted[i].build_ns, THREADS * THREAD_ROUNDS * 3);
        assert_int_equal(counted[i].puts, THREADS * THREAD_ROUNDS / 50);
    }
}

static void test_no_store(void **state)
{
    (void)state;
    const kiln_stats delta = {.misses = 1};
    kiln_key *key = scratch_key(1);
    kiln_lease *lease = NULL;
    assert_int_equal(kiln_store_lease(store, key, 0, &lease), KILN_OK);
    kilni_writer_free(&writer, FOREVER_NS);
    assert_int_equal(kilni_writer_new(NULL, QUEUE_BYTES, &writer), KILN_OK);
    assert_int_equal(kilni_writer_set_stats_file(writer, statistics), KILN_OK);
    assert_int_equal(put(1, 10, &lease), KILN_OK);
    assert_null(lease);
    kilni_writer_count(writer, &delta);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_statistics().misses, 1);
    assert_int_equal(read_statistics().puts, 0);
    assert_true(has_no_thread());
    kiln_key_release(&key);
}

static void test_no_statistics_file(void **state)
{
    (void)state;
    const kiln_stats delta = {.misses = 1};
    assert_int_equal(kilni_writer_set_stats_file(writer, NULL), KILN_OK);
    kilni_writer_count(writer, &delta);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(read_totals().misses, 1);
    kiln_stats stats;
    assert_int_equal(kiln_stats_read_file(statistics, &stats), KILN_MISS);
}

/* ---- the thread and the process ---- */

static void test_the_thread_has_a_name_and_takes_no_signals(void **state)
{
    (void)state;
    char status[4096];
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_true(find_thread(status, sizeof status));
    const char *blocked = strstr(status, "SigBlk:");
    assert_non_null(blocked);
    unsigned long long mask = strtoull(blocked + strlen("SigBlk:"), NULL, 16);
    const int signals[] = {SIGTERM, SIGINT, SIGPROF, SIGCHLD, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_true(mask >> (signals[i] - 1) & 1);
    }
}

static int use_in_child(void)
{
    const kiln_stats delta = {.misses = 1000};
    kilni_writer_count(writer, &delta);
    if (put(9, 10, NULL) != KILN_E_FULL || kilni_writer_drain(writer, FOREVER_NS) != KILN_OK) {
        return 1;
    }
    kilni_writer_free(&writer, FOREVER_NS);
#ifdef __SANITIZE_THREAD__
    return 0; /* ThreadSanitizer allows no thread in such a child */
#endif
    /* A new writer in the child works. */
    if (kilni_writer_new(store, QUEUE_BYTES, &writer) != KILN_OK || put(8, 10, NULL) != KILN_OK ||
        kilni_writer_drain(writer, FOREVER_NS) != KILN_OK || scratch_get(store, 8) != KILN_OK) {
        return 2;
    }
    kilni_writer_free(&writer, FOREVER_NS);
    return 0;
}

static void fork_and_use(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        gate_is_closed = false;
        _exit(use_in_child());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_fork_while_idle(void **state)
{
    (void)state;
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    fork_and_use();
    assert_int_equal(put(2, 10, NULL), KILN_OK);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(read_statistics().misses, 0);
}

static void test_fork_while_writing(void **state)
{
    (void)state;
    set_gate(true);
    assert_int_equal(put(1, 10, NULL), KILN_OK);
    wait_for_someone_at_the_gate();
    assert_int_equal(put(2, 10, NULL), KILN_OK);
    fork_and_use();
    assert_int_equal(scratch_get(store, 2), KILN_MISS);
    set_gate(false);
    assert_int_equal(kilni_writer_drain(writer, FOREVER_NS), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_OK);
    assert_int_equal(read_statistics().puts, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_fill_waits_for_a_put_or_a_drain),
        TEST(test_single_threaded_puts_start_no_thread),
        TEST(test_entries_are_written),
        TEST(test_order),
        TEST(test_the_queue_is_bounded),
        TEST(test_one_large_entry_is_accepted),
        TEST(test_refused_entry_is_dropped),
        TEST(test_leases_are_held_until_the_entry_is_stored),
        TEST(test_a_dropped_entry_frees_its_lease),
        TEST(test_a_drain_ends_in_time),
        TEST(test_free_drops_what_is_left),
        TEST(test_a_writer_freed_by_its_own_thread),
        TEST(test_a_child_of_its_own_thread_writes_nothing),
        TEST(test_counters_need_no_thread),
        TEST(test_mean_build),
        TEST(test_counters_are_flushed_soon),
        TEST(test_damage_reaches_the_statistics),
        TEST(test_a_drain_flushes_the_counts_of_what_it_waited_for),
        TEST(test_no_count_is_lost),
        TEST(test_no_store),
        TEST(test_no_statistics_file),
        TEST(test_the_thread_has_a_name_and_takes_no_signals),
        TEST(test_fork_while_idle),
        TEST(test_fork_while_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
