/* SPDX-License-Identifier: Apache-2.0
 *
 * The file in which processes tell each other about a server. Whatever is wrong with the file, it
 * is ignored, and no call blocks.
 */
#include "support/store_scene.h"

#include <errno.h>
#include <sys/resource.h>

#include "os/clock.h"
#include "os/os.h"
#include "store/remote/server_state.h"
#include "support/child.h"

#define S UINT64_C(1000000000)
#define FILE_LIMIT 200u

static char scratch[SCRATCH_DIRECTORY_SIZE];
static char path[SCRATCH_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(path, sizeof path, "%s/server", scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

static kilni_server_state state_at(uint64_t now_ns)
{
    return (kilni_server_state){.noted_ns = now_ns,
                                .retry_ns = now_ns + S,
                                .end_ns = now_ns + 16 * S,
                                .faults = 3,
                                .fault = KILNI_FAULT_SILENT};
}

static bool reads_at(uint64_t now_ns)
{
    kilni_server_state read;
    return kilni_server_state_read(path, now_ns, &read);
}

static size_t load(unsigned char bytes[FILE_LIMIT])
{
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    const ssize_t count = read(file, bytes, FILE_LIMIT);
    close(file);
    assert_in_range(count, 1, FILE_LIMIT - 1);
    return (size_t)count;
}

static void save(const unsigned char *bytes, size_t size)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    close(file);
}

static unsigned count_files(void)
{
    DIR *listing = opendir(scratch);
    unsigned count = 0;
    const struct dirent *found;
    while ((found = readdir(listing))) {
        count += found->d_name[0] != '.';
    }
    closedir(listing);
    return count;
}

static void test_what_was_written_is_read(void **unused)
{
    (void)unused;
    const kilni_server_state written = state_at(5 * S);
    kilni_server_state read = {0};
    assert_false(reads_at(5 * S));
    assert_true(kilni_server_state_write(path, &written));
    assert_true(kilni_server_state_read(path, 6 * S, &read));
    assert_int_equal(read.noted_ns, written.noted_ns);
    assert_int_equal(read.retry_ns, written.retry_ns);
    assert_int_equal(read.end_ns, written.end_ns);
    assert_int_equal(read.faults, written.faults);
    assert_int_equal(read.fault, written.fault);
    assert_int_equal(count_files(), 1);
    kilni_server_state_remove(path);
    assert_false(reads_at(6 * S));
    assert_int_equal(count_files(), 0);
}

static void test_impossible_times(void **unused)
{
    (void)unused;
    const kilni_server_state written = state_at(100 * S);
    assert_true(kilni_server_state_write(path, &written));
    assert_true(reads_at(116 * S - 1));
    assert_false(reads_at(116 * S)); /* the state has ended */
    assert_false(reads_at(99 * S));  /* the state has not begun */
    for (unsigned i = 0; i < 5; i++) {
        kilni_server_state wrong = written;
        wrong.end_ns = i == 0 ? 161 * S : wrong.end_ns;
        wrong.retry_ns = i == 1 ? 99 * S : i == 2 ? 117 * S : wrong.retry_ns;
        wrong.faults = i == 3 ? 0 : wrong.faults;
        wrong.fault = i == 4 ? KILNI_FAULT_BUSY : wrong.fault;
        assert_true(kilni_server_state_write(path, &wrong));
        assert_false(reads_at(101 * S));
    }
}

static void test_damage(void **unused)
{
    (void)unused;
    unsigned char bytes[FILE_LIMIT];
    const kilni_server_state written = state_at(5 * S);
    assert_true(kilni_server_state_write(path, &written));
    const size_t size = load(bytes);
    for (size_t i = 0; i < size; i++) {
        save(bytes, i);
        assert_false(reads_at(5 * S));
        bytes[i] ^= 1; /* including the bytes of the boot's name */
        save(bytes, size);
        assert_false(reads_at(5 * S));
        bytes[i] ^= 1;
    }
    save(bytes, size + 1);
    assert_false(reads_at(5 * S));
    save(bytes, size);
    assert_true(reads_at(5 * S));
}

static void test_what_is_not_trusted(void **unused)
{
    (void)unused;
    char elsewhere[SCRATCH_PATH_SIZE];
    const kilni_server_state written = state_at(5 * S);
    assert_true(kilni_server_state_write(path, &written));
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(reads_at(5 * S));
    assert_int_equal(chmod(path, 0602), 0);
    assert_false(reads_at(5 * S));
    assert_int_equal(chmod(path, 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, 1), 0);
        assert_false(reads_at(5 * S));
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_true(reads_at(5 * S));
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", scratch);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_false(reads_at(5 * S));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(reads_at(5 * S));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chmod(scratch, 0770), 0);
    assert_false(kilni_server_state_write(path, &written));
    assert_int_equal(chmod(scratch, 0700), 0);
    assert_int_equal(count_files(), 1);
}

static void test_no_folder(void **unused)
{
    (void)unused;
    const kilni_server_state written = state_at(5 * S);
    snprintf(path, sizeof path, "%s/none/server", scratch);
    assert_false(kilni_server_state_write(path, &written));
    assert_false(reads_at(5 * S));
    kilni_server_state_remove(path);
}

static void write_with_a_limit(void)
{
    const kilni_server_state written = state_at(5 * S);
    const struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(!kilni_server_state_write(path, &written));
    _exit(0);
}

static void test_a_limit_on_the_size_of_files(void **unused)
{
    (void)unused;
    assert_int_equal(run_in_child(write_with_a_limit), 0);
    assert_int_equal(count_files(), 0);
}

/* ---- calls of the system that fail ---- */

static unsigned calls_left;

static bool fails(void)
{
    errno = EIO;
    return calls_left-- == 0;
}

static int failing_openat(int directory, const char *name, int flags, mode_t mode)
{
    return fails() ? -1 : kilni_os_system()->openat(directory, name, flags, mode);
}

static int failing_fstat(int file, struct stat *ret_stat)
{
    return fails() ? -1 : kilni_os_system()->fstat(file, ret_stat);
}

static ssize_t failing_read(int file, void *buffer, size_t size)
{
    return fails() ? -1 : kilni_os_system()->read(file, buffer, size);
}

static ssize_t failing_write(int file, const void *buffer, size_t size)
{
    return fails() ? -1 : kilni_os_system()->write(file, buffer, size);
}

static int failing_renameat(int from, const char *old_path, int to, const char *new_path)
{
    return fails() ? -1 : kilni_os_system()->renameat(from, old_path, to, new_path);
}

/* Returns whether a system call failed on purpose. */
static bool try_with_failure(unsigned number, bool is_write)
{
    kilni_os_table table = *kilni_os_system();
    const kilni_server_state written = state_at(5 * S);
    table.openat = failing_openat;
    table.fstat = failing_fstat;
    table.read = failing_read;
    table.write = failing_write;
    table.renameat = failing_renameat;
    calls_left = number;
    kilni_os_replace(&table);
    const bool is_done = is_write ? kilni_server_state_write(path, &written) : reads_at(5 * S);
    kilni_os_replace(NULL);
    const bool has_failed = calls_left > number;
    assert_true(is_done || has_failed);
    return has_failed;
}

static void test_failing_calls(void **unused)
{
    (void)unused;
    const unsigned before = scratch_count_descriptors();
    unsigned number = 0;
    while (try_with_failure(number, true)) {
        assert_in_range(count_files(), 0, 1); /* no temporary is left */
        number++;
    }
    assert_in_range(number, 5, 20);
    for (number = 0; try_with_failure(number, false); number++) {
    }
    assert_in_range(number, 3, 20);
    assert_int_equal(scratch_count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_written_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_impossible_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_trusted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_limit_on_the_size_of_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_calls, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
