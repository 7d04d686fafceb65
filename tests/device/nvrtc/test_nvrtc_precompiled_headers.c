/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that use headers which NVRTC precompiled for other programs, and what logs say about
 * these headers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/compiler.h"
#include "device/nvrtc/log.h"
#include "device/nvrtc/precompiled_headers.h"
#include "support/nvrtc_scene.h"
#include "support/read_scene.h"

#define REMARK "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n"

/* In this test, a program is its log. */
static int get_size(kilni_nvrtc_program program, size_t *ret_size)
{
    *ret_size = strlen((const char *)program) + 1;
    return KILNI_NVRTC_SUCCESS;
}

static int get_log(kilni_nvrtc_program program, char *bytes)
{
    strcpy(bytes, (const char *)program); /* NOLINT: the caller has asked for the size */
    return KILNI_NVRTC_SUCCESS;
}

static const kilni_nvrtc_functions nvrtc = {.size = {[KILNI_NVRTC_LOG] = get_size},
                                            .get = {[KILNI_NVRTC_LOG] = get_log}};

/* Writes a message about a header with this number. The caller frees it. */
static char *message(const char *name, const char *action, unsigned number)
{
    char own[KILNI_NVRTC_HEADER_FOLDER_SIZE];
    kilni_text text = {0};
    kilni_nvrtc_name_header_folder(own);
    assert_int_equal(kilni_text_printf(&text,
                                       "\"%s\": %s precompiled header file \"/tmp%s0/k_%u.pch\"\n",
                                       name, action, own, number),
                     KILN_OK);
    return text.bytes;
}

typedef struct program {
    const char *source, *name, *header, *option;
} program;

/* Compiles a program that reads a.h, and folds a constant if it makes the header. Returns why it
 * cannot be kept. */
static const char *compile(const program *of, const char *action, unsigned number,
                           kilni_text *ret_folds)
{
    const char *const header_names[] = {"x.h"}, *const headers[] = {of->header};
    const char *const options[] = {" --pch", of->option};
    const kilni_inputs inputs = {.compiler = &kilni_nvrtc_compiler_with_headers,
                                 .source = of->source,
                                 .name = of->name,
                                 .header_count = 1,
                                 .headers = headers,
                                 .header_names = header_names,
                                 .option_count = 2,
                                 .options = options};
    const bool makes = strcmp(action, "creating") == 0;
    const kilni_fold fold = {.function = 0, .arguments = {1, 2}, .result = 3};
    char *log = message(of->name, action, number);
    kilni_words words = {.list = &kilni_clock_words};
    kilni_text encoded = {0};
    kilni_reads *reads = new_reads(NULL);
    kilni_folds *folds = NULL;
    assert_int_equal(kilni_folds_new(&folds), KILN_OK);
    if (makes) {
        kilni_reads_note(reads, "a.h");
        kilni_folds_note(folds, &fold);
    }
    const char *why = kilni_nvrtc_follow_precompiled_headers(&nvrtc, (kilni_nvrtc_program)log,
                                                             &inputs, reads, folds);
    if (!why && kilni_reads_finish(reads, false, &words, &encoded, &why) == KILN_OK) {
        assert_true(kilni_reads_has_any(reads));
        assert_int_equal(kilni_folds_finish(folds, ret_folds, &why), KILN_OK);
    }
    kilni_text_done(&encoded);
    kilni_reads_free(&reads);
    kilni_folds_free(&folds);
    free(log);
    return why;
}

