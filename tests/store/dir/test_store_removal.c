/* SPDX-License-Identifier: Apache-2.0
 *
 * A removal deletes only the file that was examined. If another process stores a different file in
 * its place, that file stays, no matter between which system calls of the removal it is stored. The
 * layout is an argument.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "os/os.h"
#include "store/dir/dir.h"
#include "store/store.h"

/* Sizes of the versions of the entry in these tests. */
#define OLD 1000u
#define NEW 2000u
#define NEWEST 3000u
#define ROUNDS 300u
#define DEADLINE_S 30

static kiln_store *store, *other;
static kiln_key *key;
static kiln_entry *old_entry;

static kiln_store *open_store(void)
{
    const kiln_store_params params = {.struct_size = sizeof params, .layout = scratch_layout};
    kiln_store *opened = NULL;
    assert_int_equal(kiln_store_open(cache, &params, &opened, NULL), KILN_OK);
    return opened;
}

static int set_up(void **state)
{
    cache_set_up(state);
    store = open_store();
    other = open_store();
    key = scratch_key(1);
    old_entry = scratch_entry(1, OLD);
    return key && old_entry ? 0 : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_entry_release(&old_entry);
    kiln_key_release(&key);
    kiln_store_close(&other);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

/* Returns the size of the present payload; 0: there is none, or it is damaged. */
static size_t size_there(kiln_store *asked)
{
    kiln_entry *entry = NULL;
    size_t size = 0;
    if (kiln_store_get(asked, key, &entry) == KILN_OK) {
        size = kiln_entry_payload(entry).size;
    }
    kiln_entry_release(&entry);
    return size;
}

static bool has_pairs(void)
{
    return strcmp(scratch_layout, "kiln") != 0;
}

static unsigned leftovers;

static int count_leftover(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat, (void)kind;
    leftovers += strncmp(path + walk->base, ".tmp-", 5) == 0;
    return 0;
}

static unsigned count_leftovers(void)
{
    leftovers = 0;
    nftw(cache, count_leftover, 16, FTW_PHYS);
    return leftovers;
}

/* ---- a different process puts the entry before a given system call ---- */

static struct {
    unsigned calls;
    unsigned at[2]; /* the calls before which the first and the second put are made; 0: never */
    size_t sizes[2];
    unsigned done;
    bool is_counting;
    bool is_open;     /* the payload was opened: the removal examines the present file */
    bool was_open[2]; /* its value at each put */
    int rename_new_error, link_error; /* 0: none */
} play;

static bool is_payload(const char *path)
{
    char whole[SCRATCH_PATH_SIZE];
    scratch_entry_path(cache, 1, whole);
    const size_t length = strlen(whole), known = strlen(path);
    return known >= 5 && known <= length && strcmp(whole + length - known, path) == 0;
}

/* No put is made after the file is removed, while the totals are being changed, because the put
 * would wait for the totals. */
static void step(void)
{
    if (play.is_counting) {
        return;
    }
    play.calls++;
    for (unsigned i = play.done; i < 2; i++) {
        if (play.at[i] != play.calls) {
            continue;
        }
        const kilni_os_table *table = kilni_os();
        kilni_os_replace(NULL);
        assert_int_equal(scratch_put(other, 1, play.sizes[i]), KILN_OK);
        kilni_os_replace(table);
        play.was_open[i] = play.is_open;
        play.done = i + 1;
    }
}

static int play_openat(int directory, const char *path, int flags, mode_t mode)
{
    play.is_counting |= strcmp(path, "stats") == 0;
    step();
    const int file = kilni_os_system()->openat(directory, path, flags, mode);
    play.is_open |= file >= 0 && is_payload(path);
    return file;
}

static int play_open_below(int directory, const char *path, int flags)
{
    step();
    return kilni_os_system()->open_below(directory, path, flags);
}

static int play_fstat(int file, struct stat *ret_stat)
{
    step();
    return kilni_os_system()->fstat(file, ret_stat);
}

static int play_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    step();
    return kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static ssize_t play_pread(int file, void *buffer, size_t size, off_t offset)
{
    step();
    return kilni_os_system()->pread(file, buffer, size, offset);
}

static int play_renameat(int from, const char *old_path, int to, const char *new_path)
{
    step();
    return kilni_os_system()->renameat(from, old_path, to, new_path);
}

static int play_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    step();
    errno = play.rename_new_error;
    return play.rename_new_error != 0 ? -1
                                      : kilni_os_system()->rename_new(from, old_path, to, new_path);
}

static int play_linkat(int from, const char *old_path, int to, const char *new_path, int flags)
{
    step();
    errno = play.link_error;
    return play.link_error != 0 ? -1
                                : kilni_os_system()->linkat(from, old_path, to, new_path, flags);
}

