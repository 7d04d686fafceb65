/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of one program that NVRTC also applies to later programs. A process cannot undo them, so
 * each history runs in a child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/nvrtc/lasting_options.h"
#include "support/child.h"

enum { PROGRAMS_MAX = 4, OPTIONS_MAX = 5 };

typedef const char *option_list[OPTIONS_MAX];

/* The options of each program that a process compiles in turn; a list that begins with NULL is
 * empty. */
typedef struct history {
    int count;
    option_list programs[PROGRAMS_MAX];
} history;

static history now;

static int count_options(const char *const *options)
{
    int count = 0;
    while (count < OPTIONS_MAX && options[count]) {
        count++;
    }
    return count;
}

static void compile_all(void)
{
    for (int i = 0; i < now.count; i++) {
        kilni_nvrtc_note_lasting_options(count_options(now.programs[i]), now.programs[i]);
    }
}

static void keep_last(void)
{
    const char *const *last = now.programs[now.count - 1];
    compile_all();
    CHECK(!kilni_nvrtc_lasting_options_refusal(count_options(last), last));
}

static void refuse_last(void)
{
    const char *const *last = now.programs[now.count - 1];
    compile_all();
    CHECK(kilni_nvrtc_lasting_options_refusal(count_options(last), last));
}

#define HISTORY(...)                                                                               \
    (history)                                                                                      \
    {                                                                                              \
        sizeof((option_list[]){__VA_ARGS__}) / sizeof(option_list),                                \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define ASSERT_KEPT(...)                                                                           \
    do {                                                                                           \
        now = HISTORY(__VA_ARGS__);                                                                \
        assert_int_equal(run_in_child(keep_last), 0);                                              \
    } while (0)
#define ASSERT_REFUSED(...)                                                                        \
    do {                                                                                           \
        now = HISTORY(__VA_ARGS__);                                                                \
        assert_int_equal(run_in_child(refuse_last), 0);                                            \
    } while (0)
/* A list cannot be empty in C17. */
#define NONE                                                                                       \
    {                                                                                              \
        NULL                                                                                       \
    }

static void test_forgotten(void **state)
{
    (void)state;
    ASSERT_KEPT(NONE);
    ASSERT_KEPT({"-G", "-arch=sm_90", "--use_fast_math", "-w"}, NONE);
    ASSERT_KEPT({"-DA=1", "-D", "B", "-I/folder", "-Ufoo"}, {"-lineinfo"});
    ASSERT_KEPT({"-arch", "sm_90", "--std", "c++17", " -rdc=true "}, NONE);
    ASSERT_KEPT({"--define-macro=A=--restrict", "-DB=-restrict", "-I -restrict"}, NONE);
    ASSERT_KEPT({"--gpu-architecture sm_80", "\t-ftz true"}, {"-D", "A"});
}

static void test_lasting(void **state)
{
    (void)state;
    ASSERT_REFUSED({"--restrict"}, NONE);
    ASSERT_REFUSED({"-restrict"}, {"-G"}, {"-arch=sm_90"});
    ASSERT_REFUSED({" --restrict\n"}, NONE);
    ASSERT_REFUSED({"--restrict=true"}, NONE);
    ASSERT_REFUSED({"-arch=sm_90", "-G", "--Ofast-compile=mid"}, {"-arch=sm_90", "-G"});
    ASSERT_REFUSED({"--Ofast-compile", "mid"}, {"--Ofast-compile", "max"});
    ASSERT_REFUSED({"--optimization-info=inline"}, NONE);
    ASSERT_KEPT({"--restrict"});
    ASSERT_KEPT({"--restrict"}, {"--restrict", "-G"});
    ASSERT_KEPT({"--restrict"}, NONE, {"-arch=sm_90", "--restrict"});
    ASSERT_KEPT({"-G", "--restrict", "-Ofc=mid"}, {"--restrict", "-arch", "sm_90", "-Ofc=mid"});
    ASSERT_REFUSED({"--restrict"}, {"--restrict", "-Ofc=mid"});
    /* If several programs have different lasting options, all of these apply to later programs. */
    ASSERT_REFUSED({"--restrict"}, {"-Ofc=mid"}, {"--restrict"});
    ASSERT_REFUSED({"--restrict"}, {"-Ofc=mid"}, {"--restrict", "-Ofc=mid"});
}

/* An option that NVRTC is not known to forget is treated as lasting. */
static void test_unknown(void **state)
{
    (void)state;
    ASSERT_REFUSED({"--of-a-later-version"}, NONE);
    ASSERT_REFUSED({"-Xnvvm", "-opt=0"}, {"-Xnvvm", "-opt=3"});
    ASSERT_KEPT({"-Xnvvm", "-opt=0"}, {"-G", "-Xnvvm", "-opt=0"});
    ASSERT_REFUSED({"-architecture=sm_90"}, NONE);
    ASSERT_REFUSED({"-Gx"}, NONE);
    ASSERT_REFUSED({"-"}, NONE);
    ASSERT_REFUSED({"no option"}, NONE);
    ASSERT_REFUSED({""}, NONE);
}

/* A word that may be either an option or a value is treated as both. */
static void test_values_like_options(void **state)
{
    (void)state;
    ASSERT_REFUSED({"-I", "--restrict"}, NONE);
    ASSERT_REFUSED({"--restrict"}, {"-I", "--restrict"});
    ASSERT_REFUSED({"--restrict"}, {"-D ", "--restrict"});
    ASSERT_REFUSED({"--restrict"}, {"-arch", " --restrict"});
    ASSERT_REFUSED({"--restrict"}, {"-I", "restrict"});
}

static void compile_with_variable(void)
{
    setenv("NVRTC_APPEND_FLAGS", "--restrict", 1);
    kilni_nvrtc_note_lasting_options(0, NULL);
    unsetenv("NVRTC_APPEND_FLAGS");
    kilni_nvrtc_note_lasting_options(0, NULL);
    CHECK(kilni_nvrtc_lasting_options_refusal(0, NULL));
}

static void test_variables(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(compile_with_variable), 0);
}

/* The layer passes on the program's arguments, including those that NVRTC refuses. */
static void compile_incorrectly(void)
{
    static const char *const options[] = {NULL, "--restrict"};
    kilni_nvrtc_note_lasting_options(-1, options);
    kilni_nvrtc_note_lasting_options(1, NULL);
    kilni_nvrtc_note_lasting_options(1, options);
    CHECK(!kilni_nvrtc_lasting_options_refusal(0, NULL));
    kilni_nvrtc_note_lasting_options(2, options);
    CHECK(kilni_nvrtc_lasting_options_refusal(0, NULL));
}

static void test_incorrect_calls(void **state)
{
    (void)state;
    assert_int_equal(run_in_child(compile_incorrectly), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgotten), cmocka_unit_test(test_lasting),
        cmocka_unit_test(test_unknown),   cmocka_unit_test(test_values_like_options),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_incorrect_calls),
    };
    unsetenv("NVRTC_PREPEND_FLAGS");
    unsetenv("NVRTC_APPEND_FLAGS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