static void test_programs_that_use_a_header(void **state)
{
    (void)state;
    static const program maker = {"\n#include <a.h>\nint a;", "k.cu", "int x;", "-DA"};
    static const struct {
        program user;
        bool is_kept;
    } cases[] = {
        {{"\n#include <a.h>\nint a;", "k.cu", "int x;", "-DA"}, true},
        {{"\n#include <a.h>\nint b;", "k.cu", "int x;", "-DA"}, true},
        {{"\n\n#include <a.h>\nint a;", "k.cu", "int x;", "-DA"}, false},
        {{"\n#include <a.h>\n#define B\nint a;", "k.cu", "int x;", "-DA"}, false},
        {{"\n#include <a.h>\n%:define B\nint a;", "k.cu", "int x;", "-DA"}, false},
        {{"\n#include <a.h> // 1\nint a;", "k.cu", "int x;", "-DA"}, false},
        {{"\n#include <a.h>\nint a;", "l.cu", "int x;", "-DA"}, false},
        {{"\n#include <a.h>\nint a;", "k.cu", "int y;", "-DA"}, false},
        {{"\n#include <a.h>\nint a;", "k.cu", "int x;", "-DB"}, false},
    };
    write_file("a.h", "one");
    kilni_text made = {0};
    assert_null(compile(&maker, "creating", 1, &made));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kilni_text used = {0};
        const char *why = compile(&cases[i].user, "using", 1, &used);
        if (cases[i].is_kept) {
            assert_null(why);
            assert_int_equal(used.length, made.length);
            assert_memory_equal(used.bytes, made.bytes, made.length);
        } else {
            assert_string_equal(why,
                                "it uses a precompiled header that was made from different inputs");
        }
        kilni_text_done(&used);
    }
    assert_string_equal(compile(&maker, "using", 2, &made),
                        "it uses a precompiled header whose compilation was not observed");
    assert_string_equal(compile(&maker, "seeing", 1, &made),
                        "the log does not name the precompiled header");
    write_file("a.h", "two");
    assert_string_equal(compile(&maker, "using", 1, &made), "files changed during the compilation");
    kilni_text_done(&made);
}

static void *make_and_use(void *user)
{
    static const program of = {"#include <a.h>\n", "k.cu", "", "-DA"};
    const unsigned number = *(const unsigned *)user;
    for (unsigned i = 0; i < 20; i++) {
        kilni_text made = {0}, used = {0};
        assert_null(compile(&of, "creating", number + i, &made));
        assert_null(compile(&of, "using", number + i, &used));
        kilni_text_done(&made);
        kilni_text_done(&used);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static unsigned numbers[] = {100, 200, 300};
    pthread_t threads[3];
    write_file("a.h", "one");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_use, &numbers[i]), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        bool precompiles;
    } cases[] = {{"-pch", true},      {"--pch", true},    {" --pch\t", true},     {"pch", false},
                 {"-pchx", false},    {"--pch=x", false}, {"--pch-dir=x", false}, {"-p", false},
                 {"-DX=-pch", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(kilni_nvrtc_precompiles_headers(1, &cases[i].option),
                         cases[i].precompiles);
    }
}

static void test_paths(void **state)
{
    (void)state;
    char own[KILNI_NVRTC_HEADER_FOLDER_SIZE];
    char path[2 * KILNI_NVRTC_HEADER_FOLDER_SIZE];
    kilni_nvrtc_name_header_folder(own);
    static const struct {
        const char *before, *after;
        bool is_own;
    } cases[] = {{"/tmp", "0/k_0.pch", true}, {"/tmp", "0", true}, {"/tmp", "0/../a.h", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s%s%s", cases[i].before, own, cases[i].after);
        assert_int_equal(kilni_nvrtc_is_precompiled_header(NULL, path), cases[i].is_own);
    }
    snprintf(path, sizeof path, "/tmp/edg12_%ld", (long)getpid());
    assert_true(kilni_nvrtc_is_precompiled_header(NULL, path));
    strcat(path, "0"); /* NOLINT: the path is short */
    assert_false(kilni_nvrtc_is_precompiled_header(NULL, path));
    assert_false(kilni_nvrtc_is_precompiled_header(NULL, "/tmp/__nvrtc_auto_pch_0_0/k_0.pch"));
    assert_false(kilni_nvrtc_is_precompiled_header(NULL, "a.h"));
}

static void test_messages_are_removed(void **state)
{
    (void)state;
    static const char *const others[][2] = {
        {"", ""},
        {"k.cu(1): warning\n", "k.cu(1): warning\n"},
        {REMARK, ""},
        {REMARK "k.cu(1): warning\n", REMARK "k.cu(1): warning\n"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *one = message("k.cu", "using", 1), log[1024];
        snprintf(log, sizeof log, "Warning: %s\n%s%s", one, others[i][0], one);
        assert_true(kilni_nvrtc_log_remove_headers(log));
        assert_string_equal(log, others[i][1]);
        free(one);
    }
    char none[] = REMARK "\"/tmp/__nvrtc_auto_pch_0_0/k_0.pch\"\n";
    assert_false(kilni_nvrtc_log_remove_headers(none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_programs_that_use_a_header),
        IN_SCRATCH(test_threads),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_messages_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
