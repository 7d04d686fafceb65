/* SPDX-License-Identifier: Apache-2.0
 *
 * The last miss is recorded if requested, has a bounded size, and is checked like an entry.
 */
#include "support/cache_scene.h"

#include <errno.h>
#include <time.h>

#include "os/os.h"
#include "store/last_miss.h"
#include "store/store.h"
#include "support/failing_malloc.h"

static char missed_path[SCRATCH_DIRECTORY_SIZE + 16];
static kiln_store *store;

static kiln_status open_with(uint32_t flags, kiln_store **ret_store)
{
    const kiln_store_params params = {.struct_size = sizeof params, .flags = flags};
    return kiln_store_open(cache, &params, ret_store, NULL);
}

static int set_up(void **state)
{
    cache_set_up(state);
    snprintf(missed_path, sizeof missed_path, "%s/missed", cache);
    return open_with(KILN_STORE_NOTE_MISSES, &store) == KILN_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&store);
    return cache_tear_down(state);
}

static void note(kiln_store *where, uint64_t number)
{
    kiln_key *key = scratch_key(number);
    kiln_store_note_miss(where, key);
    kiln_key_release(&key);
}

static kiln_status read_last(kiln_key **ret_key, int64_t *ret_missed_s)
{
    return kiln_store_get_last_miss(store, ret_key, ret_missed_s);
}

/* Reads the last miss, and checks that its key is that of a number. Returns the status of the
 * read. */
static kiln_status last_is(uint64_t number)
{
    kiln_key *key = NULL;
    int64_t missed_s = 0;
    kiln_status status = read_last(&key, &missed_s);
    if (status == KILN_OK) {
        kiln_key *wanted = scratch_key(number);
        assert_true(kiln_key_equals(key, wanted));
        kiln_key_release(&wanted);
    }
    kiln_key_release(&key);
    return status;
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

static void test_only_the_last_miss_is_kept(void **state)
{
    (void)state;
    const int64_t before_s = time(NULL);
    assert_int_equal(last_is(1), KILN_MISS);
    note(store, 1);
    assert_int_equal(last_is(1), KILN_OK);
    note(store, 2);
    assert_int_equal(last_is(2), KILN_OK);
    kiln_key *key = NULL;
    int64_t missed_s = 0;
    assert_int_equal(read_last(&key, &missed_s), KILN_OK);
    assert_true(missed_s >= before_s && missed_s <= time(NULL));
    kiln_key_release(&key);
    assert_int_equal(read_last(NULL, &missed_s), KILN_E_INVALID);
    assert_int_equal(read_last(&key, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_store_get_last_miss(NULL, &key, &missed_s), KILN_MISS);
    kiln_store_note_miss(NULL, NULL);
}

/* The last miss is not an entry: nothing lists, counts or removes it. */
static void test_the_last_miss_is_not_an_entry(void **state)
{
    (void)state;
    note(store, 1);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(store, 0, &stat), KILN_OK);
    assert_int_equal(stat.entries, 0);
    assert_int_equal(stat.bytes, 0);
    assert_int_equal(trim_to(store, 0, NULL), KILN_OK);
    assert_int_equal(last_is(1), KILN_OK);
}

static void test_nothing_is_noted_unless_requested(void **state)
{
    (void)state;
    static const uint32_t flags[] = {0, KILN_STORE_READONLY,
                                     KILN_STORE_READONLY | KILN_STORE_NOTE_MISSES};
    for (size_t i = 0; i < 3; i++) {
        kiln_store *other = NULL;
        assert_int_equal(open_with(flags[i], &other), KILN_OK);
        note(other, 1);
        kiln_store_close(&other);
        assert_false(exists(missed_path));
    }
}

/* Returns a key of one short part and @count parts of @size bytes. */
static kiln_key *large_key(size_t count, size_t size)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    char *bytes = calloc(1, size);
    assert_non_null(bytes);
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "options", "-O2"), KILN_OK);
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes, &i, sizeof i);
        assert_int_equal(kiln_key_builder_add(builder, "large", bytes, size), KILN_OK);
    }
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    free(bytes);
    return key;
}

static void expect_noted(size_t count, size_t size, bool is_noted)
{
    kiln_key *key = large_key(count, size);
    kiln_key *last = NULL;
    int64_t missed_s;
    struct stat stat;
    unlink(missed_path);
    kiln_store_note_miss(store, key);
    assert_int_equal(read_last(&last, &missed_s), is_noted ? KILN_OK : KILN_MISS);
    if (is_noted) {
        kiln_key_part part;
        assert_true(kiln_key_equals(last, key));
        assert_int_equal(kiln_key_part_at(last, 0, &part), KILN_OK);
        assert_int_equal(part.size, 3);
        assert_memory_equal(part.bytes, "-O2", 3);
        assert_int_equal(lstat(missed_path, &stat), 0);
        assert_true(stat.st_size <= (off_t)KILNI_LAST_MISS_MAX_BYTES);
    }
    kiln_key_release(&last);
    kiln_key_release(&key);
}

static void test_long_parts_are_kept_as_digests(void **state)
{
    (void)state;
    expect_noted(1, 10000000, true);
    expect_noted(30, 4000, true); /* all of them together exceed the bound, so they are stripped */
    expect_noted(5000, 64, false);
}

static void test_damage(void **state)
{
    (void)state;
    note(store, 1);
    struct stat stat;
    assert_int_equal(lstat(missed_path, &stat), 0);
    assert_int_equal(truncate(missed_path, stat.st_size - 1), 0);
    assert_int_equal(last_is(1), KILN_E_CORRUPT);
    assert_int_equal(truncate(missed_path, (off_t)1 << 32), 0);
    assert_int_equal(last_is(1), KILN_E_CORRUPT);
    note(store, 2);
    assert_int_equal(last_is(2), KILN_OK);
    assert_int_equal(lstat(missed_path, &stat), 0);
    assert_true(stat.st_size <= (off_t)KILNI_LAST_MISS_MAX_BYTES);
}

