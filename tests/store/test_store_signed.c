/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores with a signing key: which entries they sign, and which entries and key files they accept.
 */
#include "support/cache_scene.h"

#include <errno.h>

#include "entry/entry.h"
#include "entry/structure.h"
#include "os/os.h"
#include "store/store.h"
#include "support/failing_malloc.h"

static char key_file[SCRATCH_DIRECTORY_SIZE + 8];
static char other_key_file[SCRATCH_DIRECTORY_SIZE + 8];
static kiln_store *with_key, *without_key;
static const char *layout = "kiln";

static kiln_status open_with(const char *path, kiln_store **ret_store, kiln_error *error)
{
    const kiln_store_params params = {
        .struct_size = sizeof params, .layout = layout, .key_file = path};
    return kiln_store_open(cache, &params, ret_store, error);
}

static void write_file(const char *path, const void *bytes, size_t size, mode_t mode)
{
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static int set_up(void **state)
{
    cache_set_up(state);
    snprintf(key_file, sizeof key_file, "%s/key", scratch);
    snprintf(other_key_file, sizeof other_key_file, "%s/other", scratch);
    write_file(key_file, "0123456789abcdef0123456789abcdef", 32, 0600);
    write_file(other_key_file, "0123456789abcdef0123456789abcdeg", 32, 0600);
    return open_with(key_file, &with_key, NULL) == KILN_OK &&
                   open_with(NULL, &without_key, NULL) == KILN_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    kilni_os_replace(NULL);
    kiln_store_close(&with_key);
    kiln_store_close(&without_key);
    return cache_tear_down(state);
}

static bool exists(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

/* ---- directories of any owner ---- */

static void set_mode(const char *path, mode_t mode)
{
    assert_int_equal(chmod(path, mode), 0);
}

/* Opens the directory by a URL, with these options. */
static kiln_status open_url(const char *options, kiln_store **ret_store)
{
    char url[SCRATCH_PATH_SIZE + 64];
    snprintf(url, sizeof url, "file://%s?%s", cache, options);
    const kiln_store_params params = {.struct_size = sizeof params, .key_file = key_file};
    return kiln_store_open(url, &params, ret_store, NULL);
}

/* As root, the test also gives the files to a different user. */
static void test_owners_and_modes_do_not_count_if_entries_are_signed(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE], folder[SCRATCH_PATH_SIZE];
    if (strcmp(layout, "kiln") != 0) {
        return;
    }
    assert_int_equal(scratch_put(with_key, 1, 5000), KILN_OK);
    assert_int_equal(scratch_put(without_key, 2, 5000), KILN_OK);
    scratch_entry_path(cache, 1, path);
    snprintf(folder, sizeof folder, "%s/v1", cache);
    set_mode(path, 0666);
    set_mode(folder, 0777);
    set_mode(cache, 0777);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(chown(folder, 12345, 12345), 0);
        assert_int_equal(chown(cache, 12345, 12345), 0);
    }
    kiln_store *store = NULL;
    assert_int_equal(open_url("readonly=1", &store), KILN_E_DENIED);
    assert_int_equal(open_url("readonly=1&owner=self", &store), KILN_E_DENIED);
    assert_int_equal(open_url("readonly=1&owner=any", &store), KILN_OK);
    assert_int_equal(scratch_get(store, 1), KILN_OK);
    assert_int_equal(scratch_get(store, 2), KILN_E_UNAUTHENTICATED);
    assert_int_equal(scratch_put(store, 3, 100), KILN_E_READONLY);

    char moved[SCRATCH_PATH_SIZE];
    snprintf(moved, sizeof moved, "%s/moved", scratch);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    assert_int_equal(scratch_get(store, 1), KILN_E_DENIED);
    kiln_store_close(&store);
}

static void test_any_owner_needs_a_key_and_a_readonly_store(void **state)
{
    (void)state;
    kiln_store *store = NULL;
    assert_int_equal(open_url("owner=any", &store), KILN_E_INVALID);
    assert_int_equal(open_url("owner=any&readonly=0", &store), KILN_E_INVALID);
    assert_int_equal(open_url("owner=any&readonly=1&layout=sycl", &store), KILN_E_INVALID);
    char url[SCRATCH_PATH_SIZE + 64];
    snprintf(url, sizeof url, "file://%s?owner=any&readonly=1", cache);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_E_INVALID);
    snprintf(url, sizeof url, "pack:%s?owner=any&readonly=1", cache);
    assert_int_equal(kiln_store_open(url, NULL, &store, NULL), KILN_E_INVALID);
}

/* ---- accepted entries ---- */