static int play_unlinkat(int directory, const char *path, int flags)
{
    step();
    return kilni_os_system()->unlinkat(directory, path, flags);
}

static int play_close(int file)
{
    step();
    return kilni_os_system()->close(file);
}

static void begin_play(unsigned first, size_t first_size, unsigned second, size_t second_size)
{
    static kilni_os_table table;
    table = *kilni_os_system();
    table.openat = play_openat;
    table.open_below = play_open_below;
    table.fstat = play_fstat;
    table.fstatat = play_fstatat;
    table.pread = play_pread;
    table.renameat = play_renameat;
    table.rename_new = play_rename_new;
    table.linkat = play_linkat;
    table.unlinkat = play_unlinkat;
    table.close = play_close;
    play.calls = play.done = 0;
    play.at[0] = first;
    play.at[1] = second;
    play.sizes[0] = first_size;
    play.sizes[1] = second_size;
    play.is_open = false;
    play.is_counting = false;
    kilni_os_replace(&table);
}

/* Returns the number of puts. */
static unsigned end_play(void)
{
    kilni_os_replace(NULL);
    play.at[0] = play.at[1] = 0;
    return play.done;
}

/* ---- an entry that was read and then refused ---- */

static void test_replacement_of_the_refused_entry_stays(void **state)
{
    (void)state;
    static const int errors[][2] = {{0, 0}, {EINVAL, 0}, {ENOSYS, EPERM}};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        play.rename_new_error = errors[e][0];
        play.link_error = errors[e][1];
        for (unsigned n = 1;; n++) {
            assert_int_equal(scratch_put(other, 1, OLD), KILN_OK);
            begin_play(n, NEW, 0, 0);
            const kiln_status status = kilni_store_remove_judged(store, key, old_entry);
            if (end_play() == 0) {
                assert_int_equal(status, KILN_OK);
                assert_int_equal(size_there(store), 0);
                assert_true(n > 5);
                break;
            }
            assert_true(status == KILN_OK || status == KILN_MISS);
            assert_int_equal(size_there(store), NEW);
            assert_int_equal(count_leftovers(), 0);
        }
    }
    play.rename_new_error = play.link_error = 0;
}

/* While an entry that was put meanwhile is set aside, a newer one arrives. */
static void test_the_newest_of_two_stays(void **state)
{
    (void)state;
    unsigned puts;
    for (unsigned first = 1;; first++) {
        for (unsigned second = first + 1;; second++) {
            assert_int_equal(scratch_put(other, 1, OLD), KILN_OK);
            begin_play(first, NEW, second, NEWEST);
            kilni_store_remove_judged(store, key, old_entry);
            puts = end_play();
            if (puts < 2) {
                break;
            }
            /* Two puts may get two numbers; the lower one is found. */
            const size_t size = size_there(store);
            assert_true(size == NEWEST || (has_pairs() && size == NEW));
            assert_int_equal(count_leftovers(), 0);
            kiln_store_remove(store, key);
        }
        if (puts == 0) {
            break;
        }
    }
}

static void test_only_the_refused_entry_is_removed(void **state)
{
    (void)state;
    assert_int_equal(kilni_store_remove_judged(store, key, old_entry), KILN_MISS);
    assert_int_equal(scratch_put(store, 1, NEW), KILN_OK);
    assert_int_equal(kilni_store_remove_judged(store, key, old_entry), KILN_MISS);
    assert_int_equal(size_there(store), NEW);
    assert_int_equal(scratch_put(store, 1, OLD), KILN_OK);
    assert_int_equal(kilni_store_remove_judged(store, key, old_entry), KILN_OK);
    assert_int_equal(size_there(store), 0);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, KILN_STAT_KNOWN, &stat), KILN_OK);
    assert_int_equal(stat.entries, 0);
    assert_int_equal(stat.bytes, 0);
}

/* ---- unconditional removals ---- */

/* Only the file that was listed is removed. If another file has taken its place, that one stays. */
static void test_a_removal_by_key(void **state)
{
    (void)state;
    for (unsigned n = 1;; n++) {
        assert_int_equal(scratch_put(other, 1, OLD), KILN_OK);
        begin_play(n, NEW, 0, 0);
        const kiln_status status = kiln_store_remove(store, key);
        if (end_play() == 0) {
            assert_int_equal(status, KILN_OK);
            assert_int_equal(size_there(store), 0);
            break;
        }
        assert_true(status == KILN_OK || status == KILN_MISS);
        if (play.was_open[0]) {
            assert_int_equal(size_there(store), NEW);
        } else if (!has_pairs()) {
            assert_int_equal(size_there(store), status == KILN_OK ? 0 : NEW);
        }
        assert_int_equal(count_leftovers(), 0);
        kiln_store_remove(store, key);
    }
}