static void test_files_that_are_not_trusted(void **state)
{
    (void)state;
    const char *victim = scratch_path(scratch, "victim");
    int file = open(victim, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(symlink(victim, missed_path), 0);
    note(store, 1);
    struct stat stat;
    assert_int_equal(lstat(victim, &stat), 0);
    assert_int_equal(stat.st_size, 0);
    assert_int_equal(last_is(1), KILN_E_DENIED);

    assert_int_equal(unlink(missed_path), 0);
    note(store, 1);
    assert_int_equal(chmod(missed_path, 0622), 0);
    note(store, 2);
    assert_int_equal(last_is(1), KILN_E_DENIED);
    assert_int_equal(chmod(missed_path, 0600), 0);
    assert_int_equal(last_is(1), KILN_OK);
}

static void test_a_file_of_a_different_user_stays(void **state)
{
    (void)state;
    static const char *const contents[] = {"what I missed", "KILN", "K"};
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        char found[64] = "";
        int file = open(missed_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(file >= 0);
        const ssize_t size = (ssize_t)strlen(contents[i]);
        assert_int_equal(write(file, contents[i], (size_t)size), size);
        note(store, 1);
        assert_int_equal(pread(file, found, sizeof found - 1, 0), size);
        assert_string_equal(found, contents[i]);
        close(file);
    }
    assert_int_equal(truncate(missed_path, 0), 0);
    note(store, 1);
    assert_int_equal(last_is(1), KILN_OK);
}

static void open_with_key_file(void)
{
    const char *path = scratch_path(scratch, "key");
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(file, "0123456789abcdef0123456789abcdef", 32), 32);
    close(file);
    const kiln_store_params params = {
        .struct_size = sizeof params, .flags = KILN_STORE_NOTE_MISSES, .key_file = path};
    kiln_store_close(&store);
    assert_int_equal(kiln_store_open(cache, &params, &store, NULL), KILN_OK);
}

static void test_the_last_miss_is_signed(void **state)
{
    (void)state;
    note(store, 1);
    open_with_key_file();
    assert_int_equal(last_is(1), KILN_E_UNAUTHENTICATED);
    note(store, 2);
    assert_int_equal(last_is(2), KILN_OK);
}

/* A user who can't sign, but renames the signed miss to the name of its key's entry, gets no valid
 * entry. */
static void test_a_renamed_miss_is_not_an_entry(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    open_with_key_file();
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    note(store, 1);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(rename(missed_path, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_MISS);
    note(store, 2);
    assert_int_equal(last_is(2), KILN_OK);
}

/* If an entry of a different kind has the name of the last miss, no miss is reported. */
static void test_another_entry_reports_no_reads(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(store, 1, 100), KILN_OK);
    scratch_entry_path(cache, 1, path);
    assert_int_equal(rename(path, missed_path), 0);
    assert_int_equal(last_is(1), KILN_E_CORRUPT);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    kiln_key *key = scratch_key(1);
    note(store, 1);
    for (size_t n = 1;; n++) {
        kiln_key *last = NULL;
        int64_t missed_s;
        failing_malloc_arm(n);
        kiln_store_note_miss(store, key);
        kiln_status status = read_last(&last, &missed_s);
        size_t asked = failing_malloc_disarm();
        kiln_key_release(&last);
        assert_true(status == KILN_OK || (status == KILN_E_NO_MEMORY && asked >= n));
        if (asked < n) {
            break;
        }
    }
    kiln_key_release(&key);
}

static int failing_error;

static ssize_t failing_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    (void)file, (void)buffer, (void)size, (void)offset;
    errno = failing_error;
    return -1;
}

static int failing_ftruncate(int file, off_t size)
{
    (void)file, (void)size;
    errno = failing_error;
    return -1;
}

static int failing_lock(int file, short type, off_t offset, off_t size)
{
    (void)file, (void)type, (void)offset, (void)size;
    errno = failing_error;
    return -1;
}

static void test_the_system_fails(void **state)
{
    (void)state;
    const unsigned before = scratch_count_descriptors();
    kilni_os_table table = *kilni_os_system();
    kilni_os_replace(&table);
    note(store, 1);
    failing_error = ENOSPC;
    table.pwrite = failing_pwrite;
    note(store, 2);
    table.pwrite = kilni_os_system()->pwrite;
    assert_int_equal(last_is(1), KILN_OK);
    failing_error = EIO;
    table.ftruncate = failing_ftruncate;
    note(store, 2);
    table.ftruncate = kilni_os_system()->ftruncate;
    assert_int_equal(last_is(2), KILN_OK); /* of the same size */
    table.lock = failing_lock;
    failing_error = EAGAIN;
    note(store, 3);
    failing_error = ENOLCK;
    assert_int_equal(last_is(2), KILN_OK);
    note(store, 4);
    assert_int_equal(last_is(4), KILN_OK);
    assert_int_equal(scratch_count_descriptors(), before);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_only_the_last_miss_is_kept),
        TEST(test_the_last_miss_is_not_an_entry),
        TEST(test_nothing_is_noted_unless_requested),
        TEST(test_long_parts_are_kept_as_digests),
        TEST(test_damage),
        TEST(test_files_that_are_not_trusted),
        TEST(test_a_file_of_a_different_user_stays),
        TEST(test_the_last_miss_is_signed),
        TEST(test_a_renamed_miss_is_not_an_entry),
        TEST(test_another_entry_reports_no_reads),
        TEST(test_memory_runs_out),
        TEST(test_the_system_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
