/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/opencl/build_key.h"
#include "device/opencl/inputs.h"
#include "support/failing_malloc.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- the inputs of one build ---- */

typedef struct outcome {
    kiln_status status;
    kiln_key *key;
    kilni_opencl_texts texts;
    kiln_error error;
} outcome;

static outcome inputs_of_source(const kiln_program_source *source,
                                const kilni_opencl_headers *headers, bool can_watch)
{
    outcome o = {.error = {.struct_size = sizeof o.error}};
    kiln_key_builder *builder;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    o.status = kilni_opencl_add_inputs(source, headers, can_watch, builder, &o.texts, &o.error);
    if (o.status == KILN_OK) {
        assert_int_equal(kiln_key_builder_finish(builder, &o.key), KILN_OK);
    }
    kiln_key_builder_free(&builder);
    return o;
}

static outcome inputs_of_bytes(const void *code, size_t size, const char *options, bool can_watch)
{
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {.data = code, .size = size},
                                        .options = options};
    return inputs_of_source(&source, &(kilni_opencl_headers){0}, can_watch);
}

static outcome inputs_of(const char *code, const char *options)
{
    return inputs_of_bytes(code, strlen(code), options, true);
}

static void outcome_done(outcome *o)
{
    kiln_key_release(&o->key);
}

static bool has_part(const kiln_key *key, const char *name)
{
    bool has = false;
    for (size_t i = 0; i < kiln_key_part_count(key); i++) {
        kiln_key_part part;
        assert_int_equal(kiln_key_part_at(key, i, &part), KILN_OK);
        has |= strcmp(part.name, name) == 0;
    }
    return has;
}

/* With a driver that can be watched, a build that may read files has a key. With any other driver
 * it has none.
 */
static void expect_reads(const char *code, size_t size, const char *options, bool may_read)
{
    outcome watched = inputs_of_bytes(code, size, options, true);
    outcome other = inputs_of_bytes(code, size, options, false);
    if (watched.status != KILN_OK || watched.texts.may_read != may_read ||
        has_part(watched.key, "reads") != may_read ||
        other.status != (may_read ? KILN_E_UNSUPPORTED : KILN_OK)) {
        fail_msg("<<%s>> with %s: %s %s, may read: %d", code, options ? options : "none",
                 kiln_status_name(watched.status), watched.error.text, watched.texts.may_read);
    }
    outcome_done(&watched);
    outcome_done(&other);
}

static void expect_refused(const char *code, const char *options, const char *reason)
{
    outcome o = inputs_of(code, options);
    if (o.status != KILN_E_UNSUPPORTED || !strstr(o.error.text, reason)) {
        fail_msg("<<%s>> with %s: %s %s, expected a refusal for %s", code,
                 options ? options : "none", kiln_status_name(o.status), o.error.text, reason);
    }
    outcome_done(&o);
}

static int same_key(const char *a, const char *a_options, const char *b, const char *b_options)
{
    outcome x = inputs_of(a, a_options), y = inputs_of(b, b_options);
    assert_int_equal(x.status, KILN_OK);
    assert_int_equal(y.status, KILN_OK);
    int same = kiln_key_equals(x.key, y.key);
    outcome_done(&x);
    outcome_done(&y);
    return same;
}

/* ---- texts ---- */

