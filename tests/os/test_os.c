/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/os.h"

typedef struct scratch {
    char directory[256];
    char path[300];
    int file;
} scratch;

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    scratch *made = calloc(1, sizeof *made);
    if (!made) {
        return -1;
    }
    snprintf(made->directory, sizeof made->directory, "%s/kiln-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(made->directory)) {
        free(made);
        return -1;
    }
    snprintf(made->path, sizeof made->path, "%s/file", made->directory);
    made->file = open(made->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    *state = made;
    return made->file < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    scratch *made = *state;
    kilni_os_replace(NULL);
    close(made->file);
    unlink(made->path);
    rmdir(made->directory);
    free(made);
    return 0;
}

/* The state of replaced system calls that transfer one byte at a time, are interrupted before each
 * byte, and fail after a given number of bytes. */
static struct {
    size_t left;
    int error;
    int interrupt_next;
    size_t calls;
} odd;

static int is_odd_failure(void)
{
    odd.calls++;
    odd.interrupt_next = !odd.interrupt_next;
    if (!odd.interrupt_next) {
        return 0;
    }
    errno = EINTR;
    return 1;
}

static int is_used_up(void)
{
    if (odd.left > 0) {
        odd.left--;
        return 0;
    }
    errno = odd.error;
    return 1;
}

static ssize_t odd_read(int file, void *buffer, size_t size)
{
    (void)size;
    return is_odd_failure() || is_used_up() ? -1 : read(file, buffer, 1);
}

static ssize_t odd_pread(int file, void *buffer, size_t size, off_t offset)
{
    (void)size;
    return is_odd_failure() || is_used_up() ? -1 : pread(file, buffer, 1, offset);
}

static ssize_t odd_write(int file, const void *buffer, size_t size)
{
    (void)size;
    return is_odd_failure() || is_used_up() ? -1 : write(file, buffer, 1);
}

static ssize_t odd_pwrite(int file, const void *buffer, size_t size, off_t offset)
{
    (void)size;
    return is_odd_failure() || is_used_up() ? -1 : pwrite(file, buffer, 1, offset);
}

static ssize_t idle_write(int file, const void *buffer, size_t size)
{
    (void)file, (void)buffer, (void)size;
    return 0;
}

static int stopped_clock(clockid_t clock, struct timespec *ret_time)
{
    (void)clock;
    *ret_time = (struct timespec){0};
    return 0;
}

static void make_odd(kilni_os_table *table, size_t bytes, int error)
{
    *table = *kilni_os_system();
    table->read = odd_read;
    table->pread = odd_pread;
    table->write = odd_write;
    table->pwrite = odd_pwrite;
    odd.left = bytes;
    odd.error = error;
    odd.interrupt_next = 0;
    odd.calls = 0;
    kilni_os_replace(table);
}

static void test_the_table_can_be_replaced(void **state)
{
    (void)state;
    kilni_os_table table = *kilni_os_system();
    assert_ptr_equal(kilni_os(), kilni_os_system());
    kilni_os_replace(&table);
    assert_ptr_equal(kilni_os(), &table);
    kilni_os_replace(NULL);
    assert_ptr_equal(kilni_os(), kilni_os_system());
}

static void test_every_slot_is_there(void **state)
{
    (void)state;
    typedef void (*slot)(void);
    const kilni_os_table *table = kilni_os_system();
    slot slots[sizeof *table / sizeof(slot)];
    memcpy(slots, table, sizeof slots);
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        assert_true(slots[i] != NULL);
    }
}

