/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/watch/read_files.h: it records what a compilation reads, or the reason why the
 * compilation's result cannot be kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "os/os.h"
#include "support/nvrtc_scene.h"
#include "support/read_scene.h"

static void test_reads_that_cannot_be_checked(void **state)
{
    (void)state;
    const char *const paths[] = {"/dev/null", NULL};
    for (size_t i = 0; i < 2; i++) {
        kilni_reads *reads = new_reads(NULL);
        kilni_words words = {.list = &kilni_clock_words};
        kilni_text encoded = {0};
        const char *why = NULL;
        if (paths[i]) {
            kilni_reads_note(reads, paths[i]);
        } else {
            kilni_reads_fail(reads, "for a reason");
            kilni_reads_fail(reads, "for another");
        }
        assert_int_equal(kilni_reads_finish(reads, false, &words, &encoded, &why),
                         KILN_E_UNSUPPORTED);
        assert_string_equal(
            why, paths[i] ? "a path that cannot be read, or is neither a file nor a folder"
                          : "for a reason");
        kilni_reads_free(&reads);
    }
}

static void write_other(void)
{
    write_file("a.h", "two");
}

/* Writes different content, and then the original content again. The compiler may have read the
 * file in between. */
static void write_other_and_back(void)
{
    struct stat before, now;
    assert_int_equal(stat("a.h", &before), 0);
    do { /* until the file's change time differs */
        write_file("a.h", "two");
        write_file("a.h", "one");
        assert_int_equal(stat("a.h", &now), 0);
    } while (memcmp(&now.st_ctim, &before.st_ctim, sizeof now.st_ctim) == 0);
}

static void rename_other_and_back(void)
{
    write_file("b.h", "two");
    assert_int_equal(rename("a.h", "c.h"), 0);
    assert_int_equal(rename("b.h", "a.h"), 0);
    write_file("b.h", "one");
    assert_int_equal(rename("b.h", "a.h"), 0);
}

static void test_reads_of_a_file_that_changes_during_a_compilation(void **state)
{
    (void)state;
    static void (*const changes[])(void) = {write_other, write_other_and_back,
                                            rename_other_and_back};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        write_file("a.h", "one");
        kilni_reads *reads = new_reads(NULL);
        kilni_words words = {.list = &kilni_clock_words};
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads_note(reads, "a.h");
        changes[i]();
        assert_int_equal(kilni_reads_finish(reads, false, &words, &encoded, &why), KILN_MISS);
        assert_string_equal(why, "files changed during the compilation");
        kilni_reads_free(&reads);
    }
}

static void test_reads_find_clock_words(void **state)
{
    (void)state;
    write_file("a.h", "__TIME__");
    kilni_reads *reads = new_reads(NULL);
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    kilni_reads_note(reads, "a.h");
    assert_int_equal(kilni_reads_finish(reads, false, &words, &encoded, &why), KILN_OK);
    assert_true(kilni_words_found(&words));
    kilni_text_done(&encoded);
    kilni_reads_free(&reads);
}

static void test_reads_that_name_the_folder(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        bool is_named;
    } cases[] = {
        {"/x/one/k.cu", "#include <one/a.h>", true},
        {"/x/one/k.cu", "one / two", false},
        {"one/k.cu", "#include <one/a.h>", false},
        {NULL, "#include <one/a.h>", false},
        {"/k.cu", "//", false},
        {"/x/one/k.cu", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("a.h", cases[i].text);
        kilni_reads *reads = new_reads(cases[i].name);
        kilni_reads_note(reads, "a.h");
        assert_int_equal(kilni_reads_mention_folder(reads), cases[i].is_named);
        kilni_reads_free(&reads);
    }
}

/* ---- folders ---- */

static kiln_status finish(kilni_reads *reads, kilni_text *encoded, const char **why)
{
    kilni_words words = {.list = &kilni_clock_words};
    const kiln_status status = kilni_reads_finish(reads, false, &words, encoded, why);
    kilni_reads_free(&reads);
    return status;
}

