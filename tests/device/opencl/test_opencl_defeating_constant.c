/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/build_key.h"
#include "device/opencl/defeating_constant.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NUMBER "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"
#define DECLARATION(number) "\n\n__constant int pyopencl_defeat_cache_" number " = 0;"
#define KERNEL "__kernel void f(__global int *out) { out[get_global_id(0)] = 1; }"

/* ---- the form of the declaration ---- */

static bool is_recognized(const char *text, size_t size, uint32_t form)
{
    /* An exact copy, so that a sanitizer sees a read beyond its ends. */
    char *copy = malloc(size + !size);
    assert_non_null(copy);
    memcpy(copy, text, size);
    const kiln_program_source source = {
        .struct_size = sizeof source, .form = form, .code = {copy, size}};
    size_t own_size = SIZE_MAX;
    const bool is = kilni_opencl_ends_with_defeating_constant(&source, &own_size);
    assert_true(is ? own_size < size : own_size == SIZE_MAX);
    free(copy);
    return is;
}

static void test_the_exact_form(void **state)
{
    static const char text[] = KERNEL DECLARATION(NUMBER);
    const size_t size = sizeof text - 1;
    (void)state;
    assert_true(is_recognized(text, size, KILN_SOURCE_TEXT));
    assert_true(
        is_recognized(text + sizeof KERNEL - 1, size - sizeof KERNEL + 1, KILN_SOURCE_TEXT));
    assert_false(is_recognized(text, size, KILN_SOURCE_IL));
    for (size_t end = 0; end < size; end++) {
        assert_false(is_recognized(text, end, KILN_SOURCE_TEXT));
    }
    for (size_t begin = sizeof KERNEL; begin < size; begin++) {
        assert_false(is_recognized(text + begin, size - begin, KILN_SOURCE_TEXT));
    }
    static const char *const after[] = {" ", "\n", ";", "0", "\0", "\n\n", "//"};
    for (size_t i = 0; i < COUNT(after); i++) {
        char longer[sizeof text + 2];
        const size_t length = i == 4 ? 1 : strlen(after[i]);
        memcpy(longer, text, size);
        memcpy(longer + size, after[i], length);
        assert_false(is_recognized(longer, size + length, KILN_SOURCE_TEXT));
    }
}

/* Changes, inserts and removes each byte of the declaration. Only a change of one digit of the
 * number leaves it a declaration. */
static void test_all_near_misses(void **state)
{
    static const char text[] = "x" DECLARATION(NUMBER);
    const size_t size = sizeof text - 1;
    const size_t number = (size_t)(strstr(text, NUMBER) - text);
    char changed[sizeof text + 1];
    (void)state;
    for (size_t at = 1; at < size; at++) {
        const bool is_in_number = at >= number && at < number + sizeof NUMBER - 1;
        memcpy(changed, text, at);
        memcpy(changed + at, text + at + 1, size - at - 1);
        assert_false(is_recognized(changed, size - 1, KILN_SOURCE_TEXT));
        for (int byte = 0; byte < 256; byte++) {
            const bool is_digit = byte != 0 && strchr("0123456789abcdef", byte);
            memcpy(changed, text, size);
            changed[at] = (char)byte;
            assert_int_equal(is_recognized(changed, size, KILN_SOURCE_TEXT),
                             (is_in_number && is_digit) || changed[at] == text[at]);
            memcpy(changed + at + 1, text + at, size - at);
            /* A newline before the two newlines belongs to the text before the declaration. */
            const bool is_before = at <= 3 && byte == '\n';
            assert_int_equal(is_recognized(changed, size + 1, KILN_SOURCE_TEXT),
                             is_before || at == 1);
        }
    }
}

/* ---- keys ---- */

static kiln_key *key_of(const char *text, const char *options)
{
    kiln_key_builder *builder = NULL;
    kiln_key *identity = NULL, *key = NULL;
    kilni_opencl_texts texts;
    const kilni_opencl_constants none = {0};
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    kiln_key_builder_add_text(builder, "device.name", "a device");
    assert_int_equal(kiln_key_builder_finish(builder, &identity), KILN_OK);
    kiln_key_builder_free(&builder);
    const kilni_opencl_site site = {.identity = identity, .platform_name = "Intel(R) OpenCL"};
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {text, strlen(text)},
                                        .options = options};
    kiln_error error = {.struct_size = sizeof error};
    if (kilni_opencl_build_key(&site, &source, &none, &texts, &key, &error) != KILN_OK) {
        fail_msg("%s %s: %s", text, options, error.text);
    }
    bool has_source_end = false;
    for (size_t i = 0; i < kiln_key_part_count(key); i++) {
        kiln_key_part part;
        assert_int_equal(kiln_key_part_at(key, i, &part), KILN_OK);
        has_source_end |= strcmp(part.name, "source.end") == 0;
    }
    assert_int_equal(has_source_end, texts.has_source_end);
    kiln_key_release(&identity);
    return key;
}

static bool share_key(const char *first, const char *second, const char *options)
{
    kiln_key *a = key_of(first, options), *b = key_of(second, options);
    const bool same = kiln_key_equals(a, b);
    kiln_key_release(&a);
    kiln_key_release(&b);
    return same;
}