static void test_whole_transfers(void **state)
{
    scratch *made = *state;
    char buffer[16] = {0};
    size_t count = 99;
    assert_int_equal(kilni_file_write(made->file, "abcdef", 6), KILN_OK);
    assert_int_equal(kilni_file_write_at(made->file, "CD", 2, 2), KILN_OK);
    assert_int_equal(kilni_file_read_at(made->file, buffer, 4, 1, &count), KILN_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(buffer, "bCDe", 4);
    assert_int_equal(lseek(made->file, 0, SEEK_SET), 0);
    assert_int_equal(kilni_file_read(made->file, buffer, sizeof buffer, &count), KILN_OK);
    assert_int_equal(count, 6);
    assert_memory_equal(buffer, "abCDef", 6);
    assert_int_equal(kilni_file_read(made->file, buffer, sizeof buffer, &count), KILN_OK);
    assert_int_equal(count, 0);
}

static void test_short_and_interrupted_transfers_continue(void **state)
{
    scratch *made = *state;
    kilni_os_table table;
    char buffer[16] = {0};
    size_t count = 99;
    make_odd(&table, 100, 0);
    assert_int_equal(kilni_file_write(made->file, "abcdef", 6), KILN_OK);
    assert_int_equal(odd.calls, 12);
    assert_int_equal(kilni_file_write_at(made->file, "CD", 2, 2), KILN_OK);
    assert_int_equal(kilni_file_read_at(made->file, buffer, 8, 1, &count), KILN_OK);
    assert_int_equal(count, 5);
    assert_memory_equal(buffer, "bCDef", 5);
    assert_int_equal(lseek(made->file, 0, SEEK_SET), 0);
    assert_int_equal(kilni_file_read(made->file, buffer, 6, &count), KILN_OK);
    assert_int_equal(count, 6);
    assert_memory_equal(buffer, "abCDef", 6);
}

static void test_failures_are_reported(void **state)
{
    scratch *made = *state;
    kilni_os_table table;
    char buffer[4];
    size_t count = 99;
    make_odd(&table, 2, ENOSPC);
    assert_int_equal(kilni_file_write(made->file, "abc", 3), KILN_E_FULL);
    assert_int_equal(errno, ENOSPC);
    make_odd(&table, 2, EDQUOT);
    assert_int_equal(kilni_file_write_at(made->file, "abc", 3, 0), KILN_E_FULL);
    make_odd(&table, 2, EACCES);
    assert_int_equal(kilni_file_write(made->file, "abc", 3), KILN_E_IO);
    assert_int_equal(errno, EACCES);
    make_odd(&table, 1, EIO);
    assert_int_equal(kilni_file_read_at(made->file, buffer, 2, 0, &count), KILN_E_IO);
    assert_int_equal(errno, EIO);
    assert_int_equal(kilni_file_read(made->file, buffer, 2, &count), KILN_E_IO);
    assert_int_equal(count, 99);
}

static void test_a_write_that_writes_nothing_ends(void **state)
{
    scratch *made = *state;
    kilni_os_table table = *kilni_os_system();
    table.write = idle_write;
    kilni_os_replace(&table);
    assert_int_equal(kilni_file_write(made->file, "abc", 3), KILN_E_IO);
    assert_int_equal(errno, EIO);
}

static void test_locks_belong_to_open_descriptions(void **state)
{
    scratch *made = *state;
    int other = kilni_os()->openat(AT_FDCWD, made->path, O_RDWR | O_CLOEXEC, 0);
    assert_true(other >= 0);
    assert_int_equal(kilni_os()->lock(made->file, F_WRLCK, 5, 1), 0);
    assert_int_equal(kilni_os()->lock(other, F_WRLCK, 5, 1), -1);
    assert_true(errno == EAGAIN || errno == EACCES);
    assert_int_equal(kilni_os()->lock(other, F_WRLCK, 6, 1), 0);
    assert_int_equal(kilni_os()->lock(made->file, F_UNLCK, 5, 1), 0);
    assert_int_equal(kilni_os()->lock(other, F_RDLCK, 5, 1), 0);
    assert_int_equal(kilni_os()->close(other), 0);
}

static int refusal;

static int open_below_refused(int directory, const char *path, int flags)
{
    (void)directory, (void)path, (void)flags;
    errno = refusal;
    return -1;
}

static void expect_below(int directory, const char *path, int flags, int system_error)
{
    const int file = kilni_file_open_below(directory, path, flags);
    if (system_error == 0) {
        assert_true(file > STDERR_FILENO);
        assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
        close(file);
    } else {
        assert_int_equal(file, -1);
        assert_int_equal(errno, system_error);
    }
}

/* The results are the same with the kernel's openat2 and without it. */
static void test_no_link_is_followed_below_a_directory(void **state)
{
    const scratch *made = *state;
    static const int refusals[] = {0, ENOSYS, EPERM};
    char folder[sizeof made->path + 8];
    snprintf(folder, sizeof folder, "%s.d", made->path);
    assert_int_equal(mkdir(folder, 0700), 0);
    const int directory = open(folder, O_PATH | O_DIRECTORY);
    assert_true(directory >= 0);
    assert_int_equal(mkdirat(directory, "a", 0700), 0);
    assert_int_equal(mkdirat(directory, "a/b", 0700), 0);
    close(openat(directory, "a/b/file", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlinkat("a", directory, "link"), 0);
    assert_int_equal(symlinkat("b", directory, "a/link"), 0);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        kilni_os_table table = *kilni_os_system();
        refusal = refusals[i];
        if (refusal != 0) {
            table.open_below = open_below_refused;
        }
        kilni_os_replace(&table);
        expect_below(directory, "a/b", O_RDONLY | O_DIRECTORY, 0);
        expect_below(directory, "a/b", O_PATH | O_DIRECTORY, 0);
        expect_below(directory, "a/b/file", O_RDONLY, 0);
        expect_below(directory, "a/c", O_PATH | O_DIRECTORY, ENOENT);
        expect_below(directory, "c/b", O_PATH | O_DIRECTORY, ENOENT);
        expect_below(directory, "a/b/file", O_PATH | O_DIRECTORY, ENOTDIR);
        expect_below(directory, "link", O_PATH | O_DIRECTORY, ELOOP);
        expect_below(directory, "link", O_RDONLY | O_DIRECTORY, ELOOP);
        expect_below(directory, "link/b", O_PATH | O_DIRECTORY, ELOOP);
        expect_below(directory, "a/link", O_RDONLY | O_DIRECTORY, ELOOP);
        expect_below(directory, "a/link/file", O_RDONLY, ELOOP);
    }
    kilni_os_replace(NULL);
    static const char *const files[] = {"a/link", "link", "a/b/file"};
    for (size_t i = 0; i < 3; i++) {
        unlinkat(directory, files[i], 0);
    }
    unlinkat(directory, "a/b", AT_REMOVEDIR);
    unlinkat(directory, "a", AT_REMOVEDIR);
    close(directory);
    assert_int_equal(rmdir(folder), 0);
}

static void *write_blindly(void *over)
{
    while (!atomic_load((atomic_bool *)over)) {
        for (int number = 0; number <= STDERR_FILENO; number++) {
            ssize_t written = write(number, "blind", 5);
            (void)written;
        }
    }
    return NULL;
}

/* For a child without stdin, stdout and stderr. A thread writes to these descriptors while files
 * are created. Returns whether the files get different descriptors, and contain nothing that the
 * thread wrote. */
static bool files_stay_empty(const char *path)
{
    static atomic_bool over;
    pthread_t thread;
    bool is_right = pthread_create(&thread, NULL, write_blindly, &over) == 0;
    for (int i = 0; is_right && i < 3000; i++) {
        unlink(path);
        int file = kilni_os()->openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        struct stat stat;
        is_right = file > STDERR_FILENO && fstat(file, &stat) == 0 && stat.st_size == 0;
        close(file);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return is_right;
}

static void test_blind_writes_reach_no_file(void **state)
{
    const scratch *made = *state;
#ifdef __SANITIZE_THREAD__
    /* ThreadSanitizer has started a thread itself, and allows no new thread in a child of a process
     * with threads. */
    skip();
#endif
    pid_t child = fork();
    if (child == 0) {
        for (int number = 0; number <= STDERR_FILENO; number++) {
            close(number);
        }
        _exit(files_stay_empty(made->path) ? 0 : 1);
    }
    int answer;
    assert_int_equal(waitpid(child, &answer, 0), child);
    assert_int_equal(answer, 0);
}

static void test_clocks(void **state)
{
    (void)state;
    uint64_t before = kilni_clock_ns();
    kilni_sleep_ns(1000000);
    assert_true(kilni_clock_ns() >= before);
    assert_true(kilni_clock_unix_s() > 1600000000);

    kilni_os_table table = *kilni_os_system();
    table.clock_gettime = stopped_clock;
    kilni_os_replace(&table);
    assert_int_equal(kilni_clock_ns(), 1);
    assert_int_equal(kilni_clock_unix_s(), 0);
}

static void test_errnos_have_their_statuses(void **state)
{
    (void)state;
    static const struct {
        int error;
        kiln_status status;
    } expected[] = {
        {ENOENT, KILN_MISS},      {ENOTDIR, KILN_MISS},       {ESTALE, KILN_MISS},
        {EACCES, KILN_E_DENIED},  {EPERM, KILN_E_DENIED},     {ELOOP, KILN_E_DENIED},
        {EROFS, KILN_E_READONLY}, {ENOSPC, KILN_E_FULL},      {EDQUOT, KILN_E_FULL},
        {EFBIG, KILN_E_FULL},     {ENOMEM, KILN_E_NO_MEMORY}, {EEXIST, KILN_EXISTS},
        {EBUSY, KILN_BUSY},       {EIO, KILN_E_IO},           {0, KILN_E_IO},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(kilni_status_from_errno(expected[i].error), expected[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_table_can_be_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_slot_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_transfers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_and_interrupted_transfers_continue, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_failures_are_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_write_that_writes_nothing_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_locks_belong_to_open_descriptions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blind_writes_reach_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_link_is_followed_below_a_directory, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_clocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errnos_have_their_statuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
