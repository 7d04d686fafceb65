/* SPDX-License-Identifier: Apache-2.0
 *
 * device/nvrtc: what a compilation read, what it returned, and the device ops, over the libnvrtc in
 * the arguments: a stand-in, or the real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kiln/nvrtc.h>

#include "device/nvrtc/description.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/options.h"
#include "device/nvrtc/outputs.h"
#include "device/watch/encoding.h"
#include "device/watch/inputs.h"
#include "device/watch/reads.h"
#include "device/watch/results.h"
#include "device/watch/words.h"
#include "os/os.h"
#include "support/nvrtc_scene.h"

/* ---- words of time ---- */

static bool has_word_of_time(size_t count, const char *const *texts)
{
    kilni_words words = {.list = &kilni_clock_words};
    for (size_t i = 0; i < count; i++) {
        kilni_words_scan(&words, texts[i], strlen(texts[i]));
    }
    return kilni_words_found(&words);
}

#define HAS_WORD_OF_TIME(...)                                                                      \
    has_word_of_time(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                       \
                     (const char *[]){__VA_ARGS__})

static void test_words_of_time(void **state)
{
    (void)state;
    assert_true(HAS_WORD_OF_TIME("__DATE__"));
    assert_true(HAS_WORD_OF_TIME("x=__TIME__;"));
    assert_true(HAS_WORD_OF_TIME("", "__TIMESTAMP__"));
    assert_true(HAS_WORD_OF_TIME("__TI\\\nME__"));
    assert_true(HAS_WORD_OF_TIME("__TI\\ \t\r\n\\\nME__"));
    assert_true(HAS_WORD_OF_TIME("a ## b __TI ME__"));
    assert_true(HAS_WORD_OF_TIME("a #\\\n# b __TI ME__"));
    assert_true(HAS_WORD_OF_TIME("a %:%: b", "__TI", "ME__"));
    assert_true(HAS_WORD_OF_TIME("## _ D A T E"));
    assert_true(HAS_WORD_OF_TIME("__TI?\?/\nME__")); /* trigraphs, as in older languages */
    assert_true(HAS_WORD_OF_TIME("a ?\?=?\?= b __TI ME__"));
    assert_false(HAS_WORD_OF_TIME("__TI?\?-\nME__"));
    assert_true(HAS_WORD_OF_TIME("##", "_ D A T E"));
    assert_true(HAS_WORD_OF_TIME("__DA\rTE"));
    assert_false(HAS_WORD_OF_TIME("__DATE__x __DATE_ DATE__ __TIME"));
    assert_false(HAS_WORD_OF_TIME("__TI ME__"));
    assert_false(HAS_WORD_OF_TIME("__TI \\\n ME__"));
    assert_false(HAS_WORD_OF_TIME(""));
}

/* A large set of headers has all letters as names. */
static void test_letters_in_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_found;
    } cases[] = {{"_ D A T E", false}, {"__TIM E __", true}, {"## _ D A T E", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kilni_words words = {.list = &kilni_clock_words};
        kilni_words_scan(&words, "##", 2);
        kilni_words_scan_file(&words, cases[i].text, strlen(cases[i].text));
        assert_int_equal(kilni_words_found(&words) != 0, cases[i].is_found);
    }
}

/* ---- reads ---- */

static kilni_reads *new_reads(const char *name)
{
    kilni_reads *reads = NULL;
    assert_int_equal(kilni_reads_new(name, &kilni_clock_words, &reads), KILN_OK);
    return reads;
}

static kilni_text finish(kilni_reads *reads, bool moves)
{
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    assert_int_equal(kilni_reads_finish(reads, moves, &words, &encoded, &why), KILN_OK);
    kilni_reads_free(&reads);
    assert_null(reads);
    return encoded;
}

static kiln_status hold(const kilni_text *encoded, const char *name)
{
    return kilni_reads_hold((kiln_bytes){encoded->bytes, encoded->length}, name, NULL);
}

/* Which paths lead to the same folder, whether or not a link. */
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
    kilni_text encoded = finish(reads, false);
    assert_int_equal(hold(&encoded, NULL), KILN_OK);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("two", "link"), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(mkdir("link", 0700), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
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
    kilni_text encoded = finish(reads, false);
    assert_int_equal(hold(&encoded, NULL), KILN_OK);
    assert_int_equal(hold(&encoded, "k.cu"), KILN_OK);

    write_file("a.h", "two");
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    write_file("a.h", "one");
    assert_int_equal(hold(&encoded, NULL), KILN_OK);

    write_file("absent.h", "");
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("absent.h"), 0);

    assert_int_equal(rmdir("folder"), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    write_file("folder", "");
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("folder"), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_OK);

    /* The same content, but a different file than a.h. */
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("b.h", "link"), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    assert_int_equal(unlink("b.h"), 0);
    assert_int_equal(hold(&encoded, NULL), KILN_MISS);
    kilni_text_done(&encoded);
}

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

