/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/watch/changed_files.h: which recorded files have changed, and what is reported about
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/nvrtc_scene.h"
#include "support/read_scene.h"

/* The reads hold as long as the same paths lead to the same folder, with or without a link. */
static void test_reads_of_equal_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("one", 0700), 0);
    assert_int_equal(mkdir("two", 0700), 0);
    assert_int_equal(symlink("one", "link"), 0);
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note(reads, "one");
    kilni_reads_note(reads, "two");
    kilni_reads_note(reads, "link");
    kilni_text encoded = finish_reads(reads, false);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("two", "link"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(mkdir("link", 0700), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    kilni_text_done(&encoded);
}

static void test_reads_hold_while_nothing_changes(void **state)
{
    (void)state;
    write_file("a.h", "one");
    write_file("b.h", "one");
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(symlink("a.h", "link"), 0);
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note(reads, "a.h");
    kilni_reads_note(reads, "a.h");
    kilni_reads_note(reads, "b.h");
    kilni_reads_note(reads, "link");
    kilni_reads_note_link(reads, "link");
    kilni_reads_note_link(reads, "a.h");
    kilni_reads_note_real_path(reads, "link");
    kilni_reads_note(reads, "absent.h");
    kilni_reads_note(reads, "a.h/absent.h");
    kilni_reads_note(reads, "folder");
    kilni_reads_note(reads, NULL);
    kilni_text encoded = finish_reads(reads, false);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);
    assert_int_equal(reads_hold(&encoded, "k.cu"), KILN_OK);

    write_file("a.h", "two");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    write_file("a.h", "one");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);

    write_file("absent.h", "");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("absent.h"), 0);

    assert_int_equal(rmdir("folder"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    write_file("folder", "");
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("folder"), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_OK);

    /* A file with the content of a.h, but not the same file. */
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("b.h", "link"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("b.h"), 0);
    assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
    kilni_text_done(&encoded);
}

static void test_reads_in_a_programs_folder(void **state)
{
    const scratch *s = *state;
    char one[128], two[128], header[160];
    snprintf(one, sizeof one, "%s/one/k.cu", s->path);
    snprintf(two, sizeof two, "%s/a_longer_two/k.cu", s->path);
    snprintf(header, sizeof header, "%s/one/a.h", s->path);
    assert_int_equal(mkdir("one", 0700), 0);
    assert_int_equal(mkdir("a_longer_two", 0700), 0);
    write_file("one/a.h", "header");
    for (int moves = 0; moves < 2; moves++) {
        kilni_reads *reads = new_reads(one);
        kilni_reads_note(reads, header);
        kilni_text encoded = finish_reads(reads, moves);
        assert_int_equal(reads_hold(&encoded, one), KILN_OK);
        assert_int_equal(reads_hold(&encoded, two),
                         KILN_MISS); /* no header there, or the wrong folder */
        write_file("a_longer_two/a.h", "header");
        assert_int_equal(reads_hold(&encoded, two), moves ? KILN_OK : KILN_MISS);
        assert_int_equal(reads_hold(&encoded, NULL), KILN_MISS);
        assert_int_equal(unlink("a_longer_two/a.h"), 0);
        kilni_text_done(&encoded);
    }
}

#define EXPECT_TOLD(encoded, name, expected)                                                       \
    do {                                                                                           \
        visits t = {0};                                                                            \
        assert_int_equal(kilni_reads_each((kiln_bytes){(encoded).bytes, (encoded).length}, name,   \
                                          visit_read, &t),                                         \
                         KILN_OK);                                                                 \
        assert_string_equal(t.text, expected);                                                     \
    } while (0)

static void test_reads_are_visited(void **state)
{
    (void)state;
    assert_int_equal(mkdir("folder", 0700), 0);
    write_file("a.h", "one");
    write_file("b.h", "four");
    assert_int_equal(symlink("a.h", "link"), 0);
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note(reads, "a.h");
    kilni_reads_note(reads, "b.h");
    kilni_reads_note_link(reads, "link");
    kilni_reads_note(reads, "absent.h");
    kilni_reads_note(reads, "folder");
    kilni_text encoded = finish_reads(reads, false);
    EXPECT_TOLD(encoded, NULL,
                "a.h 2 3 KILN_OK 2\nb.h 2 4 KILN_OK 2\nlink 4 0 KILN_OK 4\n"
                "absent.h 1 0 KILN_OK 1\nfolder 3 0 KILN_OK 3\n");

    /* Reports all files that differ, not only the first. A file that cannot be read does not count
     * as a difference. */
    write_file("a.h", "two");
    write_file("absent.h", "");
    assert_int_equal(unlink("b.h"), 0);
    assert_int_equal(symlink("/dev/null", "b.h"), 0);
    assert_int_equal(rmdir("folder"), 0);
    EXPECT_TOLD(encoded, NULL,
                "a.h 2 3 KILN_MISS 2\nb.h 2 4 KILN_E_UNSUPPORTED 0\n"
                "link 4 0 KILN_OK 4\nabsent.h 1 0 KILN_MISS 2\nfolder 3 0 KILN_MISS 1\n");

    visits first = {.count_max = 1};
    assert_int_equal(
        kilni_reads_each((kiln_bytes){encoded.bytes, encoded.length}, NULL, visit_read, &first),
        KILN_OK);
    assert_string_equal(first.text, "a.h 2 3 KILN_MISS 2\n");
    kilni_text_done(&encoded);
}