static void recognizes_sources_that_may_read_files(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        const char *options;
    } cases[] = {
        {"#include \"h.h\"\n", NULL},
        {"\xEF\xBB\xBF#include \"h.h\"\n", NULL},
        {"#include_next <h.h>\n", NULL},
        {"#import <h.h>\n", NULL},
        {"#__include_macros <h.h>\n", NULL},
        {"%:include \"h.h\"\n", NULL},
        {"?\?=include \"h.h\"\n", NULL},
        {"#/**/include/* x */\"h.h\"\n", NULL},
        {"#inc\\\nlude \"h.h\"\n", NULL},
        {"#inc\\ \t\v\nlude \"h.h\"\n", NULL},
        {"#inc\\\r\nlude \"h.h\"\n", NULL},
        {"#inc?\?/\nlude \"h.h\"\n", NULL},
        {"// \\ \n#include \"h.h\"\n", NULL},
        {"#warning see /* here\n#include \"h.h\"\n*/\n", NULL},
        {"char *s = R\"(\n#include \"h.h\"\n)\";\n", NULL},
        {"#embed \"h.h\"\n", NULL},
        {"#if __has_embed(\"h.h\")\n#endif\n", NULL},
        {"#if __has_include(\"h.h\")\n#endif\n", NULL},
        {"#if 0\n#elif __has_include_next(\"h.h\")\n#endif\n", NULL},
        {"#define P(a) __has_##a\n#if P(include)(\"h.h\")\n", NULL},
        {"#define P(a, b) a%:%:b\n#if P(__has_inc, lude)(\"h.h\")\n", NULL},
        {"#if HAS(\"h.h\")\n", "-DHAS=__has_include"},
        {"#if HAS(\"h.h\")\n", "-DHAS=__has\"_inc\"lude"},
        {"#define P(a, b) a##b\n#if P(X, Y)(\"h.h\")\n", "-DX=__has_ -DY=include"},
        {"kernel void k(void) {}", "-include h.h"},
        {"#pragma include_alias(\"a.h\", \"h.h\")\n", NULL},
        {"#pragma clang module import h\n", NULL},
        {"#pragma source \"h.h\"\n", NULL},
        {"#pragma /*\n*/ source \"h.h\"\n", NULL},
        {"#pragma message /*\n*/ \"h.h\"\n", NULL},
        {"#define D(x) _Pragma(#x)\nD(clang module import h)\n", NULL},
        {"#define P(a) _##a\nP(Pragma)(\"x\")\nimplementation\n", NULL},
        {"__pragma(hdrstop)\n", NULL},
        {"// include\n", NULL},
        {"__asm__(\"nop\");\n#include \"h.h\"\n", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_reads(cases[i].code, strlen(cases[i].code), cases[i].options, true);
    }
    static const char hidden[] = "int a;\0\n\0#include \"h.h\"\n\0";
    expect_reads(hidden, sizeof hidden, NULL, true);
}

static void recognizes_sources_that_read_no_files(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        const char *options;
    } cases[] = {
        {"", NULL},
        {"kernel void k(void) {}", "-I x -DA \"-Ib c\" -DX=\"a b\""},
        {"#define A \\\n 1\n", NULL},
        {"int my__DATE__x, included, reimport;\n", NULL},
        {"#define P(a, b) a##b\nP(x, DATE)\nint T, E, D, A, _x;\n", NULL},
        {"#define P(a, b) a##b\nP(in, clude)\n", NULL},
        {"int module, dependency;\n", NULL},
        {"__asm__(\"atom.global.inc.u32\");\n", NULL},
        {"struct { int i, inc; } s;\nint f() { __asm__(\"nop\"); return s.i + s.inc; }\n", NULL},
        {"__asm__(\"mov.u32 %0, %%clock;\\n\\t\" : \"=r\"(x));\n", NULL},
        {"__asm__(\"add.cc.u32 \\\\x;\" \"\" \"vadd.inc;\");\n", NULL},
        {"char *s = \".incbin\";\n", NULL},
        {"char *s = \"What?\?=\";\n", NULL},
        {"#pragma once\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", NULL},
        {"_Pragma(\"unroll 4\")\n", NULL},
        {"#pragma clang diagnostic ignored \"-Wunused\"\n", NULL},
        {"#pragma message(\"hello\")\nchar *s = \"\";", NULL},
        {"#pragma unroll\n/* without a dependency */\n", NULL},
        {"/* It stops here. */\n__asm__(\"nop\");\nfloat f = 1. + .5f;\n"
         "#define V(...) 0\n",
         NULL},
        {"// Of 'A' and 'B'.\n// (As in f()). It ends.\n__asm__(\"nop\");\n"
         "#define J(a, b) a##b\n # \n",
         NULL},
        {"#define S(x) #x\n// (As in f()).\n", NULL},
        {"__asm__(\"nop\");\nfloat f = 1./x, g = 2.%3;\nchar *s = \"Done.\\n\";\n", NULL},
        {"#\n# 12 \"file.cl\"\n#line 3 \"x.cl\"\n", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_reads(cases[i].code, strlen(cases[i].code), cases[i].options, false);
    }
}