static void test_reads_of_a_file_that_changes_meanwhile(void **state)
{
    (void)state;
    write_file("a.h", "one");
    kilni_reads *reads = new_reads(NULL);
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    const char *why = NULL;
    kilni_reads_note(reads, "a.h");
    write_file("a.h", "two");
    assert_int_equal(kilni_reads_finish(reads, false, &words, &encoded, &why), KILN_MISS);
    assert_string_equal(why, "files changed during the compilation");
    kilni_reads_free(&reads);
}

static void test_reads_find_words_of_time(void **state)
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
        kilni_text encoded = finish(reads, moves);
        assert_int_equal(hold(&encoded, one), KILN_OK);
        assert_int_equal(hold(&encoded, two), KILN_MISS); /* no header there, or the wrong folder */
        write_file("a_longer_two/a.h", "header");
        assert_int_equal(hold(&encoded, two), moves ? KILN_OK : KILN_MISS);
        assert_int_equal(hold(&encoded, NULL), KILN_MISS);
        assert_int_equal(unlink("a_longer_two/a.h"), 0);
        kilni_text_done(&encoded);
    }
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

/* What the visitor saw, a line for each read. */
typedef struct visits {
    char text[512];
    size_t count, count_max;
} visits;

static int visit(void *user, const kilni_read *read)
{
    visits *t = user;
    const size_t length = strlen(t->text);
    snprintf(t->text + length, sizeof t->text - length, "%s%s %u %u %s\n",
             read->counts_from_program ? "." : "", read->path, (unsigned)read->found,
             (unsigned)read->size, kiln_status_name(read->now));
    return ++t->count == t->count_max;
}

static int visit_public(void *user, const kiln_nvrtc_read *read)
{
    return visit(user, &(kilni_read){.path = read->path,
                                     .found = (kilni_finding)read->found,
                                     .counts_from_program = read->counts_from_program != 0,
                                     .size = read->size,
                                     .now = read->now});
}

#define EXPECT_TOLD(encoded, expected)                                                             \
    do {                                                                                           \
        visits t = {0};                                                                            \
        assert_int_equal(                                                                          \
            kilni_reads_each((kiln_bytes){(encoded).bytes, (encoded).length}, visit, &t),          \
            KILN_OK);                                                                              \
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
    kilni_text encoded = finish(reads, false);
    EXPECT_TOLD(encoded, "a.h 2 3 KILN_OK\nb.h 2 4 KILN_OK\nlink 4 0 KILN_OK\nabsent.h 1 0 "
                         "KILN_OK\nfolder 3 0 KILN_OK\n");

    /* All that differ, not only the first; one that cannot be read is not a difference. */
    write_file("a.h", "two");
    write_file("absent.h", "");
    assert_int_equal(unlink("b.h"), 0);
    assert_int_equal(symlink("/dev/null", "b.h"), 0);
    EXPECT_TOLD(encoded, "a.h 2 3 KILN_MISS\nb.h 2 4 KILN_E_UNSUPPORTED\nlink 4 0 "
                         "KILN_OK\nabsent.h 1 0 KILN_MISS\nfolder 3 0 KILN_OK\n");

    visits first = {.count_max = 1};
    assert_int_equal(kilni_reads_each((kiln_bytes){encoded.bytes, encoded.length}, visit, &first),
                     KILN_OK);
    assert_string_equal(first.text, "a.h 2 3 KILN_MISS\n");
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
    for (int moves = 0; moves < 2; moves++) {
        kilni_reads *reads = new_reads(name);
        kilni_reads_note(reads, header);
        kilni_reads_note(reads, link_path);
        kilni_text encoded = finish(reads, moves);
        if (moves) {
            /* It is not known either whether the link leads to the same file. */
            snprintf(expected, sizeof expected,
                     ".a.h 2 6 KILN_E_UNSUPPORTED\n%s 2 6 KILN_E_UNSUPPORTED\n", link_path);
        } else {
            snprintf(expected, sizeof expected,
                     "%s/ 5 0 KILN_E_UNSUPPORTED\n%s 2 6 KILN_OK\n%s 2 6 KILN_OK\n", s->path,
                     header, link_path);
        }
        EXPECT_TOLD(encoded, expected);
        kilni_text_done(&encoded);
    }
    assert_int_equal(unlink(link_path), 0);
}