static void test_puts_are_signed(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(with_key, 1, 5000), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
    assert_int_equal(scratch_get(without_key, 1), KILN_OK);

    kiln_key *wanted = scratch_key(1);
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_store_get(without_key, wanted, &entry), KILN_OK);
    assert_true(kiln_entry_is_signed(entry));
    kiln_entry_release(&entry);
    kiln_key_release(&wanted);
}

static void test_unsigned_entry_is_a_miss(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(without_key, 1, 5000), KILN_OK);
    assert_int_equal(scratch_get(without_key, 1), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(scratch_put(with_key, 1, 5000), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
}

static void test_entry_signed_with_another_key_is_a_miss(void **state)
{
    (void)state;
    kiln_store *other = NULL;
    assert_int_equal(open_with(other_key_file, &other, NULL), KILN_OK);
    assert_int_equal(scratch_put(other, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(other, 1), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_UNAUTHENTICATED);
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(other, 1), KILN_E_UNAUTHENTICATED);
    kiln_store_close(&other);
}

/* Moves the files of one number in a folder of pairs to a different number. */
static void move_pair(const char *from, unsigned number, const char *to, unsigned new_number)
{
    static const char *const suffixes[][2] = {{".src", ".bin"}, {"", NULL}};
    const char *const *suffix = suffixes[strcmp(layout, "onednn") == 0];
    for (unsigned i = 0; i < 2 && suffix[i]; i++) {
        char old_path[SCRATCH_PATH_SIZE + 32], new_path[SCRATCH_PATH_SIZE + 32];
        snprintf(old_path, sizeof old_path, "%s/%u%s", from, number, suffix[i]);
        snprintf(new_path, sizeof new_path, "%s/%u%s", to, new_number, suffix[i]);
        assert_int_equal(rename(old_path, new_path), 0);
    }
}

/* If two pairs have the same key, the signed one is found. */
static void test_an_unsigned_pair_does_not_hide_a_signed_one(void **state)
{
    (void)state;
    char folder[SCRATCH_PATH_SIZE];
    if (strcmp(layout, "kiln") == 0) {
        return;
    }
    scratch_entry_path(cache, 1, folder);
    *strstr(folder, strcmp(layout, "onednn") == 0 ? "/0/kernel.bin" : "/0.bin") = '\0';
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    move_pair(folder, 0, scratch, 0);
    assert_int_equal(scratch_put(without_key, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_UNAUTHENTICATED);
    move_pair(scratch, 0, folder, 1);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
}

static void test_an_unauthenticated_get_is_counted_once(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(without_key, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_UNAUTHENTICATED);
    kiln_key *key = scratch_key(1);
    kiln_entry *entry = NULL;
    size_t fill;
    assert_int_equal(kilni_store_find(with_key, key, NULL, true, &entry, &fill),
                     KILN_E_UNAUTHENTICATED);
    assert_null(entry);
    kiln_key_release(&key);
    kiln_stats counts;
    kilni_store_take_counts(with_key, &counts);
    assert_int_equal(counts.corrupt, 1);
    assert_int_equal(scratch_put(with_key, 2, 100), KILN_OK);
    kiln_store_stat stat = {.struct_size = sizeof stat};
    assert_int_equal(kiln_store_get_stat(with_key, 0, &stat), KILN_OK);
    assert_int_equal(stat.totals.corrupt, 1);
}

static int read_item(void *user, kiln_item *item)
{
    kiln_entry *entry = NULL;
    *(kiln_status *)user = kiln_item_read(item, &entry);
    kiln_entry_release(&entry);
    return 1;
}

static void count_unsigned(void *user, kiln_item *item, kiln_status status, const char *why)
{
    assert_non_null(item);
    if (status == KILN_OK) {
        assert_null(why);
        return;
    }
    assert_int_equal(status, KILN_E_UNAUTHENTICATED);
    assert_non_null(strstr(why, "signed"));
    ++*(int *)user;
}

static void test_walks_trust_no_more_than_gets(void **state)
{
    (void)state;
    assert_int_equal(scratch_put(without_key, 1, 100), KILN_OK);
    kiln_status status = KILN_OK;
    assert_int_equal(kiln_store_each(with_key, read_item, &status), KILN_OK);
    assert_int_equal(status, KILN_E_UNAUTHENTICATED);
    assert_int_equal(kiln_store_each(without_key, read_item, &status), KILN_OK);
    assert_int_equal(status, KILN_OK);

    assert_int_equal(scratch_put(with_key, 2, 100), KILN_OK);
    int reports = 0;
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(with_key, count_unsigned, &reports, &report), KILN_OK);
    assert_int_equal(report.checked, 2);
    assert_int_equal(report.ok, 1);
    assert_int_equal(report.corrupt, 0);
    assert_int_equal(report.unauthenticated, 1);
    assert_int_equal(reports, 1);
}

/* Returns the whole file of an entry. */
static unsigned char *read_entry_file(uint64_t number, char path[SCRATCH_PATH_SIZE],
                                      size_t *ret_size)
{
    scratch_entry_path(cache, number, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat stat;
    assert_int_equal(fstat(fileno(file), &stat), 0);
    unsigned char *bytes = malloc((size_t)stat.st_size);
    assert_non_null(bytes);
    *ret_size = (size_t)stat.st_size;
    assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
    fclose(file);
    return bytes;
}

/* A user who can write to the file can correct every checksum, but cannot sign. */
static void test_no_forged_byte_is_accepted(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    size_t size;
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    unsigned char *bytes = read_entry_file(1, path, &size);
    for (size_t i = 0; i < size - KILNI_ENTRY_CHECKSUM_SIZE; i++) {
        bytes[i] ^= 0x10;
        kilni_entry_seal(bytes, size);
        write_file(path, bytes, size, 0600);
        assert_int_not_equal(scratch_get(with_key, 1), KILN_OK);
        bytes[i] ^= 0x10;
    }
    kilni_entry_seal(bytes, size);
    write_file(path, bytes, size, 0600);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
    bytes[size - 1] ^= 1;
    write_file(path, bytes, size, 0600);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_CORRUPT);
    free(bytes);
}

/* The test removes the signature and everything that refers to it, so without a signing key the
 * entry would be valid. */
static void test_a_removed_signature_is_missed(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    kiln_entry *plain = scratch_entry(1, 100);
    kiln_bytes bytes = kiln_entry_encoding(plain);
    scratch_entry_path(cache, 1, path);
    write_file(path, bytes.data, bytes.size, 0600);
    kiln_entry_release(&plain);
    assert_int_equal(scratch_get(without_key, 1), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_E_UNAUTHENTICATED);
}

static void test_entry_of_another_key_is_ignored(void **state)
{
    (void)state;
    char from[SCRATCH_PATH_SIZE], to[SCRATCH_PATH_SIZE];
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    assert_int_equal(scratch_put(with_key, 2, 100), KILN_OK);
    scratch_entry_path(cache, 1, from);
    scratch_entry_path(cache, 2, to);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(scratch_get(with_key, 2), KILN_MISS);
    assert_int_equal(scratch_get(with_key, 1), KILN_MISS);
}

static void test_the_key_file_is_read_once(void **state)
{
    (void)state;
    assert_int_equal(unlink(key_file), 0);
    assert_int_equal(scratch_put(with_key, 1, 100), KILN_OK);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    kiln_entry *entry = scratch_entry(1, 100);
    kiln_key *key = scratch_key(1);
    for (size_t n = 1;; n++) {
        kiln_store *opened = NULL;
        kiln_entry *got = NULL;
        failing_malloc_arm(n);
        kiln_status status = open_with(key_file, &opened, NULL);
        status = status == KILN_OK ? kiln_store_put(opened, entry) : status;
        status = status == KILN_OK ? kiln_store_get(opened, key, &got) : status;
        size_t asked = failing_malloc_disarm();
        kiln_entry_release(&got);
        kiln_store_close(&opened);
        if (asked < n) {
            assert_int_equal(status, KILN_OK);
            break;
        }
        assert_true(status == KILN_E_NO_MEMORY || status == KILN_OK);
    }
    kiln_entry_release(&entry);
    kiln_key_release(&key);
}

/* ---- key files ---- */

/* Checks that without the key no store is opened and no file is created. */
static void expect_refused(const char *path, kiln_status expected, const char *text)
{
    kiln_store *opened = NULL;
    kiln_error error = {.struct_size = sizeof error};
    scratch_remove(cache);
    assert_int_equal(open_with(path, &opened, &error), expected);
    assert_null(opened);
    assert_int_equal(error.status, expected);
    assert_non_null(strstr(error.text, path));
    if (!strstr(error.text, text)) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
    assert_false(exists(cache));
}

static void test_key_files_that_are_refused(void **state)
{
    (void)state;
    static const unsigned char bytes[64] = "0123456789abcdef0123456789abcdef0123456789abcdef";
    static const mode_t modes[] = {0640, 0620, 0604, 0602, 0644, 0666, 0610, 0601};
    const char *path = scratch_path(scratch, "bad");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file(path, bytes, 32, modes[i]);
        expect_refused(path, KILN_E_DENIED, "is readable or writable by others");
    }
    static const size_t sizes[] = {0, 1, 31, 33, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_file(path, bytes, sizes[i], 0600);
        expect_refused(path, KILN_E_DENIED, "32 bytes");
    }
    static const unsigned char zeros[32];
    write_file(path, zeros, 32, 0600);
    expect_refused(path, KILN_E_DENIED, "zeros");
    assert_int_equal(unlink(path), 0);
    expect_refused(path, KILN_E_INVALID, "No such file");
    assert_int_equal(symlink(key_file, path), 0);
    expect_refused(path, KILN_E_DENIED, "symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, KILN_E_DENIED, "not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(path, KILN_E_DENIED, "not a regular file");
    expect_refused("key", KILN_E_INVALID, "absolute");
    expect_refused("./key", KILN_E_INVALID, "absolute");
}

static void test_key_files_that_are_accepted(void **state)
{
    (void)state;
    kiln_store *opened = NULL;
    assert_int_equal(chmod(key_file, 0400), 0);
    assert_int_equal(open_with(key_file, &opened, NULL), KILN_OK);
    assert_int_equal(scratch_put(opened, 1, 10), KILN_OK);
    kiln_store_close(&opened);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);
}