static void refuses_unknown_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        const char *reason;
    } cases[] = {
        {"int a = __TIME__;", "__TIME__"},
        {"#if 0\nchar *d = __DATE__;\n#endif", "__DATE__"},
        {"#define T __TIMESTAMP__\n", "__TIMESTAMP__"},
        {"__DA\\\nTE__\n", "__DATE__"},
        {"__DA\\\rTE__\n", "carriage return"},
        {"a\r#include \"h.h\"\n", "carriage return"},
        {"#inc\\\n\rlude \"h.h\"\n", "carriage return"},
        {"#define P(a, b) a##b\nP(__DA, TE__)\n", "__DATE__"},
        {"#define P(a, b, c, d) a %:%: b##c##d\nP(_, _TI, ME_, _)\n", "__TIME__"},
        {"#pragma GCC dependency \"h.h\"\n", "#pragma"},
        {"_Pragma(\"GCC dependency \\\"h.h\\\"\")\n", "#pragma"},
        {"#define D(x) _Pragma(#x)\n\nD(GCC dependency \"h.h\")\n", "#pragma"},
        {"#pragma GCC /*\n*/ dependency \"h.h\"\n", "#pragma"},
        {"#pragma GCC /*/\n*/ dependency \"h.h\"\n", "#pragma"},
        {"#define S(x) #x\n#define P(x) _Pragma(S(x))\n#define J(a, b) a##b\n"
         "P(GCC J(depen, dency) \"h.h\")\n",
         "#pragma"},
        {"__asm__(\".incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define J(a, b) a##b\nJ(__as, m__)(\".incbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".in\\\ncbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) #x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".macro m a b\\n.\\\\a\\\\b \\\"h.h\\\"\\n.endm\\nm inc bin\");\n", "assembly"},
        {"__asm__(\"\\t.INCBIN \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\" .Include \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".inc\" \"bin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".\" \"I\" \"ncbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define DOT \".\"\n__asm__(DOT \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) #x\n__asm__(S(.incbin \"h.h\"));\n", "assembly"},
        {"__asm__(\"\\x2eincbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\"\\56incbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".i\\u006ecbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) \\\n#x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) /*\n*/#x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) \"\"###x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) %:x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) ?\?=x\n__asm__(S(.) \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define I incbin\n#define S(x) #x\n#define T(x) S(x)\n__asm__(T(. I \"h.h\"));\n",
         "assembly"},
        {"__asm__(\".%c0 \\\"h.h\\\"\" : : \"i\"(incbin));\n", "assembly"},
        {"__asm__(\".i%c0 \\\"h.h\\\"\" : : \"i\"(ncbin));\n", "assembly"},
        {"__asm__(\". {in|in}cbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\"./**/incbin \\\"h.h\\\"\");\n", "assembly"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_refused(cases[i].code, NULL, cases[i].reason);
    }
    expect_refused("__asm__(S(.) \"incbin \\\"h.h\\\"\");", "-DS(x)=#x", "assembly");
    expect_refused("CAT(__TIM, E, __)", "-DCAT(a,b,c)=a##b##c", "__TIME__");
}

static void includes_the_working_directory_if_a_file_name_is_used(void **state)
{
    (void)state;
    static const char *const codes[] = {"constant char *f = __FILE__;\n",
                                        "#define P(a, b) a##b\nP(__FI, LE__)\n",
                                        "constant char *f = __builtin_FILE();\n"};
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    for (size_t i = 0; i < COUNT(codes); i++) {
        outcome here = inputs_of(codes[i], NULL);
        assert_int_equal(chdir("/"), 0);
        outcome there = inputs_of(codes[i], NULL);
        assert_int_equal(chdir(before), 0);
        assert_false(kiln_key_equals(here.key, there.key));
        outcome_done(&here);
        outcome_done(&there);
    }
}

/* ---- options ---- */