static void test_damaged_reads(void **state)
{
    (void)state;
    write_file("a.h", "one");
    assert_int_equal(symlink("a.h", "link"), 0);
    kilni_reads *reads = new_reads("/x/k.cu");
    kilni_reads_note(reads, "a.h");
    kilni_reads_note_link(reads, "link");
    kilni_text encoded = finish(reads, false);
    for (size_t size = 0; size < encoded.length; size++) {
        char *cut = malloc(size + 1); /* the exact size, for sanitizers */
        memcpy(cut, encoded.bytes, size);
        assert_int_equal(kilni_reads_hold((kiln_bytes){cut, size}, "/x/k.cu", NULL),
                         KILN_E_CORRUPT);
        visits t = {0};
        assert_int_equal(kilni_reads_each((kiln_bytes){cut, size}, visit, &t), KILN_E_CORRUPT);
        free(cut);
    }
    for (size_t i = 0; i < encoded.length; i++) {
        const char before = encoded.bytes[i];
        visits t = {0};
        encoded.bytes[i] = (char)(before ^ 0x81);
        kilni_reads_each((kiln_bytes){encoded.bytes, encoded.length}, visit, &t);
        assert_int_not_equal(hold(&encoded, "/x/k.cu"), KILN_OK);
        encoded.bytes[i] = before;
    }
    kilni_text_done(&encoded);
}

/* ---- outputs ---- */

/* The outputs of a program, as an NVRTC could return them. */
static struct {
    const char *log;
    size_t log_size; /* 0: that of the text, with its terminating zero */
    const char *ptx;
    const char *cubin;
    size_t cubin_size;
    int cubin_result;
} answers;

static size_t log_bytes(void)
{
    return answers.log_size > 0 ? answers.log_size : strlen(answers.log) + 1;
}

static int log_size(kilni_nvrtc_program p, size_t *ret_size)
{
    (void)p;
    *ret_size = log_bytes();
    return 0;
}

static int get_log(kilni_nvrtc_program p, char *bytes)
{
    (void)p;
    memcpy(bytes, answers.log, log_bytes());
    return 0;
}

static int ptx_size(kilni_nvrtc_program p, size_t *ret_size)
{
    (void)p;
    *ret_size = strlen(answers.ptx) + 1;
    return 0;
}

static int get_ptx(kilni_nvrtc_program p, char *bytes)
{
    (void)p;
    strcpy(bytes, answers.ptx);
    return 0;
}

static int cubin_size(kilni_nvrtc_program p, size_t *ret_size)
{
    (void)p;
    *ret_size = answers.cubin_size;
    return answers.cubin_result;
}

static int get_cubin(kilni_nvrtc_program p, char *bytes)
{
    (void)p;
    if (answers.cubin_result == 0) {
        memcpy(bytes, answers.cubin, answers.cubin_size);
    }
    return answers.cubin_result;
}

static int get_lowered_name(kilni_nvrtc_program p, const char *expression, const char **ret_name)
{
    (void)p;
    if (strcmp(expression, "bad") == 0) {
        return KILNI_NVRTC_NAME_NOT_VALID;
    }
    *ret_name = "_Z4good";
    return 0;
}

static const kilni_nvrtc_functions nvrtc = {
    .lowered_name = get_lowered_name,
    .size = {log_size, ptx_size, cubin_size},
    .get = {get_log, get_ptx, get_cubin},
};

static const char *const expressions[] = {"good", "bad"};

typedef struct taken {
    kilni_text encoded, code;
    bool moves;
} taken;

static taken take(const char *name, bool may_move)
{
    taken t = {.moves = true};
    assert_int_equal(kilni_nvrtc_outputs_take(&nvrtc, NULL, name, may_move, 2, expressions,
                                              &t.encoded, &t.code, &t.moves),
                     KILN_OK);
    return t;
}

static void taken_done(taken *t)
{
    kilni_text_done(&t->encoded);
    kilni_text_done(&t->code);
}

static kiln_status decode(const taken *t, const char *name, kilni_nvrtc_outputs *outputs)
{
    return kilni_nvrtc_outputs_decode((kiln_bytes){t->encoded.bytes, t->encoded.length},
                                      (kiln_bytes){t->code.bytes, t->code.length}, name, outputs);
}

static void assert_bytes(kiln_bytes bytes, const char *wanted, size_t size)
{
    assert_int_equal(bytes.size, size);
    assert_memory_equal(bytes.data, wanted, size);
}

static void assert_outputs(const kilni_nvrtc_outputs *o)
{
    assert_bytes(o->answers[KILNI_NVRTC_LOG].bytes, answers.log, strlen(answers.log) + 1);
    assert_int_equal(o->answers[KILNI_NVRTC_LOG].size, strlen(answers.log) + 1);
    assert_bytes(o->answers[KILNI_NVRTC_PTX].bytes, answers.ptx, strlen(answers.ptx) + 1);
    assert_int_equal(o->answers[KILNI_NVRTC_CUBIN].size_result, answers.cubin_result);
    assert_int_equal(o->answers[KILNI_NVRTC_CUBIN].get_result, answers.cubin_result);
    if (answers.cubin_result == 0 && answers.cubin_size > 0) {
        assert_bytes(o->answers[KILNI_NVRTC_CUBIN].bytes, answers.cubin, answers.cubin_size);
    }
    assert_false(o->answers[KILNI_NVRTC_LTOIR].is_known);
    assert_int_equal(o->name_count, 2);
    assert_string_equal(kilni_nvrtc_outputs_name(o, "good")->lowered, "_Z4good");
    assert_int_equal(kilni_nvrtc_outputs_name(o, "bad")->result, KILNI_NVRTC_NAME_NOT_VALID);
    assert_null(kilni_nvrtc_outputs_name(o, "never"));
}