/* ---- items ---- */

typedef struct repair {
    unsigned at; /* the call of the removal before which the put is made */
    kiln_status removed;
} repair;

static int remove_if_damaged(void *user, kiln_item *item)
{
    repair *work = user;
    kiln_entry *entry = NULL;
    const kiln_status status = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    if (status == KILN_E_CORRUPT) {
        begin_play(work->at, NEW, 0, 0);
        work->removed = kiln_item_remove(item);
    }
    return 0;
}

static void damage(void)
{
    char path[SCRATCH_PATH_SIZE];
    scratch_entry_path(cache, 1, path);
    const int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, "x", 1, 500), 1);
    close(file);
}

static void test_a_repair_removes_what_was_damaged(void **state)
{
    (void)state;
    for (unsigned n = 1;; n++) {
        repair work = {.at = n, .removed = KILN_E_INVALID};
        assert_int_equal(scratch_put(other, 1, OLD), KILN_OK);
        damage();
        assert_int_equal(kiln_store_each(store, remove_if_damaged, &work), KILN_OK);
        if (end_play() == 0) {
            assert_int_equal(work.removed, KILN_OK);
            assert_int_equal(size_there(store), 0);
            break;
        }
        assert_true(work.removed == KILN_OK || work.removed == KILN_MISS);
        assert_int_equal(size_there(store), NEW);
        kiln_store_remove(store, key);
    }
}

static int remove_after_a_use(void *user, kiln_item *item)
{
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_item_read(item, &entry), KILN_OK);
    kiln_entry_release(&entry);
    char path[SCRATCH_PATH_SIZE];
    scratch_entry_path(cache, 1, path);
    const struct timespec used[2] = {{.tv_sec = 2000000000}, {.tv_sec = 2000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, used, 0), 0);
    *(kiln_status *)user = kiln_item_remove(item);
    return 0;
}

static void test_an_item_is_removed_although_it_is_used(void **state)
{
    (void)state;
    kiln_status status = KILN_E_INVALID;
    assert_int_equal(scratch_put(store, 1, OLD), KILN_OK);
    assert_int_equal(kiln_store_each(store, remove_after_a_use, &status), KILN_OK);
    assert_int_equal(status, KILN_OK);
    assert_int_equal(size_there(store), 0);
}

/* ---- two threads that remove, stopped before and after they set a file aside ---- */

typedef struct remover {
    pthread_t thread;
    sem_t may_go, has_stopped;
    bool has_ended; /* read after has_stopped */
} remover;

static _Thread_local remover *this_remover; /* NULL: this thread never stops */

static void stop(void)
{
    if (this_remover) {
        sem_post(&this_remover->has_stopped);
        sem_wait(&this_remover->may_go);
    }
}

static bool is_aside(const char *path)
{
    return strstr(path, "-aside") != NULL;
}

static int stopping_renameat(int from, const char *old_path, int to, const char *new_path)
{
    if (!is_aside(new_path)) {
        return kilni_os_system()->renameat(from, old_path, to, new_path);
    }
    stop();
    const int result = kilni_os_system()->renameat(from, old_path, to, new_path);
    const int system_error = errno;
    stop();
    errno = system_error;
    return result;
}

static int stopping_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    if (!is_aside(new_path)) {
        return kilni_os_system()->rename_new(from, old_path, to, new_path);
    }
    stop();
    const int result = kilni_os_system()->rename_new(from, old_path, to, new_path);
    const int system_error = errno;
    stop();
    errno = system_error;
    return result;
}

static int no_rename_new(int from, const char *old_path, int to, const char *new_path)
{
    (void)from, (void)old_path, (void)to, (void)new_path;
    errno = EINVAL;
    return -1;
}

/* Continues up to the next stop, or to the end. */
static void let_go_on(remover *r)
{
    if (!r->has_ended) {
        sem_post(&r->may_go);
        sem_wait(&r->has_stopped);
    }
}

static void *remove_in_steps(void *user)
{
    remover *r = user;
    this_remover = r;
    sem_wait(&r->may_go);
    kilni_store_remove_judged(store, key, old_entry);
    r->has_ended = true;
    sem_post(&r->has_stopped);
    return NULL;
}

/* One thread sets a new entry aside, and then the other sets an even newer one aside. After that,
 * the first thread restores the older of the two. */