static uid_t somebody_else(void)
{
    return getuid() + 1;
}

static void test_a_key_file_of_a_different_user(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    table.geteuid = somebody_else;
    kilni_os_replace(&table);
    expect_refused(key_file, KILN_E_DENIED, "belongs to a different user");
    kilni_os_replace(NULL);
    if (geteuid() == 0) {
        assert_int_equal(chown(key_file, 12345, 12345), 0);
        expect_refused(key_file, KILN_E_DENIED, "belongs to a different user");
    }
}

static int failing_fstat(int file, struct stat *ret_stat)
{
    (void)file, (void)ret_stat;
    errno = EIO;
    return -1;
}

static ssize_t failing_read(int file, void *buffer, size_t size)
{
    (void)file, (void)buffer, (void)size;
    errno = EIO;
    return -1;
}

static ssize_t ending_read(int file, void *buffer, size_t size)
{
    (void)file, (void)buffer, (void)size;
    return 0;
}

static void test_key_files_that_cannot_be_read(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    const unsigned before = scratch_count_descriptors();
    table.fstat = failing_fstat;
    kilni_os_replace(&table);
    expect_refused(key_file, KILN_E_IO, "Input/output error");
    table.fstat = kilni_os_system()->fstat;
    table.read = failing_read;
    expect_refused(key_file, KILN_E_IO, "Input/output error");
    table.read = ending_read;
    expect_refused(key_file, KILN_E_DENIED, "32 bytes");
    assert_int_equal(scratch_count_descriptors(), before);
}