static void test_outputs(void **state)
{
    (void)state;
    static const struct {
        const char *log, *ptx, *cubin;
        size_t size;
        int result;
        kilni_nvrtc_output code;
    } cases[] = {
        {"", "ptx", "\x7f\0ELF", 5, 0, KILNI_NVRTC_CUBIN},
        {"a warning\n", "ptx", "", 0, 0, KILNI_NVRTC_PTX},
        {"", "ptx", NULL, 7, 5, KILNI_NVRTC_PTX},
        {"", "", "", 0, 0, KILNI_NVRTC_LOG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        answers.log = cases[i].log;
        answers.ptx = cases[i].ptx;
        answers.cubin = cases[i].cubin;
        answers.cubin_size = cases[i].size;
        answers.cubin_result = cases[i].result;
        taken t = take("k.cu", false);
        assert_false(t.moves);
        kilni_nvrtc_outputs o;
        assert_int_equal(decode(&t, "k.cu", &o), KILN_OK);
        assert_outputs(&o);
        assert_int_equal(kilni_nvrtc_outputs_code(&o), cases[i].code);
        kilni_nvrtc_outputs_done(&o);
        taken_done(&t);
    }
}

static void test_outputs_in_another_folder(void **state)
{
    (void)state;
    answers.cubin = "code";
    answers.cubin_size = 4;
    answers.cubin_result = 0;
    answers.ptx = "ptx";
    static const char log[] = "/one/k.cu(1): warning\n/one/other.h(2): \"/one/k.cu\"\n\0";
    answers.log = log;
    answers.log_size = sizeof log; /* ptxas's messages end with two zeros */
    taken t = take("/one/k.cu", true);
    assert_true(t.moves);
    kilni_nvrtc_outputs o;
    assert_int_equal(decode(&t, "/a/longer/two/k.cu", &o), KILN_OK);
    static const char wanted[] =
        "/a/longer/two/k.cu(1): warning\n/a/longer/two/other.h(2): \"/a/longer/two/k.cu\"\n\0";
    assert_bytes(o.answers[KILNI_NVRTC_LOG].bytes, wanted, sizeof wanted);
    assert_int_equal(o.answers[KILNI_NVRTC_LOG].size, sizeof wanted);
    kilni_nvrtc_outputs_done(&o);
    taken_done(&t);

    answers.log_size = 0;
    answers.log = "in /other/one/x.h"; /* does not contain this folder */
    t = take("/one/k.cu", true);
    assert_false(t.moves);
    taken_done(&t);

    answers.log = "";
    static const char *const revealing[] = {
        ".b8 s[9] = {47, 111, 110, 101, 47, 107};",
        ".file \"/one/k.cu\"",
        ".weak .func _ZN40_INTERNAL_00000000_4_k_cu_3abfa044_82574",
        ".visible .global .u32 _ZN42_GLOBAL__N__00000000_4_k_cu_80a6563e_113386hiddenE",
        "a\n.visible .u32 "
        "_ZN27_INTERNAL_00000000_4_k_cu_k_ZN39_GLOBAL__N__00000000_4_k_cu_80a6563e_"
        "123x",
        ".alias "
        "_ZN34_INTERNAL_00000000_4_k_cu_6bf124263std3__440_GLOBAL__N__00000000_4_k_cu_80a6563e_"
        "1236ignoreE",
        ".extern .u32 _ZN42_GLOBAL__N__00000000_4_k_cu_80a6563e_113386hiddenE",
        ".common .u32 _ZN42_GLOBAL__N__00000000_4_k_cu_80a6563e_113386hiddenE",
        "_INTERNAL_00000000_4_k_cu_k",
        "_ZN999_INTERNAL_00000000_4_k_cu_k",
        "_ZN99999999999999999999999_INTERNAL_00000000_4_k_cu_k"};
    for (size_t i = 0; i < sizeof revealing / sizeof *revealing; i++) {
        answers.ptx = revealing[i];
        t = take("/one/k.cu", true);
        assert_false(t.moves);
        taken_done(&t);
    }
    /* The first symbol that is not hidden, and a checksum of one; names that no other program
     * sees. */
    static const char *const silent[] = {
        ".visible .entry k(\n.global .u32 _ZN42_GLOBAL__N__00000000_4_k_cu_80a6563e_113386hiddenE;",
        "_ZN27_INTERNAL_00000000_4_k_cu_k29_GLOBAL__N__00000000_4_k_cu_k6hiddenE",
        ("_ZN34_INTERNAL_00000000_4_k_cu_6bf124263std3__436_GLOBAL__N__00000000_4_k_cu_"
         "6bf124266ignoreE"),
        "_ZN34_INTERNAL_00000000_4_k_cu_6bf1242636_GLOBAL__N__00000000_4_k_cu_6bf124266hiddenE"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        answers.ptx = silent[i];
        t = take("/one/k.cu", true);
        assert_true(t.moves);
        taken_done(&t);
    }
    answers.ptx = "ptx";
    answers.cubin = "\0/one/";
    answers.cubin_size = 6;
    t = take("/one/k.cu", true);
    assert_false(t.moves);
    taken_done(&t);
    answers.ptx = ""; /* its symbols cannot be checked */
    answers.cubin = "code";
    answers.cubin_size = 4;
    t = take("/one/k.cu", true);
    assert_false(t.moves);
    taken_done(&t);
}

/* Decodes an output that the test made up, beside a code of four bytes. */
static kiln_status decode_beside(const char *code, kilni_nvrtc_output output, int size_result,
                                 uint64_t size, int get_result, int place)
{
    kilni_text encoded = {0};
    kilni_nvrtc_outputs o;
    const struct {
        uint64_t value;
        size_t width;
    } numbers[] = {{1, 4},
                   {output, 1},
                   {(uint32_t)size_result, 4},
                   {size, 8},
                   {(uint32_t)get_result, 4},
                   {(uint64_t)place, 1},
                   {0, 4}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_int_equal(kilni_append_number(&encoded, numbers[i].value, numbers[i].width),
                         KILN_OK);
    }
    const kiln_status status = kilni_nvrtc_outputs_decode(
        (kiln_bytes){encoded.bytes, encoded.length}, (kiln_bytes){code, 4}, NULL, &o);
    if (status == KILN_OK) {
        kilni_nvrtc_outputs_done(&o);
    }
    kilni_text_done(&encoded);
    return status;
}

static kiln_status decode_made_up(kilni_nvrtc_output output, int size_result, uint64_t size,
                                  int get_result, int place)
{
    return decode_beside("ptx", output, size_result, size, get_result, place);
}

/* The application has room for as many bytes as the size says, and treats PTX as text. */
static void test_made_up_outputs(void **state)
{
    (void)state;
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 4, 0, 1), KILN_OK);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 3, 0, 1), KILN_E_CORRUPT);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 1, 5, 1), KILN_E_CORRUPT);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 5, 4, 0, 1), KILN_E_CORRUPT);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 1, 5, 0), KILN_OK);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 5, 0, 0, 0), KILN_OK);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 0, 0, 2), KILN_E_CORRUPT);
    assert_int_equal(decode_made_up(KILNI_NVRTC_PTX, 0, 0, 0, 3), KILN_E_CORRUPT);
    assert_int_equal(decode_made_up(KILNI_NVRTC_OUTPUT_COUNT, 0, 0, 0, 0), KILN_E_CORRUPT);
    assert_int_equal(decode_beside("code", KILNI_NVRTC_CUBIN, 0, 4, 0, 1), KILN_OK);
    assert_int_equal(decode_beside("code", KILNI_NVRTC_PTX, 0, 4, 0, 1), KILN_E_CORRUPT);
}

