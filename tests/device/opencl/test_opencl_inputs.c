/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CL/cl.h>

#include "base/text.h"
#include "device/opencl/inputs.h"
#include "os/os.h"
#include "support/failing_malloc.h"

/* ---- a folder of its own for each test ---- */

typedef struct scratch {
    char path[64];
    char before[4096];
} scratch;

static int enter_scratch(void **state)
{
    scratch *s = calloc(1, sizeof *s);
    assert_non_null(s);
    const char *parent = getenv("TMPDIR");
    snprintf(s->path, sizeof s->path, "%.40s/kiln-inputs-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(getcwd(s->before, sizeof s->before));
    assert_non_null(mkdtemp(s->path));
    assert_int_equal(chdir(s->path), 0);
    unsetenv("POCL_EXTRA_BUILD_FLAGS");
    setenv("POCL_CACHE_DIR", "driver-folder", 1);
    *state = s;
    return 0;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts, (void)kind, (void)walk;
    return remove(path);
}

static int leave_scratch(void **state)
{
    scratch *s = *state;
    assert_int_equal(chdir(s->before), 0);
    assert_int_equal(nftw(s->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(s);
    return 0;
}

static void put(const char *path, const char *content)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(folder, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(content, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

/* ---- the inputs of one build ---- */

typedef struct outcome {
    kiln_status status;
    kiln_key *key;
    kiln_error error;
    kilni_text found; /* "content content …": the contents of the files in their order, in
                       * brackets */
    kilni_text names; /* "name name …" that were looked up */
} outcome;

static void note_part(outcome *o, const kiln_key_part *part)
{
    if (strcmp(part->name, "include") == 0) {
        assert_int_equal(kilni_text_append(&o->names, o->names.length ? " " : ""), KILN_OK);
        assert_int_equal(kilni_text_append_bytes(&o->names, part->bytes, part->size), KILN_OK);
    } else if (strcmp(part->name, "include.content") == 0) {
        assert_int_equal(kilni_text_append(&o->found, "["), KILN_OK);
        assert_int_equal(kilni_text_append_bytes(&o->found, part->bytes, part->size), KILN_OK);
        assert_int_equal(kilni_text_append(&o->found, "]"), KILN_OK);
    }
}

static outcome inputs_of_bytes(const void *code, size_t size, const char *options)
{
    outcome o = {.error = {.struct_size = sizeof o.error}};
    kiln_program_source source = {.struct_size = sizeof source,
                                  .form = KILN_SOURCE_TEXT,
                                  .code = {.data = code, .size = size},
                                  .options = options};
    kiln_key_builder *builder;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    o.status = kilni_opencl_add_inputs(&source, builder, &o.error);
    if (o.status == KILN_OK) {
        assert_int_equal(kiln_key_builder_finish(builder, &o.key), KILN_OK);
        for (size_t i = 0; i < kiln_key_part_count(o.key); i++) {
            kiln_key_part part;
            assert_int_equal(kiln_key_part_at(o.key, i, &part), KILN_OK);
            note_part(&o, &part);
        }
    }
    assert_int_equal(kilni_text_append(&o.found, ""), KILN_OK);
    assert_int_equal(kilni_text_append(&o.names, ""), KILN_OK);
    kiln_key_builder_free(&builder);
    return o;
}

static outcome inputs_of(const char *code, const char *options)
{
    return inputs_of_bytes(code, strlen(code), options);
}

static void outcome_done(outcome *o)
{
    kiln_key_release(&o->key);
    kilni_text_done(&o->found);
    kilni_text_done(&o->names);
}

static void expect_found(const char *code, const char *options, const char *found)
{
    outcome o = inputs_of(code, options);
    if (o.status != KILN_OK || strcmp(o.found.bytes, found) != 0) {
        fail_msg("<<%s>> with %s: %s %s, found %s, expected %s", code, options ? options : "none",
                 kiln_status_name(o.status), o.error.text, o.found.bytes, found);
    }
    outcome_done(&o);
}

static void expect_names(const char *code, const char *options, const char *names)
{
    outcome o = inputs_of(code, options);
    if (o.status != KILN_OK || strcmp(o.names.bytes, names) != 0) {
        fail_msg("<<%s>> with %s: %s %s, looked for %s, expected %s", code,
                 options ? options : "none", kiln_status_name(o.status), o.error.text,
                 o.names.bytes, names);
    }
    outcome_done(&o);
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

/* ---- directives ---- */

typedef struct found_case {
    const char *code;
    const char *options;
    const char *found;
} found_case;

static void expect_all_found(const found_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_found(cases[i].code, cases[i].options, cases[i].found);
    }
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void finds_includes(void **state)
{
    (void)state;
    put("h.h", "H");
    put("g.h", "G");
    static const found_case cases[] = {
        {"", NULL, ""},
        {"kernel void k(void) {}", NULL, ""},
        {"#include \"h.h\"\n", NULL, "[H]"},
        {"#include <h.h>", NULL, "[H]"},
        {"#include \"h.h\"\r\n#include \"g.h\"\r\n", NULL, "[H][G]"},
        {"\xEF\xBB\xBF#include \"h.h\"\n", NULL, "[H]"},
        {"  \t # \t include\t<h.h>  // why\n", NULL, "[H]"},
        {"#include_next <h.h>\n", NULL, "[H]"},
        {"#import <h.h>\n", NULL, "[H]"},
        {"#__include_macros <h.h>\n", NULL, "[H]"},
        {"%:include \"h.h\"\n", NULL, "[H]"},
        {"/* one\n two */ #include \"h.h\"\n", NULL, "[H]"},
        {"#/**/include/* x */\"h.h\"\n", NULL, "[H]"},
        {"#inc\\\nlude \"h.h\"\n", NULL, "[H]"},
        {"#inc\\ \t\nlude \"h.h\"\n", NULL, "[H]"},
        {"\\\n#include \"\\\nh.h\"\n", NULL, "[H]"},
        {"#include \"h\\\r\n.h\"\r\n", NULL, "[H]"},
        {"#if 0\n#include \"h.h\"\n#else\n#include \"g.h\"\n#endif\n", NULL, "[H][G]"},
        {"#if __has_include(\"h.h\")\n#endif\n", NULL, "[H]"},
        {"#if defined(__has_include) && __has_include(<h.h>)\n#endif\n", NULL, "[H]"},
        {"#ifdef __has_include\n#if __has_include( <h.h> )\n#endif\n#endif\n", NULL, "[H]"},
        {"#if 0\n#elif __has_include_next(\"h.h\")\n#endif\n", NULL, "[H]"},
        {"#if defined __has_include\n#endif\n", NULL, ""},
        {"// #include \"h.h\"\n", NULL, ""},
        {"// \\\n#include \"h.h\"\n", NULL, ""},
        {"/*\n#include \"h.h\"\n*/\n", NULL, ""},
        {"constant char *s = \"\\\n#include \\\"h.h\\\" /* \";\n#include \"g.h\"\n", NULL, "[G]"},
        {"char c = '\"';\n#include \"h.h\"\nchar d = '\"';\n", NULL, "[H]"},
        {"#error don't \"\n#include \"h.h\"\n", NULL, "[H]"},
        {"#define X /* long\n comment */ 1\n#include \"h.h\"\n", NULL, "[H]"},
        {"int a; #include \"h.h\"\n", NULL, ""},
        {"#include \"absent.h\"\n", NULL, ""},
        {"#include \"h.h\"\n#include \"h.h\"\n", NULL, "[H]"},
        {"#pragma once\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#include \"h.h\"", NULL,
         "[H]"},
        {"_Pragma(\"unroll 4\")\n#include \"h.h\"\n", NULL, "[H]"},
        {"#include \"h.h\"\0trailing", NULL, "[H]"},
    };
    expect_all_found(cases, COUNT(cases));
}

static void takes_zero_bytes_for_blanks(void **state)
{
    (void)state;
    put("h.h", "H");
    static const char code[] = "int a;\0\n\0#include \"h.h\"\n\0";
    outcome o = inputs_of_bytes(code, sizeof code, NULL);
    assert_int_equal(o.status, KILN_OK);
    assert_string_equal(o.found.bytes, "[H]");
    outcome_done(&o);
}

static void refuses_sources_that_cannot_be_cached(void **state)
{
    (void)state;
    put("h.h", "H");
    mkdir("folder.h", 0700);
    static const struct {
        const char *code;
        const char *reason;
    } cases[] = {
        {"int a = __TIME__;", "__TIME__ in the source"},
        {"#if 0\nchar *d = __DATE__;\n#endif", "__DATE__"},
        {"#define T __TIMESTAMP__\n", "__TIMESTAMP__"},
        {"__DA\\\nTE__\n", "__DATE__"},
        {"#define P(a, b) a##b\nP(__DA, TE__)\n", "__DATE__"},
        {"#define P(a, b, c, d) a %:%: b##c##d\nP(_, _TI, ME_, _)\n", "__TIME__"},
        {"#define P(a) _##a\nP(Pragma)(\"x\")\n", "_Pragma"},
        {"#define P(a) __has_##a\n#if P(include)(\"h.h\")\n", "__has_include"},
        {"?\?=include \"h.h\"\n", "trigraph"},
        {"// ?\?/\n#include \"h.h\"\n", "trigraph"},
        {"#embed \"h.h\"\n", "#embed"},
        {"#if __has_embed(\"h.h\")\n#endif\n", "__has_embed"},
        {"a\rb\n", "carriage return"},
        {"char *s = R\"(\n#include \"h.h\"\n)\";\n", "raw string"},
        {"char *s = u8R\"x(a)x\";\n", "raw string"},
        {"int a = 1'000;\n", "quote within a number"},
        {"// \\ \n#include \"h.h\"\n", "backslash and blank"},
        {"#error it's /* here\n", "open quote"},
        {"#warning see /* here\n#include \"h.h\"\n*/\n", "#error, #warning or #pragma"},
        {"#pragma include_alias(\"a.h\", \"h.h\")\n", "#pragma"},
        {"#pragma GCC dependency \"h.h\"\n", "#pragma"},
        {"#pragma clang module import h\n", "#pragma"},
        {"#pragma source \"h.h\"\n", "#pragma"},
        {"_Pragma(\"GCC dependency \\\"h.h\\\"\")\n", "_Pragma"},
        {"#define D(x) _Pragma(#x)\nD(clang module import h)\n", "_Pragma"},
        {"__pragma(x)\n", "__pragma"},
        {"__asm__(\".incbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\"\\t.INCBIN \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\" .Include \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".inc\" \"bin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".\" \"I\" \"ncbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define DOT \".\"\n__asm__(DOT \"incbin \\\"h.h\\\"\");\n", "assembly"},
        {"#define S(x) #x\n__asm__(S(.incbin \"h.h\"));\n", "assembly"},
        {"__asm__(\"\\x2eincbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\"\\56incbin \\\"h.h\\\"\");\n", "assembly"},
        {"__asm__(\".i\\u006ecbin \\\"h.h\\\"\");\n", "assembly"},
        {"#include \"folder.h\"\n", "folder.h"},
        {"#include \"a\\b.h\"\n", "backslash"},
        {"#include <a/*b.h>\n", "comment in the name"},
        {"#include \"\"\n", "without a name"},
        {"#include\n", "no known macro"},
        {"#include UNKNOWN\n", "no known macro"},
        {"#include __FILE__\n", "macro of the compiler"},
        {"#include \"h.h\n", "no known macro"},
        {"#define HAS __has_include\n#if HAS(\"h.h\")\n#endif\n", "without a name"},
        {"#define HAS(x) __has_include(x)\n", "no known macro"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_refused(cases[i].code, NULL, cases[i].reason);
    }
}

static void allows_what_only_looks_alike(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "// __TIME__\n",
        "/* __DATE__ */\n",
        "char *s = \"__TIME__\";\n",
        "int my__DATE__x;\n",
        "#define P(a, b) a##b\nP(x, DATE)\nint T, E, D, A, _x;\n",
        "int module, dependency;\n",
        "__asm__(\"atom.global.inc.u32\");\n",
        "struct { int i, inc; } s;\nint f() { __asm__(\"nop\"); return s.i + s.inc; }\n",
        "__asm__(\"mov.u32 %0, %%clock;\\n\\t\" : \"=r\"(x));\n",
        "__asm__(\"add.cc.u32 \\\\x;\" \"\" \"vadd.inc;\");\n",
        "char *s = \".incbin\";\n",
        "char *s = \"What?\\?=\";\n",
        "#pragma clang diagnostic ignored \"-Wunused\"\n",
        "#pragma message(\"hello\")\n",
        "int R; char *s = LR; char *t = L\"x\";\n",
        "#\n# 12 \"file.cl\"\n#line 3 \"x.cl\"\n",
        "#define\n",
    };
    for (size_t i = 0; i < COUNT(codes); i++) {
        expect_found(codes[i], NULL, "");
    }
}

/* ---- macros ---- */

static void expands_computed_includes(void **state)
{
    (void)state;
    put("h.h", "H");
    put("g.h", "G");
    put("lib/inc.h", "I");
    static const found_case cases[] = {
        {"#include NAME\n#define NAME \"h.h\"\n", NULL, "[H]"},
        {"#define NAME <h.h>\n#include NAME\n", NULL, "[H]"},
        {"#include NAME\n", "-DNAME=<h.h>", "[H]"},
        {"#include NAME\n", "-D NAME=\\\"h.h\\\"", "[H]"},
        {"#include NAME\n", "\"-DNAME=\\\"h.h\\\"\"", "[H]"},
        {"#define A B\n#define B C\n#define C \"h.h\"\n#include A\n", NULL, "[H]"},
        {"#define S(x) #x\n#include S(h.h)\n", NULL, "[H]"},
        {"#define S(x) T(x)\n#define T(x) #x\n#include S(DIR/inc.h)\n", "-D DIR=lib", "[I]"},
        {"#define S(x) T(x)\n#define T(x) #x\n#define DIR lib\n#include S( DIR/inc.h )\n", NULL,
         "[I]"},
        {"#define S(x)T(x)\n#define T(x)#x\n#include S(DIR)\n", "-DDIR=lib/inc.h", "[I]"},
        {"#define S(...) T(__VA_ARGS__)\n#define T(...) #__VA_ARGS__\n#include S(h.h)\n", NULL,
         "[H]"},
        {"#define S(a...) T(a)\n#define T(a...) #a\n#include S(h.h)\n", NULL, "[H]"},
        {"#define J(a, b) a##b\n#define hname \"h.h\"\n#include J(h, name)\n", NULL, "[H]"},
        {"#define J(a, b) a %:%: b\n#define name \"h.h\"\n#include J(, name)\n", NULL, "[H]"},
        {"#define LT <\n#define GT >\n#include LT h.h GT\n", NULL, "[H]"},
        {"#define F() \"h.h\"\n#include F()\n", NULL, "[H]"},
        {"#define F(x) x\n#include F(F(\"h.h\"))\n", NULL, "[H]"},
        {"#define F(x) G\n#define G(x) x\n#include F(0)(\"h.h\")\n", NULL, "[H]"},
        {"#define N F\n#define F(x) \"h.h\"\n#include N (1)\n", NULL, "[H]"},
        {"#define S(x) #x\n#define h g\n#include S(h.h)\n", NULL, "[H]"},
        {"#ifdef A\n#define N \"h.h\"\n#else\n#define N \"g.h\"\n#endif\n#include N\n", NULL,
         "[G][H]"},
        {"#if __has_include(N)\n#endif\n", "-DN=<h.h>", "[H]"},
        {"#define N \"h.h\" /* why */\n#include N // more\n", NULL, "[H]"},
        {"#define Q(x) <x>\n#include Q(h.h)\n", NULL, "[H]"},
        {"#include NAME\n", "-DNAME(x)=x -DNAME=<h.h>", "[H]"},
        {"#define __DIR lib\n#define S(x) T(x)\n#define T(x) #x\n#include S(__DIR/inc.h)\n", NULL,
         "[I]"},
        {"#define S(x) #x\n#include S(_none.h)\n#include \"h.h\"\n", NULL, "[H]"},
    };
    expect_all_found(cases, COUNT(cases));
}

static void tries_a_macro_as_undefined_too(void **state)
{
    (void)state;
    put("D/x.h", "D");
    put("lib/x.h", "L");
    expect_found("#ifdef A\n#define D lib\n#endif\n#define S(x) T(x)\n#define T(x) #x\n"
                 "#include S(D/x.h)\n",
                 NULL, "[L][D]");
}

static void takes_definitions_of_headers(void **state)
{
    (void)state;
    put("names.h", "#define NAME \"h.h\"\n");
    put("h.h", "H");
    expect_found("#include NAME\n#include \"names.h\"\n", NULL, "[#define NAME \"h.h\"\n][H]");
    /* A header that a macro names defines the macro that names the next header. */
    put("more.h", "#define NEXT \"h.h\"\n");
    expect_found("#define MORE \"more.h\"\n#include NEXT\n#include MORE\n#define NEXT \"none.h\"\n",
                 NULL, "[#define NEXT \"h.h\"\n][H]");
}

static void refuses_macros_that_are_unknown(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        const char *reason;
    } cases[] = {
        {"#define S(x) T(x)\n#define T(x) #x\n#include S(v__OPENCL_VERSION__/__OPENCL_VERSION__)\n",
         "macro of the compiler"},
        {"#define S(x) T(x)\n#define T(x) #x\n#include S(_unknown.h)\n", "macro of the compiler"},
        {"#define S(x) T(x)\n#define T(x) #x\n#define __OPENCL_VERSION__ 1\n"
         "#include S(__OPENCL_VERSION__)\n",
         "macro of the compiler"},
        {"#define F(x) #x\n#include F(a\n", "no known macro"},
        {"#define F(x, y) #x\n#include F(a)\n", "no known macro"},
        {"#define F(x) #y\n#include F(a)\n", "no known macro"},
        {"#define A ##b\n#include A\n", "no known macro"},
        {"#define A B\n#define B A\n#include A\n", "no known macro"},
        {"#define J(a, b) a##b\n#include J(<, -)\n", "no token"},
        {"#define S(x, ...) #x##__VA_ARGS__\n#include S(a, b)\n", "variable number"},
        {"#define S(...) __VA_OPT__(a)\n#include S(a)\n", "__VA_OPT__"},
        {"#define S(x) #x\n#include S(\"a\")\n", "name that can't be read"},
        {"#define F(x) F2(x) F2(x)\n#define F2(x) F3(x) F3(x)\n#define F3(x) F4(x) F4(x)\n"
         "#define F4(x) F5(x) F5(x)\n#define F5(x) F6(x) F6(x)\n#define F6(x) F7(x) F7(x)\n"
         "#define F7(x) F8(x) F8(x)\n#define F8(x) F9(x) F9(x)\n#define F9(x) x x x x x x x x x\n"
         "#include F(F(F(F(a b c d e f g h i j k l m n o p q r))))\n",
         "too "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_refused(cases[i].code, NULL, cases[i].reason);
    }
    /* Nine names of two definitions each are more combinations than are tried. */
    kilni_text code = {0};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(kilni_text_printf(&code, "#define N%d a\n#define N%d b\n", i, i), 0);
    }
    assert_int_equal(kilni_text_append(&code, "#define S(x) T(x)\n#define T(x) #x\n"
                                              "#include S(N0 N1 N2 N3 N4 N5 N6 N7 N8)\n"),
                     0);
    expect_refused(code.bytes, NULL, "too many definitions");
    kilni_text_done(&code);
}

/* As in a program that distributions ship. */
static void follows_a_real_programs_macros(void **state)
{
    (void)state;
    put("share/OpenCL/inc_vendor.h", "V");
    put("share/OpenCL/inc_types.h", "#include M2S(INCLUDE_PATH/inc_vendor.h)\n");
    char folder[4096], options[5000];
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(options, sizeof options,
             "-D KERNEL_STATIC -D INCLUDE_PATH=%s/share/OpenCL -D XM2S(x)=#x -D M2S(x)=XM2S(x) "
             "-D VENDOR_ID=8 -D DGST_R0=0 -w",
             folder);
    expect_found("#ifdef KERNEL_STATIC\n#include M2S(INCLUDE_PATH/inc_vendor.h)\n"
                 "#include M2S(INCLUDE_PATH/inc_types.h)\n#endif\n",
                 options, "[V][#include M2S(INCLUDE_PATH/inc_vendor.h)\n]");
}

/* ---- places ---- */

static void looks_in_every_place(void **state)
{
    (void)state;
    put("h.h", "1");
    put("a/h.h", "2");
    put("b b/h.h", "3");
    put("include/h.h", "4");
    put("driver-folder/h.h", "5");
    expect_found("#include \"h.h\"\n", NULL, "[1][4][5]");
    expect_found("#include <h.h>\n", "-Ia", "[2][1][4][5]");
    expect_found("#include <h.h>\n", "-I a -I \"b b\"", "[2][3][1][4][5]");
    expect_found("#include <h.h>\n", "-I\ta \"-Ib b\"", "[2][3][1][4][5]");
    expect_found("#include <h.h>\n", "-I. -Ia/ -I ./a", "[1][2][4][5]");
    char folder[4096], code[5000];
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(code, sizeof code, "#include \"%s/a/h.h\"\n", folder);
    expect_found(code, "-I \"b b\"", "[2]");
}

static void looks_in_the_including_files_folder(void **state)
{
    (void)state;
    put("a/outer.h", "#include \"n.h\"\n");
    put("a/n.h", "A");
    put("n.h", "W");
    expect_found("#include \"a/outer.h\"\n", NULL, "[#include \"n.h\"\n][A][W]");
    expect_found("#include <outer.h>\n", "-I a", "[#include \"n.h\"\n][A][W]");
}

static void looks_in_the_systems_folder(void **state)
{
    (void)state;
    struct stat facts;
    if (stat("/usr/include/assert.h", &facts) != 0) {
        skip();
    }
    outcome o = inputs_of("#ifndef __OPENCL_VERSION__\n#include <assert.h>\n#endif\n", NULL);
    assert_int_equal(o.status, KILN_OK);
    assert_true(o.found.length > 100);
    outcome_done(&o);
}

/* Clang treats a file in the place of a folder as a header map. */
static void refuses_files_in_the_place_of_folders(void **state)
{
    (void)state;
    static const char reason[] = "no directory";
    put("h.h", "H");
    put("map", "hmap");
    put("folder/g.h", "G");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("map", "link"), 0);
    static const char *const options[] = {"-I map",         "-Imap",     "-I folder -I map",
                                          "\"-I\" \"map\"", "\"-Imap\"", "-I\"map\"",
                                          "-I ./map",       "-I link",   "-I pipe"};
    for (size_t i = 0; i < COUNT(options); i++) {
        expect_refused("#include \"h.h\"\n", options[i], reason);
        expect_refused("#include <absent.h>\n", options[i], reason);
        expect_refused("#if __has_include(<h.h>)\n#endif\n", options[i], reason);
    }
    setenv("POCL_EXTRA_BUILD_FLAGS", "-Imap", 1);
    expect_refused("#include \"h.h\"\n", NULL, reason);
    unsetenv("POCL_EXTRA_BUILD_FLAGS");
    expect_found("kernel void k(void) {}\n", "-I map", "");
    expect_found("#include \"h.h\"\n", "-I map/ -I absent", "[H]");
    expect_found("#include \"g.h\"\n", "-I folder", "[G]");
    /* A folder in which a compiler looks without being asked. */
    put("include", "hmap");
    expect_refused("#include \"h.h\"\n", NULL, reason);
}

static void sees_a_file_that_moves(void **state)
{
    (void)state;
    /* Two headers of one name, each in the folder of another includer: it matters which one exists.
     */
    static const char code[] = "#include \"a/p.h\"\n#include \"b/q.h\"\n";
    put("a/p.h", "#include \"x.h\"\n");
    put("b/q.h", "#include \"x.h\" \n");
    put("a/x.h", "X");
    outcome before = inputs_of(code, NULL);
    assert_int_equal(rename("a/x.h", "b/x.h"), 0);
    outcome after = inputs_of(code, NULL);
    assert_int_equal(before.status, KILN_OK);
    assert_int_equal(after.status, KILN_OK);
    assert_false(kiln_key_equals(before.key, after.key));
    outcome_done(&before);
    outcome_done(&after);
}

static void ends_on_cycles(void **state)
{
    (void)state;
    put("a/x.h", "#include \"../b/y.h\"\n");
    put("b/y.h", "#include \"../a/x.h\"\n#include \"y.h\"\n");
    expect_found("#include \"a/x.h\"\n", NULL,
                 "[#include \"../b/y.h\"\n][#include \"../a/x.h\"\n#include \"y.h\"\n]");
    assert_int_equal(symlink("../a/x.h", "b/link.h"), 0);
    put("a/link2.h", "#include \"../b/link.h\"\n");
    expect_names("#include \"a/link2.h\"\n", NULL,
                 "\"a/link2.h\" \"../b/link.h\" \"../b/y.h\" \"../a/x.h\" \"y.h\" \"../b/y.h\"");
}

static void bounds_depth_and_size(void **state)
{
    (void)state;
    char name[32], content[64];
    for (int i = 0; i < 210; i++) {
        snprintf(name, sizeof name, "d%d.h", i);
        snprintf(content, sizeof content, "#include \"d%d.h\"\n", i + 1);
        put(name, content);
    }
    expect_refused("#include \"d0.h\"\n", NULL, "too deeply");
    outcome o = inputs_of("#include \"d20.h\"\n", NULL);
    assert_int_equal(o.status, KILN_OK);
    outcome_done(&o);
    put("large.h", "");
    assert_int_equal(truncate("large.h", (off_t)65 << 20), 0);
    expect_refused("#include \"large.h\"\n", NULL, "large.h");
    assert_int_equal(mkfifo("fifo.h", 0600), 0);
    expect_refused("#include \"fifo.h\"\n", NULL, "fifo.h");
}

static void names_the_place_where_a_file_name_is_used(void **state)
{
    (void)state;
    static const char code[] = "constant char *f = __FILE__;\n";
    mkdir("other", 0700);
    outcome here = inputs_of(code, NULL);
    assert_int_equal(chdir("other"), 0);
    outcome there = inputs_of(code, NULL);
    assert_false(kiln_key_equals(here.key, there.key));
    assert_int_equal(chdir(".."), 0);
    outcome_done(&here);
    outcome_done(&there);
}

/* ---- options ---- */

static void takes_known_options(void **state)
{
    (void)state;
    put("h.h", "H");
    static const found_case cases[] = {
        {"", "", ""},
        {"", "  \t ", ""},
        {"", "-cl-mad-enable -cl-std=CL1.2 -w -Werror -Wall -O2 -cl-fast-relaxed-math", ""},
        {"", "-D X -DY=1 -DZ=\"a b\" -D \"W=1 2\" -UX -U Y", ""},
        {"", "-x clc -m64 -march=native -fno-inline -std=CL2.0 -spir-std=1.2", ""},
        {"", "-cl-nv-maxrregcount 32 -cl-nv-verbose -cl-nv-opt-level=3 -cl-nv-arch sm_80", ""},
        {"", "-include h.h", "[H]"},
        {"", "-I x -I \"y z\" \"-Iu\"", ""},
        {"#include F\n", "-D F(x)=x -D \"F=<h.h>\"", "[H]"},
    };
    expect_all_found(cases, COUNT(cases));
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
        {"-I=x", "system root"},
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
        {"-DX=/*", "a comment"},
        {"-DX=__DATE__", "__DATE__ in the options"},
        {"-DX=?\?/", "trigraph"},
        {"-DP(a,b)=a##b -DX=P(__TI,ME__)", "__TIME__"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_refused("", cases[i].options, cases[i].reason);
    }
}

static void takes_options_from_variables(void **state)
{
    (void)state;
    put("h.h", "H");
    put("a/g.h", "G");
    setenv("POCL_EXTRA_BUILD_FLAGS", "-DNAME=<h.h> -I a", 1);
    expect_found("#include NAME\n#include <g.h>\n", NULL, "[G][H]");
    setenv("POCL_EXTRA_BUILD_FLAGS", "-Xclang x", 1);
    expect_refused("", NULL, "-Xclang in POCL_EXTRA_BUILD_FLAGS");
    unsetenv("POCL_EXTRA_BUILD_FLAGS");
}

/* ---- keys ---- */

static void keeps_inputs_apart(void **state)
{
    (void)state;
    assert_true(same_key("a", "-w", "a", "-w"));
    assert_false(same_key("a", "-w", "b", "-w"));
    assert_false(same_key("a", "-w", "a", "-w "));
    assert_false(same_key("a", NULL, "a", ""));
    put("h.h", "1");
    outcome one = inputs_of("#include \"h.h\"\n", NULL);
    put("h.h", "2");
    outcome two = inputs_of("#include \"h.h\"\n", NULL);
    put("h.h", "1");
    outcome again = inputs_of("#include \"h.h\"\n", NULL);
    assert_false(kiln_key_equals(one.key, two.key));
    assert_true(kiln_key_equals(one.key, again.key));
    put("include/h.h", "1");
    outcome second = inputs_of("#include \"h.h\"\n", NULL);
    assert_false(kiln_key_equals(one.key, second.key));
    assert_int_equal(remove("h.h"), 0);
    outcome moved = inputs_of("#include \"h.h\"\n", NULL);
    assert_false(kiln_key_equals(second.key, moved.key));
    assert_false(kiln_key_equals(one.key, moved.key));
    outcome_done(&one);
    outcome_done(&two);
    outcome_done(&again);
    outcome_done(&second);
    outcome_done(&moved);
}

static void shares_equal_folders(void **state)
{
    (void)state;
    put("one/h.h", "#include \"g.h\"\n");
    put("one/g.h", "G");
    put("two/h.h", "#include \"g.h\"\n");
    put("two/g.h", "G");
    assert_int_equal(chdir("one"), 0);
    outcome one = inputs_of("#include \"h.h\"\n", NULL);
    assert_int_equal(chdir("../two"), 0);
    outcome two = inputs_of("#include \"h.h\"\n", NULL);
    assert_int_equal(chdir(".."), 0);
    assert_true(kiln_key_equals(one.key, two.key));
    outcome_done(&one);
    outcome_done(&two);
}

static void takes_intermediate_language_as_it_is(void **state)
{
    (void)state;
    kiln_program_source source = {.struct_size = sizeof source,
                                  .form = KILN_SOURCE_IL,
                                  .code = {.data = "#include __TIME__", .size = 17},
                                  .options = NULL};
    kiln_key_builder *builder;
    kiln_key *key;
    kiln_key_part part;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kilni_opencl_add_inputs(&source, builder, NULL), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    assert_int_equal(kiln_key_part_count(key), 1);
    assert_int_equal(kiln_key_part_at(key, 0, &part), KILN_OK);
    assert_string_equal(part.name, "il");
    assert_int_equal(kilni_opencl_inputs_include_files(&source), 0);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
}

/* Returns the key of a source with embedded headers, or NULL if it is refused. */
static kiln_key *key_with_headers(const char *code, size_t count, const char *const *names,
                                  const char *const *texts)
{
    kiln_bytes headers[4];
    assert_true(count <= COUNT(headers));
    for (size_t i = 0; i < count; i++) {
        headers[i] = (kiln_bytes){.data = texts[i], .size = strlen(texts[i])};
    }
    kiln_program_source source = {.struct_size = sizeof source,
                                  .form = KILN_SOURCE_TEXT,
                                  .code = {.data = code, .size = strlen(code)}};
    kiln_key_builder *builder;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    const kilni_opencl_headers embedded = {count, names, headers};
    if (kilni_opencl_add_inputs_with_headers(&source, &embedded, builder, NULL) == KILN_OK) {
        assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    }
    kiln_key_builder_free(&builder);
    return key;
}

/* Checks that the key of a source with headers changes once a file exists, or has a different
 * content. */
static void expect_counted(const char *code, size_t count, const char *const *names,
                           const char *const *texts, const char *path)
{
    kiln_key *keys[4];
    keys[0] = key_with_headers(code, count, names, texts);
    put(path, "1");
    keys[1] = key_with_headers(code, count, names, texts);
    put(path, "2");
    keys[2] = key_with_headers(code, count, names, texts);
    keys[3] = key_with_headers(code, count, names, texts);
    assert_false(kiln_key_equals(keys[0], keys[1]));
    assert_false(kiln_key_equals(keys[1], keys[2]));
    assert_true(kiln_key_equals(keys[2], keys[3]));
    for (size_t i = 0; i < COUNT(keys); i++) {
        kiln_key_release(&keys[i]);
    }
}

static void counts_embedded_headers(void **state)
{
    (void)state;
    static const char *const names[] = {"e.h"};
    static const char *const text[] = {"#include \"deep.h\"\n"};
    static const char *const other_text[] = {"#include \"deep.h\"  "};
    expect_counted("#include \"e.h\"\n", 1, names, text, "deep.h");
    kiln_key *one = key_with_headers("#include \"e.h\"\n", 1, names, text);
    kiln_key *other = key_with_headers("#include \"e.h\"\n", 1, names, other_text);
    assert_false(kiln_key_equals(one, other));
    kiln_key_release(&one);
    kiln_key_release(&other);
}

/* Drivers keep embedded headers in memory, and these take precedence over files. What they include
 * is looked up in the folders that their names contain, also on disk. */
static void looks_beside_embedded_headers(void **state)
{
    const scratch *s = *state;
    static const char *const relative[] = {"sub/a.h"};
    static const char *const sibling[] = {"#include \"b.h\"\n"};
    static const char *const parent[] = {"#include \"../c.h\"\n"};
    expect_counted("#include \"sub/a.h\"\n", 1, relative, sibling, "sub/b.h");
    expect_counted("#include \"sub/a.h\"\n", 1, relative, parent, "c.h");

    char absolute_name[sizeof s->path + 8], code[sizeof s->path + 32];
    snprintf(absolute_name, sizeof absolute_name, "%s/abs/a.h", s->path);
    snprintf(code, sizeof code, "#include \"%s\"\n", absolute_name);
    const char *const absolute[] = {absolute_name};
    expect_counted(code, 1, absolute, sibling, "abs/b.h");

    static const char *const chain[] = {"p/a.h", "p/q/x.h"};
    static const char *const chain_texts[] = {"#include \"q/x.h\"\n", "#include \"b.h\"\n"};
    expect_counted("#include \"p/a.h\"\n", 2, chain, chain_texts, "p/q/b.h");
}

/* "link/../y.h" is y.h if the text is shortened, and elsewhere/y.h to the file system. */
static void looks_behind_links_to_embedded_headers(void **state)
{
    (void)state;
    put("elsewhere/folder/some.h", "\n");
    assert_int_equal(symlink("elsewhere/folder", "link"), 0);
    static const char *const names[] = {"y.h"};
    static const char *const texts[] = {"#include \"b.h\"\n"};
    expect_counted("#include \"link/../y.h\"\n", 1, names, texts, "elsewhere/b.h");

    static const char *const unclear[] = {"link/../y.h"};
    assert_null(key_with_headers("#include \"y.h\"\n", 1, unclear, texts));
    static const char *const no_step[] = {"..a/b../y...h"};
    kiln_key *key = key_with_headers("#include \"y.h\"\n", 1, no_step, texts);
    assert_non_null(key);
    kiln_key_release(&key);
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

static void keeps_links_apart(void **state)
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

static void says_whether_files_may_count(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        const char *options;
        int expected;
    } cases[] = {
        {"kernel void k(void) {}", NULL, 0},
        {"kernel void k(void) {}", "-I x -DA", 0},
        {"#include \"h.h\"\n", NULL, 1},
        {"#inc\\\nlude \"h.h\"\n", NULL, 1},
        {"#import \"h.h\"\n", NULL, 1},
        {"#if __has_include(\"h.h\")\n", NULL, 1},
        {"kernel void k(void) {}", "-include h.h", 1},
        {"#define A \\\n 1\n", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_program_source source = {
            .struct_size = sizeof source,
            .form = KILN_SOURCE_TEXT,
            .code = {.data = cases[i].code, .size = strlen(cases[i].code)},
            .options = cases[i].options};
        assert_int_equal(kilni_opencl_inputs_include_files(&source), cases[i].expected);
    }
}

/* ---- failures ---- */

static const char everything[] =
    "#define S(x) T(x)\n#define T(x) #x\n#define J(a, b) a##b\n#include S(P/h.h)\n"
    "#include J(NA, ME)\n#include <g.h>\n#include \"a/../e.h\"\n#if "
    "__has_include(\"h.h\")\n#endif\n// \\\n\n";
static const char every_option[] = "-D P=a -D \"NAME=<h.h>\" -I a -I \"b c\" -include g.h";

static kiln_status try_everything(void)
{
    static const char *const names[] = {"a/e.h"};
    const kiln_bytes header = {.data = "#include \"h.h\"\n", .size = 15};
    const kilni_opencl_headers embedded = {1, names, &header};
    kiln_program_source source = {.struct_size = sizeof source,
                                  .form = KILN_SOURCE_TEXT,
                                  .code = {.data = everything, .size = strlen(everything)},
                                  .options = every_option};
    kiln_key_builder *builder;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = kilni_opencl_add_inputs_with_headers(&source, &embedded, builder, NULL);
        kiln_key_builder_free(&builder);
    }
    return status;
}

static void survives_want_of_memory(void **state)
{
    (void)state;
    put("a/h.h", "#include \"../g.h\"\n");
    put("g.h", "#define G 1\n");
    assert_int_equal(try_everything(), KILN_OK);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        kiln_status status = try_everything();
        if (failing_malloc_disarm() < n) {
            assert_true(n > 50);
            break;
        }
        assert_int_equal(status, KILN_E_NO_MEMORY);
    }
}

static kilni_os_table failing_table;
static int calls_left;

static int fails_now(void)
{
    return calls_left-- == 0;
}

static int failing_fstatat(int directory, const char *path, struct stat *ret_stat, int flags)
{
    errno = EIO;
    return fails_now() ? -1 : kilni_os_system()->fstatat(directory, path, ret_stat, flags);
}

static int failing_openat(int directory, const char *path, int flags, mode_t mode)
{
    errno = EIO;
    return fails_now() ? -1 : kilni_os_system()->openat(directory, path, flags, mode);
}

static int failing_fstat(int file, struct stat *ret_stat)
{
    errno = EIO;
    return fails_now() ? -1 : kilni_os_system()->fstat(file, ret_stat);
}

static ssize_t failing_read(int file, void *buffer, size_t size)
{
    errno = EIO;
    return fails_now() ? -1 : kilni_os_system()->read(file, buffer, size);
}

/* A file that cannot be read is never treated as missing. */
static void refuses_when_files_cannot_be_read(void **state)
{
    (void)state;
    put("a/h.h", "#include \"../g.h\"\n");
    put("g.h", "#define G 1\n");
    failing_table = *kilni_os_system();
    failing_table.fstatat = failing_fstatat;
    failing_table.openat = failing_openat;
    failing_table.fstat = failing_fstat;
    failing_table.read = failing_read;
    kilni_os_replace(&failing_table);
    for (int n = 0;; n++) {
        calls_left = n;
        kiln_status status = try_everything();
        if (calls_left >= 0) {
            assert_int_equal(status, KILN_OK);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, KILN_E_UNSUPPORTED);
    }
    kilni_os_replace(NULL);
}

/* ---- what the installed drivers do ---- */

/* Whether a driver accepts the source, which shows that it found the header. */
static int driver_builds(cl_device_id device, const char *code, const char *options)
{
    cl_int error;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    cl_program program = clCreateProgramWithSource(context, 1, &code, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    error = clBuildProgram(program, 1, &device, options, NULL, NULL);
    clReleaseProgram(program);
    clReleaseContext(context);
    return error == CL_SUCCESS;
}

static void has_every_file_that_a_driver_finds(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *include;
        const char *options;
    } cases[] = {
        {"q1.h", "#include \"q1.h\"", NULL},
        {"q2.h", "#include <q2.h>", NULL},
        {"x/q3.h", "#include <q3.h>", "-I x"},
        {"x/q4.h", "#include \"q4.h\"", "-Ix"},
        {"x y/q5.h", "#include <q5.h>", "-I\"x y\""},
        {" x y /q6.h", "#include <q6.h>", "-I\"x y\""},
        {"x/q7.h", "#include <q7.h>", "-I\tx"},
        {"include/q8.h", "#include <q8.h>", NULL},
        {"driver-folder/q9.h", "#include \"q9.h\"", NULL},
        {"driver-folder/q10.h", "#include <q10.h>", NULL},
        {"q11.h", "#import <q11.h>", NULL},
        {"q12.h", "#include N", "-DN=<q12.h>"},
        {"x/q13.h", "#define S(a) T(a)\n#define T(a) #a\n#include S(P/q13.h)", "-D P=x"},
        {"q14.h", "%:include <q14.h>", NULL},
        {"q15.h", "#inc\\  \nlude <q15.h>", NULL},
        {"q16.h", "", "-include q16.h"},
    };
    cl_platform_id platforms[8];
    cl_uint count = 0;
    if (clGetPlatformIDs(8, platforms, &count) != CL_SUCCESS || count == 0) {
        print_message("no OpenCL platform: skipped\n");
        skip();
    }
    size_t found = 0;
    for (cl_uint p = 0; p < count && p < 8; p++) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
            continue;
        }
        for (size_t i = 0; i < COUNT(cases); i++) {
            char code[512];
            put(cases[i].path, "#define FOUND 1\n");
            snprintf(code, sizeof code,
                     "%s\n#ifndef FOUND\n#error none\n#endif\nkernel void k(void) {}\n",
                     cases[i].include);
            if (!driver_builds(device, code, cases[i].options)) {
                continue;
            }
            found++;
            expect_found(code, cases[i].options, "[#define FOUND 1\n]");
        }
    }
    assert_true(found >= 8);
}

#define SCRATCH_TEST(name) cmocka_unit_test_setup_teardown(name, enter_scratch, leave_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(finds_includes),
        SCRATCH_TEST(takes_zero_bytes_for_blanks),
        SCRATCH_TEST(refuses_sources_that_cannot_be_cached),
        SCRATCH_TEST(allows_what_only_looks_alike),
        SCRATCH_TEST(expands_computed_includes),
        SCRATCH_TEST(tries_a_macro_as_undefined_too),
        SCRATCH_TEST(takes_definitions_of_headers),
        SCRATCH_TEST(refuses_macros_that_are_unknown),
        SCRATCH_TEST(follows_a_real_programs_macros),
        SCRATCH_TEST(looks_in_every_place),
        SCRATCH_TEST(looks_in_the_including_files_folder),
        SCRATCH_TEST(looks_in_the_systems_folder),
        SCRATCH_TEST(refuses_files_in_the_place_of_folders),
        SCRATCH_TEST(sees_a_file_that_moves),
        SCRATCH_TEST(ends_on_cycles),
        SCRATCH_TEST(bounds_depth_and_size),
        SCRATCH_TEST(names_the_place_where_a_file_name_is_used),
        SCRATCH_TEST(takes_known_options),
        SCRATCH_TEST(refuses_unknown_options),
        SCRATCH_TEST(takes_options_from_variables),
        SCRATCH_TEST(keeps_inputs_apart),
        SCRATCH_TEST(shares_equal_folders),
        SCRATCH_TEST(takes_intermediate_language_as_it_is),
        SCRATCH_TEST(counts_embedded_headers),
        SCRATCH_TEST(looks_beside_embedded_headers),
        SCRATCH_TEST(looks_behind_links_to_embedded_headers),
        SCRATCH_TEST(keeps_links_apart),
        SCRATCH_TEST(refuses_link_options_that_may_name_files),
        SCRATCH_TEST(says_whether_files_may_count),
        SCRATCH_TEST(survives_want_of_memory),
        SCRATCH_TEST(refuses_when_files_cannot_be_read),
        SCRATCH_TEST(has_every_file_that_a_driver_finds),
    };
    return cmocka_run_group_tests_name("opencl_inputs", tests, NULL, NULL);
}