static void test_two_removers_keep_the_newest(void **state)
{
    (void)state;
    for (int has_rename_new = 0; has_rename_new < 2; has_rename_new++) {
        remover removers[2] = {{.has_ended = false}};
        kilni_os_table table = *kilni_os_system();
        table.renameat = stopping_renameat;
        table.rename_new = has_rename_new ? stopping_rename_new : no_rename_new;
        assert_int_equal(scratch_put(other, 1, OLD), KILN_OK);
        kilni_os_replace(&table);
        for (int i = 0; i < 2; i++) {
            sem_init(&removers[i].may_go, 0, 0);
            sem_init(&removers[i].has_stopped, 0, 0);
            assert_int_equal(
                pthread_create(&removers[i].thread, NULL, remove_in_steps, &removers[i]), 0);
            let_go_on(&removers[i]);
        }
        const kiln_status first_put = scratch_put(other, 1, NEW);
        let_go_on(&removers[0]);
        const kiln_status second_put = scratch_put(other, 1, NEWEST);
        let_go_on(&removers[1]);
        for (int i = 0; i < 2; i++) {
            while (!removers[i].has_ended) {
                let_go_on(&removers[i]);
            }
            pthread_join(removers[i].thread, NULL);
            sem_destroy(&removers[i].may_go);
            sem_destroy(&removers[i].has_stopped);
        }
        kilni_os_replace(NULL);
        assert_int_equal(first_put, KILN_OK);
        assert_int_equal(second_put, KILN_OK);
        const size_t size = size_there(store);
        assert_true(size == NEWEST || (has_pairs() && size == NEW));
        assert_int_equal(count_leftovers(), 0);
        kiln_store_remove(store, key);
    }
}

/* A process was killed after it had set a file aside. */
static void test_removal_while_a_file_of_that_name_is_aside(void **state)
{
    (void)state;
    char aside[KILNI_DIR_PATH_SIZE], path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, OLD), KILN_OK);
    scratch_entry_path(cache, 1, path);
    char *name = path + strlen(path);
    for (int slashes = strcmp(scratch_layout, "onednn") == 0 ? 2 : 1; slashes > 0; slashes--) {
        name = memrchr(path, '/', (size_t)(name - path));
    }
    kilni_dir_aside_name(name + 1, aside);
    name[1] = '\0';
    char *leftover = path;
    strncat(leftover, aside, sizeof path - strlen(path) - 1);
    assert_int_equal(close(open(leftover, O_WRONLY | O_CREAT | O_EXCL, 0600)), 0);
    assert_int_equal(kiln_store_remove(store, key), KILN_BUSY);
    assert_int_equal(kilni_store_remove_judged(store, key, old_entry), KILN_BUSY);
    assert_int_equal(size_there(store), OLD);
    assert_int_equal(count_leftovers(), 1);
    assert_int_equal(unlink(leftover), 0);
    assert_int_equal(kiln_store_remove(store, key), KILN_OK);
    assert_int_equal(kiln_store_remove(store, key), KILN_MISS);
}

/* ---- threads ---- */

static atomic_bool is_over;

static void *remove_over_and_over(void *result)
{
    (void)result;
    while (!atomic_load(&is_over)) {
        kilni_store_remove_judged(store, key, old_entry);
    }
    return NULL;
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* A put of two files gives up if other threads move its files repeatedly. In that case it has
 * stored nothing, and the test calls it again. */
static kiln_status put_in_time(size_t size)
{
    const time_t deadline_s = now_s() + DEADLINE_S;
    kiln_status status;
    do {
        status = scratch_put(other, 1, size);
    } while (status == KILN_E_IO && now_s() <= deadline_s);
    return status;
}

/* A get may miss while a new entry is set aside and examined. Nothing is asserted while the threads
 * run. */
static void test_a_storm_of_replacements(void **state)
{
    (void)state;
    pthread_t threads[2];
    atomic_store(&is_over, false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, remove_over_and_over, NULL), 0);
    }
    unsigned lost = 0;
    kiln_status status = KILN_OK;
    for (unsigned i = 0; i < ROUNDS && lost == 0 && status == KILN_OK; i++) {
        status = put_in_time(OLD);
        status = status == KILN_OK ? put_in_time(NEW) : status;
        const time_t deadline_s = now_s() + DEADLINE_S;
        while (status == KILN_OK && size_there(other) != NEW && lost == 0) {
            lost += now_s() > deadline_s;
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(status, KILN_OK);
    assert_int_equal(lost, 0);
    assert_int_equal(size_there(other), NEW);
    assert_int_equal(count_leftovers(), 0);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_replacement_of_the_refused_entry_stays),
        TEST(test_the_newest_of_two_stays),
        TEST(test_only_the_refused_entry_is_removed),
        TEST(test_a_removal_by_key),
        TEST(test_a_repair_removes_what_was_damaged),
        TEST(test_an_item_is_removed_although_it_is_used),
        TEST(test_two_removers_keep_the_newest),
        TEST(test_removal_while_a_file_of_that_name_is_aside),
        TEST(test_a_storm_of_replacements),
    };
    scratch_layout = argc > 1 ? argv[1] : scratch_layout;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