static void test_damaged_outputs(void **state)
{
    (void)state;
    answers.log = "/one/k.cu(1): warning";
    answers.ptx = "ptx";
    answers.cubin = "code";
    answers.cubin_size = 4;
    answers.cubin_result = 0;
    taken t = take("/one/k.cu", true);
    kilni_nvrtc_outputs o;
    for (size_t size = 0; size < t.encoded.length; size++) {
        char *cut = malloc(size + 1);
        memcpy(cut, t.encoded.bytes, size);
        assert_int_equal(kilni_nvrtc_outputs_decode((kiln_bytes){cut, size},
                                                    (kiln_bytes){t.code.bytes, t.code.length}, NULL,
                                                    &o),
                         KILN_E_CORRUPT);
        free(cut);
    }
    for (size_t i = 0; i < t.encoded.length; i++) {
        const char before = t.encoded.bytes[i];
        t.encoded.bytes[i] = (char)(before ^ 0x80);
        if (decode(&t, NULL, &o) == KILN_OK) {
            kilni_nvrtc_outputs_done(&o);
        }
        t.encoded.bytes[i] = before;
    }
    taken_done(&t);
}

/* ---- results ---- */

static const unsigned char no_folds[4];

/* One function, which is not known, without any fold. */
static const unsigned char unknown_folds[] = {1, 0, 0, 0, 1, 0, 0, 0, 'f', 0, 0, 0, 0, 0};

/* Makes the entry of a result with a.h of that content, whose code is the same, and of the results
 * of an earlier entry.
 */
