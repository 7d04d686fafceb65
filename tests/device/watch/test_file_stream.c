/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/watch/file_stream.h: a stream with a copy of a file reads what the file contained
 * when the stream was opened, until the compiler uses the descriptor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/watch/file_stream.h"
#include "support/nvrtc_scene.h"

static const void *bytes;

static int open_file(const char *path, struct stat *facts)
{
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, facts), 0);
    return file;
}

/* Returns a stream with a copy of the file, which contains "one two". */
static FILE *open_stream(void)
{
    struct stat facts;
    write_file("a.h", "one two");
    const int file = open_file("a.h", &facts);
    FILE *stream = kilni_file_stream_open(file, "a.h", "r", &facts, &bytes);
    assert_non_null(stream);
    assert_int_equal(kilni_file_stream_descriptor(stream), file);
    return stream;
}

static void test_content(void **state)
{
    (void)state;
    char text[16] = "";
    FILE *stream = open_stream();
    assert_memory_equal(bytes, "one two", 7);
    write_file("a.h", "different text");
    assert_non_null(fgets(text, sizeof text, stream));
    assert_string_equal(text, "one two");
    assert_int_equal(getc(stream), EOF);
    assert_true(feof(stream));
    assert_int_equal(fseek(stream, -3, SEEK_END), 0);
    assert_int_equal(ftell(stream), 4);
    assert_int_equal(getc(stream), 't');
    rewind(stream);
    assert_int_equal(getc(stream), 'o');
    assert_int_equal(fseek(stream, -10, SEEK_CUR), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fseek(stream, 100, SEEK_SET), 0);
    assert_int_equal(getc(stream), EOF);
    fclose(stream);
}

static void test_descriptor(void **state)
{
    (void)state;
    FILE *stream = open_stream(), *other = fopen("a.h", "r");
    const int file = kilni_file_stream_descriptor(stream);
    assert_non_null(other);
    assert_int_equal(fileno(stream), -1);
    assert_int_equal(kilni_file_stream_descriptor(other), -1);
    assert_string_equal(kilni_file_stream_path(file), "a.h");
    assert_null(kilni_file_stream_path(fileno(other)));
    assert_null(kilni_file_stream_path(-1));
    assert_null(kilni_file_stream_path(1 << 20));
    fclose(stream);
    assert_null(kilni_file_stream_path(file));
    assert_int_equal(fcntl(file, F_GETFD), -1);
    fclose(other);
}

static void test_facts(void **state)
{
    (void)state;
    FILE *stream = open_stream();
    const int file = kilni_file_stream_descriptor(stream);
    struct stat now;
    assert_int_equal(fstat(file, &now), 0);
    assert_true(kilni_file_stream_is_same(file, &now));
    write_file("a.h", "longer than before");
    assert_int_equal(fstat(file, &now), 0);
    assert_false(kilni_file_stream_is_same(file, &now));
    fclose(stream);
}

/* What is read through the descriptor is not read through the stream again. */
static void test_dropped_copy(void **state)
{
    (void)state;
    char text[16] = "";
    FILE *stream = open_stream();
    const int file = kilni_file_stream_descriptor(stream);
    assert_true(kilni_file_stream_drop_copy(file));
    assert_int_equal(read(file, text, 4), 4);
    assert_int_equal(getc(stream), 't');
    assert_int_equal(fseek(stream, 1, SEEK_SET), 0);
    assert_int_equal(getc(stream), 'n');
    assert_false(kilni_file_stream_drop_copy(file));
    fclose(stream);

    stream = open_stream();
    assert_int_equal(getc(stream), 'o');
    errno = EXDEV;
    assert_false(kilni_file_stream_drop_copy(kilni_file_stream_descriptor(stream)));
    assert_int_equal(errno, EXDEV);
    assert_int_equal(lseek(kilni_file_stream_descriptor(stream), 0, SEEK_CUR), 7);
    fclose(stream);
    assert_true(kilni_file_stream_drop_copy(0));
}

static void assert_no_copy(int file, const struct stat *facts)
{
    assert_null(kilni_file_stream_open(file, "a.h", "r", facts, &bytes));
    assert_null(kilni_file_stream_path(file));
    assert_int_equal(lseek(file, 0, SEEK_CUR), 0);
    close(file);
}

static void test_files_that_are_not_copied(void **state)
{
    (void)state;
    struct stat facts, other;
    write_file("a.h", "one");
    int file = open_file("a.h", &facts);
    write_file("a.h", "longer");
    assert_no_copy(file, &facts);
    file = open_file("a.h", &facts);
    write_file("a.h", "");
    assert_no_copy(file, &facts);
    assert_no_copy(open_file(".", &facts), &facts);

    write_file("large", "");
    assert_int_equal(truncate("large", (64 << 20) + 1), 0);
    assert_no_copy(open_file("large", &facts), &facts);

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){2048, before.rlim_max}), 0);
    file = open_file("a.h", &facts);
    const int high = fcntl(file, F_DUPFD, 1024);
    assert_int_equal(high, 1024);
    assert_int_equal(fstat(high, &other), 0);
    assert_no_copy(high, &other);
    close(file);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static kiln_status open_and_close(void)
{
    struct stat facts;
    const int file = open_file("a.h", &facts);
    FILE *stream = kilni_file_stream_open(file, "a.h", "r", &facts, &bytes);
    if (!stream) {
        close(file);
        return KILN_E_NO_MEMORY;
    }
    fclose(stream);
    return KILN_OK;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    write_file("a.h", "one");
    check_each_allocation(open_and_close);
}

enum { THREADS = 4, ROUNDS = 200 };

static void *use_streams(void *ret_failures)
{
    int *failures = ret_failures;
    for (int i = 0; i < ROUNDS; i++) {
        const void *content;
        struct stat facts;
        const int file = open("a.h", O_RDONLY);
        fstat(file, &facts);
        FILE *stream = kilni_file_stream_open(file, "a.h", "r", &facts, &content);
        *failures += !stream || kilni_file_stream_descriptor(stream) != file ||
                     !kilni_file_stream_is_same(file, &facts) || getc(stream) != 'o';
        if (stream) {
            fclose(stream);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int failures[THREADS] = {0};
    write_file("a.h", "one");
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_streams, &failures[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(failures[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_content),
        IN_SCRATCH(test_descriptor),
        IN_SCRATCH(test_facts),
        IN_SCRATCH(test_dropped_copy),
        IN_SCRATCH(test_files_that_are_not_copied),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