static void test_a_url_overrides_parameters(void **state)
{
    (void)state;
    char url[SCRATCH_PATH_SIZE];
    kiln_store *opened = NULL;
    kiln_error error = {.struct_size = sizeof error};
    const kiln_store_params params = {.struct_size = sizeof params, .key_file = other_key_file};
    snprintf(url, sizeof url, "file://%s?key-file=%s&stamp=1", cache, key_file);
    assert_int_equal(kiln_store_open(url, &params, &opened, NULL), KILN_OK);
    assert_int_equal(scratch_put(opened, 1, 10), KILN_OK);
    kiln_store_close(&opened);
    assert_int_equal(scratch_get(with_key, 1), KILN_OK);

    snprintf(url, sizeof url, "file://%s?key-file=relative", cache);
    assert_int_equal(kiln_store_open(url, NULL, &opened, &error), KILN_E_PARSE);
    assert_non_null(strstr(error.text, "key-file"));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest in_each_layout[] = {
        TEST(test_owners_and_modes_do_not_count_if_entries_are_signed),
        TEST(test_any_owner_needs_a_key_and_a_readonly_store),
        TEST(test_puts_are_signed),
        TEST(test_unsigned_entry_is_a_miss),
        TEST(test_entry_signed_with_another_key_is_a_miss),
        TEST(test_an_unsigned_pair_does_not_hide_a_signed_one),
        TEST(test_an_unauthenticated_get_is_counted_once),
        TEST(test_walks_trust_no_more_than_gets),
    };
    const struct CMUnitTest tests[] = {
        TEST(test_no_forged_byte_is_accepted),
        TEST(test_a_removed_signature_is_missed),
        TEST(test_entry_of_another_key_is_ignored),
        TEST(test_the_key_file_is_read_once),
        TEST(test_memory_runs_out),
        TEST(test_key_files_that_are_refused),
        TEST(test_key_files_that_are_accepted),
        TEST(test_a_key_file_of_a_different_user),
        TEST(test_key_files_that_cannot_be_read),
        TEST(test_a_url_overrides_parameters),
    };
    static const char *const layouts[] = {"sycl", "onednn", "kiln"};
    int failed = 0;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        layout = layouts[i];
        scratch_layout = layout;
        failed += cmocka_run_group_tests_name(layout, in_each_layout, NULL, NULL);
    }
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