static void accepts_known_options(void **state)
{
    (void)state;
    static const char *const options[] = {
        "",
        "  \t ",
        "-cl-mad-enable -cl-std=CL1.2 -w -Werror -Wall -O2 -cl-fast-relaxed-math",
        "-D X -DY=1 -DZ=\"a b\" -D \"W=1 2\" -UX -U Y",
        "-x clc -m64 -march=native -fno-inline -std=CL2.0 -spir-std=1.2",
        "-cl-nv-maxrregcount 32 -cl-nv-verbose -cl-nv-opt-level=3 -cl-nv-arch sm_80",
        "-I x -I \"y z\" \"-Iu\" -include h.h",
        "-D F(x)=x -D \"F=<h.h>\"",
    };
    for (size_t i = 0; i < COUNT(options); i++) {
        outcome o = inputs_of("", options[i]);
        assert_int_equal(o.status, KILN_OK);
        outcome_done(&o);
    }
}

static void refuses_unknown_options(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        const char *reason;
    } cases[] = {
        {"-D", "no argument after -D"},
        {"-DX -D ", "no argument after -D"},
        {"-D -Ix", "no argument after -D"},
        {"-I", "no argument after -I"},
        {"-I \"\"", "no argument after -I"},
        {"-U", "no argument after -U"},
        {"-include", "no argument after -include"},
        {"-x", "no argument after -x"},
        {"-x spir", "the language spir"},
        {"-includeh.h", "option -includeh.h"},
        {"-imacros h.h", "option -imacros"},
        {"-isystem x", "option -isystem"},
        {"-iquote x", "option -iquote"},
        {"-idirafter x", "option -idirafter"},
        {"-iwithprefix x", "option -iwithprefix"},
        {"-internal-isystem x", "option -internal-isystem"},
        {"-cxx-isystem x", "option -cxx-isystem"},
        {"-F x", "option -F"},
        {"-include-pch x", "option -include-pch"},
        {"-ivfsoverlay x", "option -ivfsoverlay"},
        {"-fmodule-map-file=x", "option -fmodule-map-file=x"},
        {"--include-directory=x", "option --include-directory=x"},
        {"@file", "option @file"},
        {"-s file.cl", "option -s"},
        {"-g", "option -g"},
        {"-fprofile-instr-use=x", "option -fprofile-instr-use=x"},
        {"-mllvm -x", "option -mllvm"},
        {"-Xclang -x", "option -Xclang"},
        {"-Wp,-MD,x", "option -Wp,-MD,x"},
        {"-dump-opt-llvm=x", "option -dump-opt-llvm=x"},
        {"h.h", "option h.h"},
        {"-O2x", "option -O2x"},
        {"-DX=a\n-w", "control character"},
        {"-DX='a'", "single quote"},
        {"-I a\\ b", "backslash"},
        {"-DX=\"a", "unterminated quote"},
        {"-DX=__DATE__", "__DATE__"},
        {"-DP(a,b)=a##b -DX=P(__TI,ME__)", "__TIME__"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_refused("", cases[i].options, cases[i].reason);
    }
}

static void accepts_options_from_variables(void **state)
{
    (void)state;
    setenv("POCL_EXTRA_BUILD_FLAGS", "-DNAME=<h.h> -I a", 1);
    expect_reads("", 0, NULL, false);
    setenv("POCL_EXTRA_BUILD_FLAGS", "-include a", 1);
    expect_reads("", 0, NULL, true);
    setenv("POCL_EXTRA_BUILD_FLAGS", "-Xclang x", 1);
    expect_refused("", NULL, "-Xclang in POCL_EXTRA_BUILD_FLAGS");
    unsetenv("POCL_EXTRA_BUILD_FLAGS");
}

/* ---- keys ---- */

static void distinguishes_inputs(void **state)
{
    (void)state;
    assert_true(same_key("a", "-w", "a", "-w"));
    assert_false(same_key("a", "-w", "b", "-w"));
    assert_false(same_key("a", "-w", "a", "-w "));
    assert_false(same_key("a", NULL, "a", ""));
    assert_true(same_key("#include \"h.h\"\n", NULL, "#include \"h.h\"\n", NULL));
}

