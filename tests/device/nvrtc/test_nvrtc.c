/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests device/nvrtc with the libnvrtc in the arguments, which is a stand-in or the real one: the
 * record of what a compilation returned, and the device ops.
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
#include <unistd.h>

#include <sodium.h>

#include <kiln/nvrtc.h>

#include "device/nvrtc/description.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/options.h"
#include "device/nvrtc/outputs.h"
#include "device/watch/encoding.h"
#include "device/watch/inputs.h"
#include "device/watch/results.h"
#include "device/watch/scanned_files.h"
#include "device/watch/words.h"
#include "support/nvrtc_scene.h"
#include "support/read_scene.h"

/* ---- __DATE__, __TIME__ and __TIMESTAMP__ ---- */

static const char *refusal_of(size_t count, const char *const *texts)
{
    kilni_words words = {.list = &kilni_clock_words};
    for (size_t i = 0; i < count; i++) {
        kilni_words_scan(&words, texts[i], strlen(texts[i]));
    }
    return kilni_clock_words_refusal(&words);
}

static bool has_word_of_time(size_t count, const char *const *texts)
{
    const char *refusal = refusal_of(count, texts);
    return refusal && strcmp(refusal, "__DATE__, __TIME__ or __TIMESTAMP__") == 0;
}

#define HAS_CLOCK_WORD(...)                                                                        \
    has_word_of_time(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                       \
                     (const char *[]){__VA_ARGS__})

static void test_clock_words(void **state)
{
    (void)state;
    assert_true(HAS_CLOCK_WORD("__DATE__"));
    assert_true(HAS_CLOCK_WORD("x=__TIME__;"));
    assert_true(HAS_CLOCK_WORD("", "__TIMESTAMP__"));
    assert_true(HAS_CLOCK_WORD("__TI\\\nME__"));
    assert_true(HAS_CLOCK_WORD("__TI\\ \t\r\n\\\nME__"));
    assert_true(HAS_CLOCK_WORD("a ## b __TI ME__"));
    assert_true(HAS_CLOCK_WORD("a #\\\n# b __TI ME__"));
    assert_true(HAS_CLOCK_WORD("a %:%: b", "__TI", "ME__"));
    assert_true(HAS_CLOCK_WORD("## _ D A T E"));
    assert_true(HAS_CLOCK_WORD("__TI?\?/\nME__")); /* trigraphs, as in older languages */
    assert_true(HAS_CLOCK_WORD("a ?\?=?\?= b __TI ME__"));
    assert_false(HAS_CLOCK_WORD("__TI?\?-\nME__"));
    assert_true(HAS_CLOCK_WORD("##", "_ D A T E"));
    assert_false(HAS_CLOCK_WORD("__DATE__x __DATE_ DATE__ __TIME"));
    assert_false(HAS_CLOCK_WORD("__TI ME__"));
    assert_false(HAS_CLOCK_WORD("__TI \\\n ME__"));
    assert_false(HAS_CLOCK_WORD(""));
}

static void test_lone_carriage_return_is_named(void **state)
{
    (void)state;
    const char *const texts[] = {"__DA\rTE", "int a;\r\n"};
    assert_string_equal(refusal_of(1, texts), "a carriage return without a newline");
    assert_null(refusal_of(1, texts + 1));
}

/* A large set of headers contains every letter as a name. */
static void test_one_letter_names_in_files(void **state)
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

/* ---- files that are scanned once ---- */

static kilni_words scanned(const kilni_word_list *list, const char *text)
{
    kilni_words words = {.list = list};
    kilni_path_facts facts = {.size = strlen(text)};
    crypto_generichash(facts.digest, sizeof facts.digest, (const unsigned char *)text, facts.size,
                       NULL, 0);
    kilni_scanned_files_scan(&words, &facts, text);
    return words;
}

static void assert_equal_words(const kilni_words *words, const kilni_words *expected)
{
    assert_int_equal(words->found, expected->found);
    assert_int_equal(words->beside, expected->beside);
    assert_int_equal(words->pastes, expected->pastes);
    assert_memory_equal(words->pieces, expected->pieces, sizeof words->pieces);
}

/* More files than are remembered, each twice, for two lists of words. */
static void test_a_file_has_the_same_words_at_each_scan(void **state)
{
    (void)state;
    static const char *const words[] = {"pragma_word"};
    static const kilni_word_list other = {.words = words, .count = 1, .pasted_count = 1};
    const kilni_word_list *const lists[] = {&kilni_clock_words, &other, &kilni_clock_words};
    static const char *const parts[] = {"## __TI ME__", "__DATE__", "pragma_word", "int x;"};
    for (int i = 0; i < 3000; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s int a%d;", parts[i % 4], i / 2 % 1200);
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
            kilni_words expected = {.list = lists[l]};
            kilni_words_scan_file(&expected, text, strlen(text));
            const kilni_words found = scanned(lists[l], text);
            assert_equal_words(&found, &expected);
        }
    }
}

