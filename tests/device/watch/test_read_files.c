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
#include <unistd.h>

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

/* ---- what the compiler saw ---- */

static void see(kilni_reads *reads, const char *path)
{
    struct stat facts;
    const int result = stat(path, &facts);
    kilni_reads_note_seen(
        reads, &(kilni_seen){.path = path, .facts = result == 0 ? &facts : NULL, .error = errno});
}

static void see_content(kilni_reads *reads, const char *path, const char *content)
{
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_size, strlen(content));
    kilni_reads_note_seen(reads, &(kilni_seen){.path = path, .facts = &facts, .bytes = content});
}

/* What happens to a.h, which contains "one", while a compilation sees it, and then looks it up in a
 * way that Kiln does not see. */
static void test_paths_that_are_seen_and_looked_up(void **state)
{
    (void)state;
    static const struct {
        bool is_absent; /* at first */
        void (*before)(void), (*after)(void);
        kiln_status expected;
    } cases[] = {
        {false, NULL, NULL, KILN_OK},          {false, write_other, NULL, KILN_MISS},
        {false, NULL, write_other, KILN_MISS}, {false, NULL, write_other_and_back, KILN_MISS},
        {true, NULL, NULL, KILN_OK},           {true, write_other, NULL, KILN_MISS},
        {true, NULL, write_other, KILN_MISS},
    };
    static void (*const notes[])(kilni_reads *, const char *) = {
        kilni_reads_note, kilni_reads_note_opened, kilni_reads_note_query, NULL};
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads *reads = new_reads(NULL);
        remove("a.h");
        if (cases[i / 4].is_absent) {
            see(reads, "a.h");
        } else {
            write_file("a.h", "one");
            see_content(reads, "a.h", "one");
        }
        if (cases[i / 4].before) {
            cases[i / 4].before();
        }
        if (notes[i % 4]) {
            notes[i % 4](reads, "a.h");
        }
        if (cases[i / 4].is_absent && cases[i / 4].before) {
            remove("a.h"); /* present only when it was looked up */
        }
        if (cases[i / 4].after) {
            cases[i / 4].after();
        }
        assert_int_equal(finish(reads, &encoded, &why),
                         notes[i % 4] ? cases[i / 4].expected : KILN_OK);
        kilni_text_done(&encoded);
    }
}

static void test_files_that_are_used_in_other_ways(void **state)
{
    (void)state;
    static void (*const notes[])(kilni_reads *, const char *) = {kilni_reads_note_unseen,
                                                                 kilni_reads_note_contradiction};
    for (size_t i = 0; i < 4; i++) {
        const bool changes = i % 2, contradicts = i / 2;
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads *reads = new_reads(NULL);
        write_file("a.h", "one");
        see_content(reads, "a.h", "one");
        notes[i / 2](reads, "a.h");
        if (changes) {
            write_other_and_back();
        }
        assert_int_equal(finish(reads, &encoded, &why),
                         changes || contradicts ? KILN_MISS : KILN_OK);
        kilni_text_done(&encoded);
    }
}

/* The compiler calls stat on a file that Kiln cannot read. */
static void test_a_seen_file_that_is_too_large(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads *reads = new_reads(NULL);
        write_file("a.h", "one");
        assert_int_equal(truncate("a.h", (64 << 20) + 1), 0);
        see(reads, "a.h");
        if (i == 1) {
            kilni_reads_note(reads, "a.h");
        }
        assert_int_equal(finish(reads, &encoded, &why), KILN_E_UNSUPPORTED);
        assert_string_equal(why, "a path that cannot be read, or is neither a file nor a folder");
    }
}

static ino_t added_number; /* to the number of each folder */
static ino_t step;         /* by which that grows with each call */

static int numbering_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    const int result = kilni_os_system()->fstatat(directory, path, ret_stat, flags);
    if (result == 0 && S_ISDIR(ret_stat->st_mode)) {
        added_number += step;
        ret_stat->st_ino += added_number;
    }
    return result;
}

/* Some file systems make up the numbers of folders. */
static void test_folders_with_unstable_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *second; /* a path that leads to the same folder; NULL: none */
        bool is_seen;       /* twice, instead of looked up */
        ino_t step;
        kiln_status expected;
    } cases[] = {{NULL, false, 1, KILN_OK},       {NULL, true, 1, KILN_OK},
                 {"folder/.", false, 0, KILN_OK}, {"folder/.", true, 0, KILN_OK},
                 {"other", false, 1, KILN_OK},    {"folder/.", false, 1, KILN_MISS}};
    kilni_os_table table = *kilni_os_system();
    table.fstatat = numbering_fstatat;
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(mkdir("other", 0700), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kilni_text encoded = {0};
        const char *why = NULL;
        kilni_reads *reads = new_reads(NULL);
        added_number = step = 0;
        kilni_os_replace(&table);
        for (size_t n = 0; n < 2; n++) {
            const char *path = n == 0 ? "folder" : cases[i].second;
            struct stat facts;
            for (size_t times = 0; path && cases[i].is_seen && times < 2; times++) {
                assert_int_equal(stat(path, &facts), 0);
                facts.st_ino += times;
                kilni_reads_note_seen(reads, &(kilni_seen){.path = path, .facts = &facts});
            }
            if (path && !cases[i].is_seen) {
                kilni_reads_note(reads, path);
            }
        }
        added_number = 1000;
        step = cases[i].step << 40; /* no two folders ever have the same number */
        const kiln_status status = finish(reads, &encoded, &why);
        kilni_os_replace(NULL);
        assert_int_equal(status, cases[i].expected);
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
        IN_SCRATCH(test_paths_that_are_seen_and_looked_up),
        IN_SCRATCH(test_files_that_are_used_in_other_ways),
        IN_SCRATCH(test_a_seen_file_that_is_too_large),
        IN_SCRATCH(test_folders_with_unstable_numbers),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_system_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