static kiln_entry *entry_of_folds(const kiln_entry *earlier, const char *content, kiln_bytes folds)
{
    kilni_text answers_text = {0}, payload = {0};
    write_file("a.h", content);
    kilni_reads *noted = new_reads(NULL);
    kilni_reads_note(noted, "a.h");
    kilni_text reads = finish(noted, false);
    answers.cubin = content;
    answers.cubin_size = strlen(content);
    taken outputs = take(NULL, false);
    const kilni_stored_result made = {.reads = {reads.bytes, reads.length},
                                      .folds = folds,
                                      .outputs = {outputs.encoded.bytes, outputs.encoded.length},
                                      .code = {outputs.code.bytes, outputs.code.length}};
    assert_int_equal(kilni_results_encode(&made, earlier, &answers_text, &payload), KILN_OK);
    kiln_entry *entry = new_entry((kiln_bytes){answers_text.bytes, answers_text.length},
                                  (kiln_bytes){payload.bytes, payload.length});
    kilni_text_done(&reads);
    taken_done(&outputs);
    kilni_text_done(&answers_text);
    kilni_text_done(&payload);
    return entry;
}

static kiln_entry *entry_after(const kiln_entry *earlier, const char *content)
{
    return entry_of_folds(earlier, content, (kiln_bytes){no_folds, sizeof no_folds});
}

/* Two results: with a.h containing "one", and with it containing "two". */
static kiln_entry *entry_of_two(void)
{
    kiln_entry *earlier = entry_after(NULL, "two"), *entry = entry_after(earlier, "one");
    kiln_entry_release(&earlier);
    assert_bytes(kiln_entry_payload(entry), "onetwo", 6);
    return entry;
}

static void test_results(void **state)
{
    (void)state;
    static const char *const contents[] = {"one", "two"};
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kiln_entry *entry = entry_of_two();
    kilni_stored_result found;
    for (size_t i = 0; i < 2; i++) {
        write_file("a.h", contents[i]);
        assert_int_equal(kilni_results_find(entry, NULL, &found, NULL), KILN_OK);
        assert_bytes(found.code, contents[i], 3);
    }
    write_file("a.h", "three");
    const char *changed = NULL;
    assert_int_equal(kilni_results_find(entry, NULL, &found, &changed), KILN_MISS);
    assert_string_equal(changed, "a.h");
    kiln_entry_release(&entry);
}

/* Results of the same files, but of functions that this process does not have. */
static void test_results_of_other_functions(void **state)
{
    (void)state;
    const kiln_bytes folds = {unknown_folds, sizeof unknown_folds};
    const char *changed = NULL;
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kilni_stored_result found;
    kiln_entry *other = entry_of_folds(NULL, "one", folds);
    assert_int_equal(kilni_results_find(other, NULL, &found, &changed), KILN_MISS);
    assert_string_equal(changed, "f");
    kiln_entry *both = entry_after(other, "one");
    assert_bytes(kiln_entry_payload(both), "oneone", 6);
    assert_int_equal(kilni_results_find(both, NULL, &found, NULL), KILN_OK);
    assert_int_equal(found.folds.size, sizeof no_folds);
    kiln_entry *again = entry_of_folds(both, "one", folds);
    assert_bytes(kiln_entry_payload(again), "oneone", 6);
    assert_int_equal(kilni_results_find(again, NULL, &found, NULL), KILN_OK);
    kiln_entry_release(&other);
    kiln_entry_release(&both);
    kiln_entry_release(&again);
}

/* Entries of older versions are not errors: a new result replaces them. */
static void check_older_version(unsigned char version)
{
    const unsigned char answers_of_it[] = {version, 0, 0, 0, 1, 0, 0, 0};
    const char *changed = "untouched";
    kilni_results results;
    kilni_stored_result found;
    visits t = {.count = 0};
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kiln_entry *old =
        new_entry((kiln_bytes){answers_of_it, sizeof answers_of_it}, (kiln_bytes){"code", 4});
    assert_int_equal(kilni_results_decode(old, &results), KILN_E_UNSUPPORTED);
    assert_int_equal(kilni_results_find(old, NULL, &found, &changed), KILN_MISS);
    assert_string_equal(changed, "untouched");
    assert_int_equal(kiln_nvrtc_each_read(old, 0, visit_public, &t), KILN_E_UNSUPPORTED);
    kiln_entry *entry = entry_after(old, "one");
    assert_bytes(kiln_entry_payload(entry), "one", 3);
    kiln_entry_release(&old);
    kiln_entry_release(&entry);
}

static void test_results_of_older_versions(void **state)
{
    (void)state;
    check_older_version(1);
    check_older_version(2);
}

/* The newest results come first, each once, and the oldest are dropped. */
static void test_results_of_earlier_entries(void **state)
{
    (void)state;
    static const char *const contents[] = {"one", "two", "ten", "two", "six", "few"};
    static const char *const expected[] = {"one",       "twoone",       "tentwoone",
                                           "twotenone", "sixtwotenone", "fewsixtwoten"};
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kiln_entry *entry = new_entry((kiln_bytes){"?", 1}, (kiln_bytes){"", 0});
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        kiln_entry *next = entry_after(entry, contents[i]);
        assert_bytes(kiln_entry_payload(next), expected[i], strlen(expected[i]));
        kiln_entry_release(&entry);
        entry = next;
    }
    kiln_entry_release(&entry);
}