/* ---- outputs ---- */

/* The outputs that NVRTC's functions return. */
static struct {
    const char *log;
    size_t log_size; /* 0: the size of the text with its terminating zero */
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
    /* These names contain the first visible symbol or a checksum of it, or are invisible to other
     * programs. */
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

/* Decodes an output that the test made up, with a code of four bytes. */
static kiln_status decode_with_code(const char *code, kilni_nvrtc_output output, int size_result,
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
    return decode_with_code("ptx", output, size_result, size, get_result, place);
}

/* The application's buffer has as many bytes as the size function reports, and PTX is treated as
 * text. */
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
    assert_int_equal(decode_with_code("code", KILNI_NVRTC_CUBIN, 0, 4, 0, 1), KILN_OK);
    assert_int_equal(decode_with_code("code", KILNI_NVRTC_PTX, 0, 4, 0, 1), KILN_E_CORRUPT);
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

/* A record that contains one unknown function and no folds. */
static const unsigned char unknown_folds[] = {1, 0, 0, 0, 1, 0, 0, 0, 'f', 0, 0, 0, 0, 0};

/* Makes an entry that contains the results of @earlier and a new result. The new result comes from
 * an a.h that contains @content, and its code is @content.
 */
static kiln_entry *entry_of_folds(const kiln_entry *earlier, const char *content, kiln_bytes folds)
{
    kilni_text answers_text = {0}, payload = {0};
    write_file("a.h", content);
    kilni_reads *noted = new_reads(NULL);
    kilni_reads_note(noted, "a.h");
    kilni_text reads = finish_reads(noted, false);
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

/* Makes an entry with two results, for a.h containing "one" and for a.h containing "two". */
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

/* Results from the same files, but with folds of functions that this process does not have. */
static void test_results_of_missing_functions(void **state)
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
    assert_int_equal(kiln_nvrtc_each_read(old, 0, visit_read, &t), KILN_E_UNSUPPORTED);
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

/* An entry keeps the newest results first and each of them once, and drops the oldest. */
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
    static const char *const expected[] = {"a.h 2 3 KILN_OK 2\n", "a.h 2 3 KILN_MISS 2\n"};
    answers.log = "";
    answers.ptx = "ptx";
    answers.cubin_result = 0;
    kiln_entry *entry = entry_of_two();
    visits t[3] = {{.count = 0}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kiln_nvrtc_each_read(entry, i, visit_read, &t[i]), KILN_OK);
        assert_string_equal(t[i].text, expected[i]);
    }
    assert_int_equal(kiln_nvrtc_each_read(entry, 2, visit_read, &t[2]), KILN_MISS);
    assert_int_equal(kiln_nvrtc_each_read(NULL, 0, visit_read, &t[2]), KILN_E_INVALID);
    assert_int_equal(kiln_nvrtc_each_read(entry, 0, NULL, NULL), KILN_E_INVALID);
    const kiln_bytes all = kiln_entry_answers(entry), payload = kiln_entry_payload(entry);
    kiln_entry *cut = new_entry((kiln_bytes){all.data, all.size - 1}, payload);
    assert_int_equal(kiln_nvrtc_each_read(cut, 0, visit_read, &t[2]), KILN_E_CORRUPT);
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
    assert_int_equal(kiln_nvrtc_each_read(other, 0, visit_read, &t[2]), KILN_E_UNSUPPORTED);
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

static void test_program_folder(void **state)
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
    static kiln_status (*const calls[])(void) = {take_and_decode, parse_options};
    answers.log = "/one/k.cu(1)";
    answers.ptx = "ptx";
    answers.cubin = "code";
    answers.cubin_size = 4;
    answers.cubin_result = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        check_each_allocation(calls[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_words),
        cmocka_unit_test(test_lone_carriage_return_is_named),
        cmocka_unit_test(test_one_letter_names_in_files),
        cmocka_unit_test(test_a_file_has_the_same_words_at_each_scan),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_outputs_in_another_folder),
        cmocka_unit_test(test_made_up_outputs),
        cmocka_unit_test(test_damaged_outputs),
        IN_SCRATCH(test_results),
        IN_SCRATCH(test_results_of_missing_functions),
        IN_SCRATCH(test_results_of_older_versions),
        IN_SCRATCH(test_results_of_earlier_entries),
        IN_SCRATCH(test_results_are_visited),
        IN_SCRATCH(test_damaged_results),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_program_folder),
        cmocka_unit_test(test_options),
        IN_SCRATCH(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