static void test_reads_of_names_in_a_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0700), 0);
    write_file("folder/a.h", "one");
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note_listing(reads, "folder");
    kilni_reads_note_listing(reads, "absent");
    kilni_text encoded = finish_reads(reads, false);
    write_file("folder/a.h", "two");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);
    write_file("folder/b.h", "one");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(remove("folder/b.h"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);
    assert_int_equal(remove("folder/a.h"), 0);
    assert_int_equal(mkdir("folder/a.h", 0700), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    kilni_text_done(&encoded);
}

static void test_names_that_change_during_a_compilation(void **state)
{
    (void)state;
    struct stat before, now;
    kilni_text encoded = {0};
    const char *why = NULL;
    assert_int_equal(mkdir("folder", 0700), 0);
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note_listing(reads, "folder");
    assert_int_equal(stat("folder", &before), 0);
    do { /* until the folder's change time differs */
        write_file("folder/a.h", "one");
        assert_int_equal(remove("folder/a.h"), 0);
        assert_int_equal(stat("folder", &now), 0);
    } while (memcmp(&now.st_ctim, &before.st_ctim, sizeof now.st_ctim) == 0);
    assert_int_equal(finish(reads, &encoded, &why), KILN_MISS);
}

static void test_facts_of_a_file(void **state)
{
    (void)state;
    write_file("a.h", "one");
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_count_facts_alone(reads);
    kilni_reads_note_query(reads, "a.h");
    kilni_text encoded = finish_reads(reads, false);
    write_file("a.h", "two");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);
    assert_int_equal(chmod("a.h", 0700), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(remove("a.h"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    write_file("a.h", "longer");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    kilni_text_done(&encoded);
}

/* What a compilation does with its temporary folders. */
static void test_folders_of_the_compiler(void **state)
{
    (void)state;
    static const struct {
        const char *made, *changed, *why;
    } cases[] = {
        {"/tmp/own-1", "/tmp/own-1/a.o", NULL},
        {"/tmp/own-1", "/tmp/own-1", NULL},
        {"/tmp/own-1", "/tmp/own-1/..a", NULL},
        {"/tmp/own-1", "/tmp/own-10/a.o", "a file is written, made, renamed or removed"},
        {"/tmp/own-1", "/tmp/a.o", "a file is written, made, renamed or removed"},
        {"/tmp/own-1", "/tmp/own-1/../a.o", "a path leads out of the compiler's temporary folder"},
        {"/tmp/own-1", "/tmp/own-1/..", "a path leads out of the compiler's temporary folder"},
        {"/tmp/other-1", NULL, "a file is written, made, renamed or removed"},
        {"own-1", NULL, "a file is written, made, renamed or removed"},
        {"/tmp/../own-1", NULL, "a file is written, made, renamed or removed"},
        {NULL, NULL, "no temporary folder of the compiler was observed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kilni_reads *reads = new_reads(NULL);
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads_expect_folders(reads, "own-");
        if (cases[i].made) {
            kilni_reads_note_made(reads, cases[i].made);
        }
        if (cases[i].changed) {
            kilni_reads_note_change(reads, cases[i].changed);
            kilni_reads_note(reads, cases[i].changed);
            assert_true(kilni_reads_text_names_folder(reads, "in own-1 here", 13));
            assert_false(kilni_reads_text_names_folder(reads, "in own-2 here", 13));
        }
        assert_int_equal(finish(reads, &encoded, &why),
                         cases[i].why ? KILN_E_UNSUPPORTED : KILN_OK);
        assert_true(why == cases[i].why || strcmp(why, cases[i].why) == 0);
        kilni_text_done(&encoded);
    }
}

/* ---- memory that runs out ---- */

static kiln_status read_and_hold(void)
{
    kilni_reads *reads = NULL;
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    kiln_status status = kilni_reads_new("/x/k.cu", &kilni_clock_words, &reads);
    if (status == KILN_OK) {
        kilni_reads_note(reads, "/etc/passwd");
        kilni_reads_note(reads, "absent.h");
        kilni_reads_note_link(reads, "/proc/self/exe");
        kilni_reads_note_listing(reads, "folder");
        kilni_reads_expect_folders(reads, "own-");
        kilni_reads_note_made(reads, "/tmp/own-1");
        status = kilni_reads_finish(reads, true, &words, &encoded, &why);
        kilni_reads_free(&reads);
    }
    if (status == KILN_OK) {
        status = reads_hold(&encoded, "/x/k.cu");
    }
    kilni_text_done(&encoded);
    return status;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0700), 0);
    write_file("folder/a.h", "one");
    check_each_allocation(read_and_hold);
}

/* ---- system calls that fail ---- */

static kilni_os_table failing_table;
static int calls_left;
static bool has_failed;

static bool fails_now(void)
{
    const bool fails = --calls_left == 0;
    has_failed |= fails;
    errno = EIO;
    return fails;
}

static int failing_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    return fails_now() ? -1 : kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static int failing_openat(int directory, const char *path, int flags, mode_t mode)
{
    return fails_now() ? -1 : kilni_os_system()->openat(directory, path, flags, mode);
}

static int failing_fstat(int file, struct stat *ret_stat)
{
    return fails_now() ? -1 : kilni_os_system()->fstat(file, ret_stat);
}

static ssize_t failing_read(int file, void *buffer, size_t size)
{
    return fails_now() ? -1 : kilni_os_system()->read(file, buffer, size);
}

static ssize_t failing_readlinkat(int directory, const char *path, char *buffer, size_t size)
{
    return fails_now() ? -1 : kilni_os_system()->readlinkat(directory, path, buffer, size);
}

static DIR *failing_fdopendir(int file)
{
    return fails_now() ? NULL : kilni_os_system()->fdopendir(file);
}

static struct dirent *failing_readdir(DIR *folder)
{
    if (fails_now()) {
        return NULL;
    }
    errno = 0;
    return kilni_os_system()->readdir(folder);
}

/* A file that cannot be read is never treated as unchanged. */
static void test_system_calls_fail(void **state)
{
    (void)state;
    failing_table = *kilni_os_system();
    failing_table.fstatat = failing_fstatat;
    failing_table.openat = failing_openat;
    failing_table.fstat = failing_fstat;
    failing_table.read = failing_read;
    failing_table.readlinkat = failing_readlinkat;
    failing_table.fdopendir = failing_fdopendir;
    failing_table.readdir = failing_readdir;
    assert_int_equal(mkdir("folder", 0700), 0);
    write_file("folder/a.h", "one");
    for (int n = 1;; n++) {
        calls_left = n;
        has_failed = false;
        kilni_os_replace(&failing_table);
        const kiln_status status = read_and_hold();
        kilni_os_replace(NULL);
        if (!has_failed) {
            assert_int_equal(status, KILN_OK);
            assert_true(n > 15);
            break;
        }
        assert_true(status == KILN_E_UNSUPPORTED || status == KILN_MISS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_reads_that_cannot_be_checked),
        IN_SCRATCH(test_reads_of_a_file_that_changes_during_a_compilation),
        IN_SCRATCH(test_reads_find_clock_words),
        IN_SCRATCH(test_reads_that_name_the_folder),
        IN_SCRATCH(test_reads_of_names_in_a_folder),
        IN_SCRATCH(test_names_that_change_during_a_compilation),
        IN_SCRATCH(test_facts_of_a_file),
        IN_SCRATCH(test_folders_of_the_compiler),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_system_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