static void does_not_scan_intermediate_language(void **state)
{
    (void)state;
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_IL,
                                        .code = {.data = "#include __TIME__", .size = 17}};
    outcome o = inputs_of_source(&source, &(kilni_opencl_headers){0}, false);
    kiln_key_part part;
    assert_int_equal(o.status, KILN_OK);
    assert_false(o.texts.may_read);
    assert_int_equal(kiln_key_part_count(o.key), 1);
    assert_int_equal(kiln_key_part_at(o.key, 0, &part), KILN_OK);
    assert_string_equal(part.name, "il");
    outcome_done(&o);
}

static outcome inputs_with_header(const char *name, const char *text)
{
    static const char code[] = "#include \"e.h\"\n";
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {.data = code, .size = strlen(code)}};
    const kiln_bytes bytes = {text, strlen(text)};
    const kilni_opencl_headers headers = {1, &name, &bytes};
    return inputs_of_source(&source, &headers, true);
}

static void includes_embedded_headers(void **state)
{
    (void)state;
    outcome one = inputs_with_header("e.h", "int a;"), other = inputs_with_header("e.h", "int b;");
    outcome named = inputs_with_header("f.h", "int a;"),
            again = inputs_with_header("e.h", "int a;");
    assert_true(kiln_key_equals(one.key, again.key));
    assert_false(kiln_key_equals(one.key, other.key));
    assert_false(kiln_key_equals(one.key, named.key));
    outcome timed = inputs_with_header("e.h", "__TIME__");
    assert_int_equal(timed.status, KILN_E_UNSUPPORTED);
    outcome_done(&one);
    outcome_done(&other);
    outcome_done(&named);
    outcome_done(&again);
}

/* ---- links ---- */

static kiln_key *key_of_text(const char *text)
{
    kiln_key_builder *builder;
    kiln_key *key;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "source", text), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

/* ---- the whole key of a build ---- */

static kiln_key *build_key(const char *platform, const char *code)
{
    kiln_key *identity = key_of_text("device"), *key = NULL;
    const kilni_opencl_site site = {.identity = identity, .platform_name = platform};
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {.data = code, .size = strlen(code)}};
    const kilni_opencl_constants constants = {0};
    kilni_opencl_texts unused;
    assert_int_equal(kilni_opencl_build_key(&site, &source, &constants, &unused, &key, NULL),
                     KILN_OK);
    kiln_key_release(&identity);
    return key;
}

/* Intel's compiler compares folders by paths that it derives from PWD. */
static void includes_pwd(void **state)
{
    (void)state;
    static const struct {
        const char *platform, *code;
        bool counts;
    } cases[] = {
        {"Intel(R) OpenCL", "#include <h.h>", true},
        {"Intel(R) OpenCL", "kernel void k(void) {}", false},
        {"Portable Computing Language", "#include <h.h>", false},
    };
    char link[] = "/tmp/kiln-spelled-XXXXXX", *here = getcwd(NULL, 0);
    char *before = getenv("PWD") ? strdup(getenv("PWD")) : NULL;
    assert_non_null(mkdtemp(link));
    assert_int_equal(rmdir(link), 0);
    assert_int_equal(symlink(here, link), 0);
    const char *const plain[] = {here, "/tmp", "tmp"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsetenv("PWD");
        kiln_key *without = build_key(cases[i].platform, cases[i].code);
        for (size_t p = 0; p < COUNT(plain); p++) {
            setenv("PWD", plain[p], 1);
            kiln_key *same = build_key(cases[i].platform, cases[i].code);
            assert_true(kiln_key_equals(same, without));
            kiln_key_release(&same);
        }
        setenv("PWD", link, 1);
        kiln_key *spelled = build_key(cases[i].platform, cases[i].code);
        assert_int_equal(kiln_key_equals(spelled, without), !cases[i].counts);
        assert_int_equal(has_part(spelled, "env.PWD"), cases[i].counts);
        kiln_key_release(&spelled);
        kiln_key_release(&without);
    }
    assert_int_equal(before ? setenv("PWD", before, 1) : unsetenv("PWD"), 0);
    assert_int_equal(unlink(link), 0);
    free(before);
    free(here);
}