static void test_results_are_visited(void **state)
{
    (void)state;
    static const char *const expected[] = {"a.h 2 3 KILN_OK\n", "a.h 2 3 KILN_MISS\n"};
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kiln_entry *entry = entry_of_two();
    visits t[3] = {{.count = 0}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kiln_nvrtc_each_read(entry, i, visit_public, &t[i]), KILN_OK);
        assert_string_equal(t[i].text, expected[i]);
    }
    assert_int_equal(kiln_nvrtc_each_read(entry, 2, visit_public, &t[2]), KILN_MISS);
    assert_int_equal(kiln_nvrtc_each_read(NULL, 0, visit_public, &t[2]), KILN_E_INVALID);
    assert_int_equal(kiln_nvrtc_each_read(entry, 0, NULL, NULL), KILN_E_INVALID);
    const kiln_bytes all = kiln_entry_answers(entry), payload = kiln_entry_payload(entry);
    kiln_entry *cut = new_entry((kiln_bytes){all.data, all.size - 1}, payload);
    assert_int_equal(kiln_nvrtc_each_read(cut, 0, visit_public, &t[2]), KILN_E_CORRUPT);
    kiln_entry_release(&cut);
    const char *const parts[] = {"source", "text"};
    kiln_key *key = new_key(parts, 2);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .answers = all,
                                      .payload = payload};
    kiln_entry *other = NULL;
    assert_int_equal(kiln_entry_new(&params, &other), KILN_OK);
    assert_int_equal(kiln_nvrtc_each_read(other, 0, visit_public, &t[2]), KILN_E_UNSUPPORTED);
    kiln_entry_release(&other);
    kiln_key_release(&key);
    assert_int_equal(t[2].count, 0);
    kiln_entry_release(&entry);
}

static void test_damaged_results(void **state)
{
    (void)state;
    kilni_results results;
    answers.log = "";
    answers.ptx = "ptx";
    kiln_entry *whole = entry_of_two();
    const kiln_bytes all = kiln_entry_answers(whole), payload = kiln_entry_payload(whole);
    for (size_t size = 0; size < all.size; size += 3) {
        kiln_entry *cut = new_entry((kiln_bytes){all.data, size}, payload);
        assert_int_equal(kilni_results_decode(cut, &results), KILN_E_CORRUPT);
        kiln_entry_release(&cut);
    }
    kiln_entry *cut = new_entry(all, (kiln_bytes){payload.data, payload.size - 1});
    assert_int_equal(kilni_results_decode(cut, &results), KILN_E_CORRUPT);
    kiln_entry_release(&cut);
    kiln_entry_release(&whole);
}

static void test_description(void **state)
{
    (void)state;
    const char *const parts[] = {"nvrtc.version", "13.0", "option", "-arch",  "option",
                                 "sm_90",         "name", "k.cu",   "source", "x"};
    kiln_key *key = new_key(parts, sizeof parts / sizeof *parts);
    answers.log = "a warning\n";
    answers.ptx = ".visible .entry one(\n.visible .entry two(";
    answers.cubin = "code";
    answers.cubin_size = 4;
    answers.cubin_result = 0;
    taken t = take(NULL, false);
    const kilni_stored_result made = {.outputs = {t.encoded.bytes, t.encoded.length},
                                      .code = {t.code.bytes, t.code.length}};
    kilni_nvrtc_description d = {0};
    assert_int_equal(kilni_nvrtc_describe(key, "k.cu", &made, &d), KILN_OK);
    assert_string_equal(d.device.bytes, "NVRTC 13.0 sm_90");
    assert_string_equal(d.name.bytes, "one two");
    assert_string_equal(d.log.bytes, "a warning\n");
    kilni_nvrtc_description_done(&d);
    taken_done(&t);
    kiln_key_release(&key);
}

/* ---- inputs and options ---- */

static void test_folder_of_a_name(void **state)
{
    (void)state;
    assert_int_equal(kilni_program_folder_length(NULL), 0);
    assert_int_equal(kilni_program_folder_length("k.cu"), 0);
    assert_int_equal(kilni_program_folder_length("a/k.cu"), 0);
    assert_int_equal(kilni_program_folder_length("/k.cu"), 1);
    assert_int_equal(kilni_program_folder_length("/a/b/k.cu"), 5);
    assert_int_equal(kilni_program_folder_length("/a/b/"), 0);
}