static void test_reads_in_a_programs_folder_are_visited(void **state)
{
    const scratch *s = *state;
    char name[128], header[128], link_path[128], expected[512];
    snprintf(name, sizeof name, "%s/k.cu", s->path);
    snprintf(header, sizeof header, "%s/a.h", s->path);
    write_file("a.h", "header");
    snprintf(link_path, sizeof link_path, "%s.h", s->path);
    assert_int_equal(symlink(header, link_path), 0);
    kilni_reads *reads = new_reads(name);
    kilni_reads_note(reads, header);
    kilni_reads_note(reads, link_path);
    kilni_text encoded = finish_reads(reads, true);
    /* It is also unknown whether the link leads to the same file. */
    snprintf(expected, sizeof expected,
             ".a.h 2 6 KILN_E_UNSUPPORTED 0\n%s 2 6 KILN_E_UNSUPPORTED 2\n", link_path);
    EXPECT_TOLD(encoded, NULL, expected);
    snprintf(expected, sizeof expected, ".a.h 2 6 KILN_OK 2\n%s 2 6 KILN_OK 2\n", link_path);
    EXPECT_TOLD(encoded, name, expected);
    snprintf(expected, sizeof expected, ".a.h 2 6 KILN_MISS 1\n%s 2 6 KILN_MISS 2\n", link_path);
    EXPECT_TOLD(encoded, "/absent/k.cu", expected);
    kilni_text_done(&encoded);
    assert_int_equal(unlink(link_path), 0);
}

static void test_the_only_folder_is_visited(void **state)
{
    const scratch *s = *state;
    static const struct {
        const char *file, *now;
    } names[] = {{NULL, "KILN_E_UNSUPPORTED"}, {"/other.cu", "KILN_OK"}, {"/x/k.cu", "KILN_MISS"}};
    char name[128], expected[512];
    snprintf(name, sizeof name, "%s/k.cu", s->path);
    write_file("a.h", "header");
    kilni_reads *reads = new_reads(name);
    kilni_reads_note(reads, "a.h");
    kilni_text encoded = finish_reads(reads, false);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s%s", s->path, names[i].file ? names[i].file : "");
        snprintf(expected, sizeof expected, "%s/ 5 0 %s 0\na.h 2 6 KILN_OK 2\n", s->path,
                 names[i].now);
        EXPECT_TOLD(encoded, names[i].file ? name : NULL, expected);
    }
    kilni_text_done(&encoded);
}

/* A query for the path of "." with all links resolved is reported as the working directory. */
static void test_the_working_directory_is_visited(void **state)
{
    const scratch *s = *state;
    char expected[512];
    kilni_reads *reads = new_reads(NULL);
    kilni_reads_note_real_path(reads, ".");
    kilni_text encoded = finish_reads(reads, true);
    snprintf(expected, sizeof expected, "%s 6 0 KILN_OK 0\n", s->path);
    EXPECT_TOLD(encoded, NULL, expected);
    assert_int_equal(chdir("/"), 0);
    snprintf(expected, sizeof expected, "%s 6 0 KILN_MISS 0\n", s->path);
    EXPECT_TOLD(encoded, NULL, expected);
    assert_int_equal(chdir(s->path), 0);
    kilni_text_done(&encoded);
}

static void test_damaged_reads(void **state)
{
    (void)state;
    write_file("a.h", "one");
    assert_int_equal(symlink("a.h", "link"), 0);
    kilni_reads *reads = new_reads("/x/k.cu");
    kilni_reads_note(reads, "a.h");
    kilni_reads_note_link(reads, "link");
    kilni_text encoded = finish_reads(reads, false);
    for (size_t size = 0; size < encoded.length; size++) {
        char *cut = malloc(size + 1); /* the exact size, for sanitizers */
        memcpy(cut, encoded.bytes, size);
        assert_int_equal(kilni_reads_hold((kiln_bytes){cut, size}, "/x/k.cu", NULL),
                         KILN_E_CORRUPT);
        visits t = {0};
        assert_int_equal(kilni_reads_each((kiln_bytes){cut, size}, NULL, visit_read, &t),
                         KILN_E_CORRUPT);
        free(cut);
    }
    for (size_t i = 0; i < encoded.length; i++) {
        const char before = encoded.bytes[i];
        visits t = {0};
        encoded.bytes[i] = (char)(before ^ 0x81);
        kilni_reads_each((kiln_bytes){encoded.bytes, encoded.length}, NULL, visit_read, &t);
        assert_int_not_equal(reads_hold(&encoded, "/x/k.cu"), KILN_OK);
        encoded.bytes[i] = before;
    }
    kilni_text_done(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_reads_of_equal_folders),
        IN_SCRATCH(test_reads_hold_while_nothing_changes),
        IN_SCRATCH(test_reads_in_a_programs_folder),
        IN_SCRATCH(test_reads_are_visited),
        IN_SCRATCH(test_reads_in_a_programs_folder_are_visited),
        IN_SCRATCH(test_the_only_folder_is_visited),
        IN_SCRATCH(test_the_working_directory_is_visited),
        IN_SCRATCH(test_damaged_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