static kiln_status link_inputs(const char *options, size_t count, const kiln_key *const *inputs,
                               kiln_key **ret_key)
{
    kiln_key_builder *builder;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    const kiln_status status =
        kilni_opencl_add_link_inputs(options, count, inputs, builder, &error);
    assert_int_equal(error.text[0] != '\0', status != KILN_OK);
    if (status == KILN_OK) {
        assert_int_equal(kiln_key_builder_finish(builder, ret_key), KILN_OK);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static void distinguishes_links(void **state)
{
    (void)state;
    kiln_key *a = key_of_text("a"), *b = key_of_text("b");
    const kiln_key *const both[] = {a, b}, *const turned[] = {b, a};
    kiln_key *keys[6];
    assert_int_equal(link_inputs(NULL, 2, both, &keys[0]), KILN_OK);
    assert_int_equal(link_inputs("", 2, both, &keys[1]), KILN_OK);
    assert_int_equal(link_inputs("-cl-fast-relaxed-math", 2, both, &keys[2]), KILN_OK);
    assert_int_equal(link_inputs(NULL, 2, turned, &keys[3]), KILN_OK);
    assert_int_equal(link_inputs(NULL, 1, both, &keys[4]), KILN_OK);
    assert_int_equal(link_inputs(NULL, 2, both, &keys[5]), KILN_OK);
    assert_true(kiln_key_equals(keys[0], keys[5]));
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_false(kiln_key_equals(keys[i], keys[j]));
        }
    }
    for (size_t i = 0; i < COUNT(keys); i++) {
        kiln_key_release(&keys[i]);
    }
    kiln_key_release(&a);
    kiln_key_release(&b);
}

static void refuses_link_options_that_may_name_files(void **state)
{
    (void)state;
    static const char *const options[] = {"-create-library", "-create-library -enable-link-options",
                                          "-I folder",       "-DX",
                                          "-include h.h",    "-lm",
                                          "file.o"};
    kiln_key *a = key_of_text("a");
    const kiln_key *const input[] = {a};
    for (size_t i = 0; i < COUNT(options); i++) {
        kiln_key *key = NULL;
        assert_int_equal(link_inputs(options[i], 1, input, &key), KILN_E_UNSUPPORTED);
    }
    kiln_key_release(&a);
}

/* ---- failures ---- */

static kiln_status try_everything(void)
{
    static const char code[] = "#define J(a, b) a##b\n#include J(NA, ME)\n__FILE__\n";
    const char *name = "a/e.h";
    const kiln_bytes header = {.data = "#include \"h.h\"\n", .size = 15};
    const kilni_opencl_headers headers = {1, &name, &header};
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {.data = code, .size = strlen(code)},
                                        .options = "-D P=a -D \"NAME=<h.h>\" -I a -include g.h"};
    kiln_key_builder *builder;
    kilni_opencl_texts texts;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kilni_opencl_add_inputs(&source, &headers, true, builder, &texts, NULL);
        kiln_key_builder_free(&builder);
    }
    return status;
}

static void survives_out_of_memory(void **state)
{
    (void)state;
    assert_int_equal(try_everything(), KILN_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        const kiln_status status = try_everything();
        if (failing_malloc_disarm() < n) {
            assert_true(n > 4);
            break;
        }
        /* A working directory without a name counts as an unknown one. */
        assert_true(status == KILN_E_NO_MEMORY || status == KILN_E_UNSUPPORTED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recognizes_sources_that_may_read_files),
        cmocka_unit_test(recognizes_sources_that_read_no_files),
        cmocka_unit_test(refuses_unknown_inputs),
        cmocka_unit_test(includes_the_working_directory_if_a_file_name_is_used),
        cmocka_unit_test(accepts_known_options),
        cmocka_unit_test(refuses_unknown_options),
        cmocka_unit_test(accepts_options_from_variables),
        cmocka_unit_test(distinguishes_inputs),
        cmocka_unit_test(does_not_scan_intermediate_language),
        cmocka_unit_test(includes_embedded_headers),
        cmocka_unit_test(includes_pwd),
        cmocka_unit_test(distinguishes_links),
        cmocka_unit_test(refuses_link_options_that_may_name_files),
        cmocka_unit_test(survives_out_of_memory),
    };
    return cmocka_run_group_tests_name("opencl_inputs", tests, NULL, NULL);
}