static void test_options(void **state)
{
    (void)state;
    kilni_nvrtc_options o;
    const char *text = " -DA -D B=2 \t-Ione -I two --include-path=three -I=\"a b\" "
                       "--kiln-name-expression=\"f<int, 2>\" -include x.h -lineinfo ";
    assert_int_equal(kilni_nvrtc_options_parse("sm_90", text, &o, NULL), KILN_OK);
    assert_int_equal(o.count, 12);
    assert_string_equal(o.items[0], "-arch=sm_90");
    assert_string_equal(o.items[1], "-DA");
    assert_string_equal(o.items[8], "-I=a b");
    assert_int_equal(o.expression_count, 1);
    assert_string_equal(o.expressions[0], "f<int, 2>");
    kilni_nvrtc_options_done(&o);

    assert_int_equal(kilni_nvrtc_options_parse("sm_90", "-arch=sm_80", &o, NULL), KILN_OK);
    assert_int_equal(o.count, 1);
    kilni_nvrtc_options_done(&o);
    /* A text that only looks like the option; blanks that NVRTC ignores. */
    text = "-I/x-arch/y \" \f-I one \" \"-D A\"\r--kiln-name-expression=\" f-arch=x \"";
    assert_int_equal(kilni_nvrtc_options_parse("sm_90", text, &o, NULL), KILN_OK);
    assert_int_equal(o.count, 4);
    assert_string_equal(o.items[0], "-arch=sm_90");
    assert_string_equal(o.items[2], "-I one");
    assert_string_equal(o.expressions[0], " f-arch=x ");
    kilni_nvrtc_options_done(&o);
    assert_int_equal(kilni_nvrtc_options_parse("sm_90", "-G --gpu-architecture sm_80", &o, NULL),
                     KILN_OK);
    assert_int_equal(o.count, 3);
    assert_string_equal(o.items[0], "-G");
    kilni_nvrtc_options_done(&o);
    assert_int_equal(kilni_nvrtc_options_parse(NULL, NULL, &o, NULL), KILN_OK);
    assert_int_equal(o.count, 0);
    kilni_nvrtc_options_done(&o);
    assert_int_equal(kilni_nvrtc_options_parse(NULL, "-D\"A", &o, NULL), KILN_E_BUILD);
    kilni_nvrtc_options_done(&o);
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
        status = kilni_reads_finish(reads, true, &words, &encoded, &why);
        kilni_reads_free(&reads);
    }
    if (status == KILN_OK) {
        status = hold(&encoded, "/x/k.cu");
    }
    kilni_text_done(&encoded);
    return status;
}

static kiln_status take_and_decode(void)
{
    taken t = {0};
    kilni_nvrtc_outputs o = {0};
    kiln_status status = kilni_nvrtc_outputs_take(&nvrtc, NULL, "/one/k.cu", true, 2, expressions,
                                                  &t.encoded, &t.code, &t.moves);
    if (status == KILN_OK) {
        status = decode(&t, "/two/k.cu", &o);
        if (status == KILN_OK) {
            kilni_nvrtc_outputs_done(&o);
        }
    }
    taken_done(&t);
    return status;
}

static kiln_status parse_options(void)
{
    kilni_nvrtc_options o;
    const kiln_status status =
        kilni_nvrtc_options_parse("sm_90", "-DA -I x --kiln-name-expression=f", &o, NULL);
    kilni_nvrtc_options_done(&o);
    return status;
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    static kiln_status (*const calls[])(void) = {read_and_hold, take_and_decode, parse_options};
    answers.log = "/one/k.cu(1)";
    answers.ptx = "ptx";
    answers.cubin = "code";
    answers.cubin_size = 4;
    answers.cubin_result = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        check_each_allocation(calls[i]);
    }
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
        cmocka_unit_test(test_words_of_time),
        cmocka_unit_test(test_letters_in_files),
        IN_SCRATCH(test_reads_of_equal_folders),
        IN_SCRATCH(test_reads_hold_while_nothing_changes),
        IN_SCRATCH(test_reads_that_cannot_be_checked),
        IN_SCRATCH(test_reads_of_a_file_that_changes_meanwhile),
        IN_SCRATCH(test_reads_find_words_of_time),
        IN_SCRATCH(test_reads_in_a_programs_folder),
        IN_SCRATCH(test_reads_that_name_the_folder),
        IN_SCRATCH(test_reads_are_visited),
        IN_SCRATCH(test_reads_in_a_programs_folder_are_visited),
        IN_SCRATCH(test_damaged_reads),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_outputs_in_another_folder),
        cmocka_unit_test(test_made_up_outputs),
        cmocka_unit_test(test_damaged_outputs),
        IN_SCRATCH(test_results),
        IN_SCRATCH(test_results_of_other_functions),
        IN_SCRATCH(test_results_of_older_versions),
        IN_SCRATCH(test_results_of_earlier_entries),
        IN_SCRATCH(test_results_are_visited),
        IN_SCRATCH(test_damaged_results),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_folder_of_a_name),
        cmocka_unit_test(test_options),
        IN_SCRATCH(test_memory_runs_out),
        IN_SCRATCH(test_system_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