static void test_keys_are_shared(void **state)
{
    (void)state;
    static const char *const options[] = {
        NULL, "", "-cl-fast-relaxed-math",
        "-I /usr/lib/python3/dist-packages/pyopencl/cl -DX=opencl -DY=\"cache\""};
    for (size_t i = 0; i < COUNT(options); i++) {
        assert_true(share_key(KERNEL DECLARATION(NUMBER), KERNEL DECLARATION(OTHER), options[i]));
        assert_false(share_key(KERNEL DECLARATION(NUMBER), KERNEL "\n", options[i]));
        assert_false(share_key(KERNEL DECLARATION(NUMBER), KERNEL, options[i]));
        assert_false(
            share_key(KERNEL DECLARATION(NUMBER), KERNEL " " DECLARATION(NUMBER), options[i]));
    }
    /* What PyOpenCL's own sources contain. */
#define TYPICAL                                                                                    \
    "#include <pyopencl-complex.h>\n#define pyopencl_elwise(a, b) a##b\n"                          \
    "// opencl \"cache\" h d e f y n\n" KERNEL
    assert_true(share_key(TYPICAL DECLARATION(NUMBER), TYPICAL DECLARATION(OTHER), NULL));
}

/* Texts that can name the constant, and options that do. */
static void test_named_constants_stay_in_the_key(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *options;
    } cases[] = {
        {"pyopencl_defeat_cache_" NUMBER, NULL},
        {"pyopencl_defeat_cache_", NULL},
        {"// pyopencl_defeat_cache_1", NULL},
        {"/* pyopencl_defeat_cache_" NUMBER " */", NULL},
        {"\"pyopencl_defeat_cache_" NUMBER "\"", NULL},
        {"#pragma weak pyopencl_defeat_cache_" NUMBER, NULL},
        {DECLARATION(NUMBER), NULL},
        {DECLARATION(OTHER), NULL},
        {"pyopencl_defeat\\\n_cache_" NUMBER, NULL},
        {"pyopencl_def\\  \r\neat_cache_" NUMBER, NULL},
        {"pyopencl_defeat\?\?/\n_cache_" NUMBER, NULL},
        {"JOIN(pyopencl_, defeat_cache_" NUMBER ")\n#define JOIN(a, b) a##b", NULL},
        {"JOIN(pyopencl_defeat_cac, he_0123, 456789)\n#define JOIN(a, b, c) a%:%:b%:%:c", NULL},
        {"JOIN(pyopencl_defeat_cache, _, 0)", NULL},
        {"p y o p e n c l _ d e f e a t _ c a c h e _ 0", NULL},
        {"p y p e n c l f e a t c h", NULL},
        {"__asm__(\"pyopencl_\" \"defeat_cache_" NUMBER "\")", NULL},
        {"__attribute__((alias(\"pyopencl_defeat\" \"_cache_\" \"" NUMBER "\")))", NULL},
        {"alias(\"\\x70yopencl_defeat_\" \"cache_" NUMBER "\")", NULL},
        {"alias(\"\\160yopencl_defeat_\" \"cache_" NUMBER "\")", NULL},
        {"\\u0070yopencl_defeat", NULL},
        {"\"\?\?/x70\"", NULL},
        {"\"\\\\\nx70\"", NULL},
        {KERNEL, "-DX=pyopencl_defeat_cache_" NUMBER},
        {KERNEL, "-D pyopencl_defeat_cache_" NUMBER "=1"},
        {KERNEL, "-DX=pyopencl_ -DY=defeat_cache_" NUMBER},
        {KERNEL, "-DX=pyopencl_def\"eat_cache_\"" NUMBER},
        {"X(pyopencl_defeat)", "-DX(a)=a##_cache_0"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char first[512], second[512];
        snprintf(first, sizeof first, "%s%s", cases[i].text, DECLARATION(NUMBER));
        snprintf(second, sizeof second, "%s%s", cases[i].text, DECLARATION(OTHER));
        if (share_key(first, second, cases[i].options)) {
            fail_msg("case %zu: %s", i, cases[i].text);
        }
        assert_true(share_key(first, first, cases[i].options));
    }
}

static void test_a_variable_that_names_the_constant(void **state)
{
    (void)state;
    setenv("OPENCL_PROGRAM_COMPILE_OPTIONS", "-DX=pyopencl_defeat_cache_1", 1);
    assert_false(share_key(KERNEL DECLARATION(NUMBER), KERNEL DECLARATION(OTHER), NULL));
    unsetenv("OPENCL_PROGRAM_COMPILE_OPTIONS");
}

/* Cuts the name at each set of up to three places, and puts the pieces into a text in any order. */
static void test_all_cuts_of_the_name(void **state)
{
    static const char name[] = "pyopencl_defeat_cache_" NUMBER;
    const size_t size = sizeof name - 1;
    (void)state;
    for (size_t a = 1; a < size - 1; a += 1) {
        for (size_t b = a + 1; b < size; b += 3) {
            char text[256], first[512], second[512];
            snprintf(text, sizeof text, "X(%s, %.*s, %.*s)", name + b, (int)a, name, (int)(b - a),
                     name + a);
            snprintf(first, sizeof first, "%s%s", text, DECLARATION(NUMBER));
            snprintf(second, sizeof second, "%s%s", text, DECLARATION(OTHER));
            if (share_key(first, second, NULL)) {
                fail_msg("%s", text);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_exact_form),
        cmocka_unit_test(test_all_near_misses),
        cmocka_unit_test(test_keys_are_shared),
        cmocka_unit_test(test_named_constants_stay_in_the_key),
        cmocka_unit_test(test_a_variable_that_names_the_constant),
        cmocka_unit_test(test_all_cuts_of_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
