/* SPDX-License-Identifier: Apache-2.0
 *
 * What the drivers of this machine read is seen, as far as it decides their builds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CL/cl.h>

#include "device/opencl/binary.h"
#include "device/opencl/inputs.h"
#include "device/opencl/watched_build.h"
#include "device/watch/reads.h"
#include "support/opencl_platforms.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static opencl_platforms found;
static char driver_folder[64];

/* ---- a folder for each test ---- */

typedef struct scratch {
    char path[64];
    char before[4096];
} scratch;

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts, (void)kind, (void)walk;
    return remove(path);
}

static void remove_all(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void enter_scratch(scratch *s)
{
    strcpy(s->path, "/tmp/kiln-watched-XXXXXX");
    assert_non_null(getcwd(s->before, sizeof s->before));
    assert_non_null(mkdtemp(s->path));
    assert_int_equal(chdir(s->path), 0);
}

static void leave_scratch(const scratch *s)
{
    assert_int_equal(chdir(s->before), 0);
    remove_all(s->path);
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

/* ---- builds ---- */

static bool builds(const opencl_platform *platform, const char *code, const char *options)
{
    cl_int error;
    cl_program program =
        found.cl.clCreateProgramWithSource(platform->context, 1, &code, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    error = found.cl.clBuildProgram(program, 1, &platform->device, options, NULL, NULL);
    found.cl.clReleaseProgram(program);
    return error == CL_SUCCESS;
}

static kiln_status watch(const opencl_platform *platform, const char *code, const char *options,
                         kilni_text *ret_reads, const char **ret_why)
{
    kilni_opencl_watched_build build;
    kilni_words words = {.list = &kilni_opencl_words};
    cl_platform_id id = NULL;
    found.cl.clGetDeviceInfo(platform->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &id,
                             NULL);
    kilni_words_scan(&words, code, strlen(code));
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of(platform->name), options);
    builds(platform, code, options);
    kilni_opencl_watched_build_end(&build);
    const kiln_status status =
        kilni_opencl_watched_build_finish(&build, &words, ret_reads, ret_why);
    kilni_opencl_watched_build_done(&build);
    return status;
}

static bool hold(const opencl_platform *platform, const kilni_text *reads)
{
    char *name = NULL;
    assert_int_equal(kilni_opencl_source_name(kilni_opencl_traits_of(platform->name), &name),
                     KILN_OK);
    const kiln_status status =
        kilni_reads_hold((kiln_bytes){reads->bytes, reads->length}, name, NULL);
    free(name);
    assert_true(status == KILN_OK || status == KILN_MISS);
    return status == KILN_OK;
}

/* Of a build that must be one that can be kept. */
static kilni_text watch_well(const opencl_platform *platform, const char *code, const char *options)
{
    kilni_text reads = {0};
    const char *why = NULL;
    if (watch(platform, code, options, &reads, &why) != KILN_OK) {
        fail_msg("<<%s>> with %s: %s", code, options ? options : "none", why);
    }
    assert_true(hold(platform, &reads));
    return reads;
}

static void on_each_platform(void (*check)(const opencl_platform *platform))
{
    size_t count = 0;
    for (size_t i = 0; i < found.count; i++) {
        if (kilni_opencl_traits_of(found.platforms[i].name)->compiler) {
            scratch s;
            enter_scratch(&s);
            check(&found.platforms[i]);
            leave_scratch(&s);
            count++;
        }
    }
    if (count == 0) {
        print_message("no OpenCL platform that can be watched\n");
        skip();
    }
}

/* ---- what is read ---- */

typedef struct read_case {
    const char *path;
    const char *include;
    const char *options;
} read_case;

static const read_case cases[] = {
    {"h.h", "#include \"h.h\"", NULL},
    {"h.h", "#include <h.h>", NULL},
    {"x/h.h", "#include <h.h>", "-I x"},
    {"x/h.h", "#include \"h.h\"", "-I y -Ix -I ."},
    {"x y/h.h", "#include <h.h>", "-I\"x y\""},
    {" x y /h.h", "#include <h.h>", "-I\"x y\""},
    {"x/h.h", "#include <h.h>", "-I\tx"},
    {"include/h.h", "#include <h.h>", NULL},
    {"@/h.h", "#include \"h.h\"", NULL},
    {"@/h.h", "#include <h.h>", NULL},
    {"h.h", "#import <h.h>", NULL},
    {"h.h", "#include N", "-DN=<h.h>"},
    {"x/h.h", "#define S(a) T(a)\n#define T(a) #a\n#include S(P/h.h)", "-D P=x"},
    {"h.h", "%:include <h.h>", NULL},
    {"h.h", "#inc\\  \nlude <h.h>", NULL},
    {"h.h", "", "-include h.h"},
    {"h.h", "#if __has_include(\"h.h\")\n#include \"h.h\"\n#endif", NULL},
    {"h.h", "#ifdef NEVER\n#include \"other.h\"\n#endif\n#include \"h.h\"", NULL},
};

static const char *const places[] = {"h.h",       "x/h.h",   "y/h.h",       "x y/h.h",
                                     " x y /h.h", "x/x/h.h", "include/h.h", "@/h.h"};

/* Wherever another header of that name comes to be: if it makes a difference to the driver, the
 * reads do not hold any more. */
static void check_other_places(const opencl_platform *platform, const char *code,
                               const char *options, const char *own_path, const kilni_text *reads)
{
    for (size_t i = 0; i < COUNT(places); i++) {
        char path[256];
        snprintf(path, sizeof path, "%s%s", *places[i] == '@' ? driver_folder : "",
                 places[i] + (*places[i] == '@'));
        if (strcmp(path, own_path) == 0 || access(path, F_OK) == 0) {
            continue;
        }
        put(path, "#define FOUND 2\n");
        if (!builds(platform, code, options)) {
            assert_false(hold(platform, reads));
        }
        assert_int_equal(remove(path), 0);
    }
}

static bool check_case(const opencl_platform *platform, const read_case *of)
{
    char code[512], path[256];
    snprintf(code, sizeof code, "%s\n#if FOUND != 1\n#error none\n#endif\nkernel void k(void) {}\n",
             of->include);
    snprintf(path, sizeof path, "%s%s", *of->path == '@' ? driver_folder : "",
             of->path + (*of->path == '@'));
    put(path, "#define FOUND 1\n");
    const bool is_found = builds(platform, code, of->options);
    if (is_found) {
        kilni_text reads = watch_well(platform, code, of->options);
        put(path, "#define FOUND 2\n");
        assert_false(hold(platform, &reads));
        assert_int_equal(remove(path), 0);
        assert_false(hold(platform, &reads));
        put(path, "#define FOUND 1\n");
        assert_true(hold(platform, &reads));
        check_other_places(platform, code, of->options, path, &reads);
        assert_true(hold(platform, &reads));
        kilni_text_done(&reads);
    }
    assert_int_equal(remove(path), 0);
    return is_found;
}

static void check_every_file_that_is_found(const opencl_platform *platform)
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT(places) && *places[i] != '@'; i++) {
        put(places[i], ""); /* so that all folders are there before */
        assert_int_equal(remove(places[i]), 0);
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        count += check_case(platform, &cases[i]);
    }
    assert_true(count >= 8);
}

static void check_headers_of_headers(const opencl_platform *platform)
{
    static const char code[] = "#include \"a/p.h\"\n#include \"b/q.h\"\nkernel void k(void) {}\n";
    put("a/p.h", "#include \"x.h\"\n");
    put("b/q.h", "\n");
    put("a/x.h", "int x(void);\n");
    kilni_text reads = watch_well(platform, code, NULL);
    put("a/x.h", "int y(void);\n");
    assert_false(hold(platform, &reads));
    put("a/x.h", "int x(void);\n");
    assert_true(hold(platform, &reads));
    assert_int_equal(rename("a/x.h", "x.h"), 0);
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
}

/* Clang takes a file in the place of a folder for a header map. */
static void check_header_maps(const opencl_platform *platform)
{
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    put("h.h", "\n");
    put("map", "hmap, but none that can be read");
    kilni_text reads = watch_well(platform, code, "-I map");
    put("map", "another");
    assert_false(hold(platform, &reads));
    assert_int_equal(remove("map"), 0);
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
}

/* Relative paths count from where the driver builds, so that equal folders share results. */
static void check_equal_folders(const opencl_platform *platform)
{
    static const char code[] = "#include <h.h>\nkernel void k(void) {}\n";
    put("one/in/h.h", "#include \"g.h\"\n");
    put("one/in/g.h", "\n");
    put("two/in/h.h", "#include \"g.h\"\n");
    put("two/in/g.h", "\n");
    assert_int_equal(chdir("one"), 0);
    kilni_text reads = watch_well(platform, code, "-I in");
    assert_int_equal(chdir("../two"), 0);
    assert_true(hold(platform, &reads));
    put("in/g.h", "int g;\n");
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

/* The driver's answer in another folder must be that of the first one, or the reads don't hold
 * there. */
static void check_in_other_folder(const opencl_platform *platform, const char *code,
                                  const char *options)
{
    assert_int_equal(chdir("one"), 0);
    assert_true(builds(platform, code, options));
    kilni_text reads = watch_well(platform, code, options);
    assert_int_equal(chdir("../two"), 0);
    if (!builds(platform, code, options)) {
        assert_false(hold(platform, &reads));
    }
    assert_int_equal(chdir("../one"), 0);
    assert_true(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

static void check_in_both_folders(const opencl_platform *platform, const char *code,
                                  const char *options)
{
    const char *before = getenv("PWD");
    char *kept = before ? strdup(before) : NULL, *here = getcwd(NULL, 0);
    char path[256];
    snprintf(path, sizeof path, "%s/one", here);
    const char *const values[] = {path, here};
    check_in_other_folder(platform, code, options);
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_int_equal(setenv("PWD", values[i], 1), 0);
        check_in_other_folder(platform, code, options);
    }
    assert_int_equal(kept ? setenv("PWD", kept, 1) : unsetenv("PWD"), 0);
    free(kept);
    free(here);
}

/* Folders that the driver finds by the path of the working directory, which it puts before relative
 * ones. */
static void check_working_directory(const opencl_platform *platform)
{
    static const char plain[] = "#include <p.h>\n#if P != 1\n#error other\n#endif\n"
                                "kernel void k(void) {}\n";
    static const char nested[] = "#include \"common/math.h\"\n#if N != 1\n#error other\n#endif\n"
                                 "kernel void k(void) {}\n";
    static const char absent[] = "#if __has_include(<n.h>)\n#error other\n#endif\n"
                                 "kernel void k(void) {}\n";
    char options[256], *here = getcwd(NULL, 0);
    put("one/p.h", "#define P 1\n");
    put("two/p.h", "#define P 2\n");
    put("one/common/math.h", "#include \"common/types.h\"\n");
    put("two/common/math.h", "#include \"common/types.h\"\n");
    put("one/common/types.h", "#define N 1\n");
    put("two/common/types.h", "#define N 2\n");
    put("two/n.h", "\n");
    if (strcmp(platform->name, "Portable Computing Language") != 0) {
        check_in_both_folders(platform, plain, NULL);
        check_in_both_folders(platform, nested, NULL);
    }
    check_in_both_folders(platform, plain, "-I .");
    check_in_both_folders(platform, nested, "-I .");
    check_in_both_folders(platform, absent, NULL);
    check_in_both_folders(platform, absent, "-I .");

    /* There, another process may later put what is not searched twice here. */
    snprintf(options, sizeof options, "-I. -I%s/one", here);
    assert_int_equal(chdir("one"), 0);
    kilni_text reads = watch_well(platform, absent, options);
    assert_int_equal(chdir("../two"), 0);
    assert_int_equal(remove("n.h"), 0);
    put("../one/n.h", "\n");
    assert_false(builds(platform, absent, options));
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
    free(here);
}

/* Clang searches a folder once, by whatever names it knows it. */
static void check_equal_names_of_folders(const opencl_platform *platform)
{
    static const char code[] = "#if __has_include(<x.h>)\n#error other\n#endif\n"
                               "kernel void k(void) {}\n";
    char options[256], path[128], *here = getcwd(NULL, 0), *kept = strdup(getenv("PWD"));
    snprintf(path, sizeof path, "%s/fb", here);
    for (size_t i = 0; i < 3; i++) {
        snprintf(options, sizeof options, "-I fa -I %s", i == 0 ? "fb" : path);
        assert_int_equal(setenv("PWD", i == 2 ? path : kept, 1), 0);
        put("fa/other.h", "\n");
        assert_int_equal(symlink("fa", "fb"), 0);
        kilni_text reads = watch_well(platform, code, options);
        assert_int_equal(remove("fb"), 0);
        put("fb/x.h", "\n");
        assert_false(builds(platform, code, options));
        assert_false(hold(platform, &reads));
        kilni_text_done(&reads);
        remove_all("fb");
    }
    assert_int_equal(setenv("PWD", kept, 1), 0);
    free(kept);
    free(here);
}

/* Whatever PWD says, a folder may come to be there. */
static void check_folder_of_variable(const opencl_platform *platform)
{
    static const char code[] = "#if __has_include(<x.h>)\n#error other\n#endif\n"
                               "kernel void k(void) {}\n";
    char options[256], path[128], *here = getcwd(NULL, 0), *kept = strdup(getenv("PWD"));
    snprintf(path, sizeof path, "%s/nd", here);
    snprintf(options, sizeof options, "-I %s", path);
    assert_int_equal(setenv("PWD", path, 1), 0);
    kilni_text reads = watch_well(platform, code, options);
    put("nd/x.h", "\n");
    assert_false(builds(platform, code, options));
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
    assert_int_equal(setenv("PWD", kept, 1), 0);
    free(kept);
    free(here);
}

/* A name in another case, which clang warns of: the file's own name counts. */
static void check_links(const opencl_platform *platform)
{
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    put("H.h", "\n");
    put("other.h", "\n");
    assert_int_equal(symlink("other.h", "h.h"), 0);
    kilni_text reads = watch_well(platform, code, NULL);
    assert_int_equal(remove("h.h"), 0);
    assert_int_equal(symlink("H.h", "h.h"), 0);
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
}

static void expect_not_kept(const opencl_platform *platform, const char *code, const char *reason)
{
    kilni_text reads = {0};
    const char *why = "";
    const kiln_status status = watch(platform, code, NULL, &reads, &why);
    assert_true(status == KILN_E_UNSUPPORTED || status == KILN_MISS);
    if (!strstr(why, reason)) {
        fail_msg("<<%s>>: %s, not %s", code, why, reason);
    }
    kilni_text_done(&reads);
}

static void check_what_headers_ask(const opencl_platform *platform)
{
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    static const char pasting[] = "#include \"h.h\"\n#define P(a, b) a##b\n"
                                  "kernel void k(global char *o) { *o = P(__TI, ME__)[0]; }\n";
    put("h.h", "constant char when[] = __TIME__;\n");
    expect_not_kept(platform, code, "__TIME__");
    put("h.h", "void f(void) { __asm__(\".incbin \\\"x\\\"\"); }\n");
    expect_not_kept(platform, code, "assembly");
    put("x", "\n");
    put("h.h", "#pragma GCC dependency \"x\"\n");
    expect_not_kept(platform, code, "#pragma");
    put("h.h", "\n");
    expect_not_kept(platform, pasting, "__TIME__");

    /* The working directory, if a header says its own name. */
    put("one/h.h", "constant char where[] = __FILE__;\n");
    put("two/h.h", "constant char where[] = __FILE__;\n");
    assert_int_equal(chdir("one"), 0);
    kilni_text reads = watch_well(platform, code, NULL);
    assert_int_equal(chdir("../two"), 0);
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

/* A driver that is none of those that can be watched. */
static void check_unknown_driver(const opencl_platform *platform)
{
    kilni_opencl_watched_build build;
    const kilni_words words = {.list = &kilni_opencl_words};
    kilni_text reads = {0};
    const char *why = NULL;
    cl_platform_id id = NULL;
    found.cl.clGetDeviceInfo(platform->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &id,
                             NULL);
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of("unknown"), NULL);
    kilni_opencl_watched_build_end(&build);
    assert_int_equal(kilni_opencl_watched_build_finish(&build, &words, &reads, &why),
                     KILN_E_UNSUPPORTED);
    /* And one whose compiler did not work. */
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of(platform->name), NULL);
    kilni_opencl_watched_build_end(&build);
    assert_int_equal(kilni_opencl_watched_build_finish(&build, &words, &reads, &why),
                     KILN_E_UNSUPPORTED);
    assert_string_equal(why, "the compiler was not seen at work");
    kilni_opencl_watched_build_done(&build);
}

#define ON_EACH_PLATFORM(check)                                                                    \
    static void test_##check(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        on_each_platform(check_##check);                                                           \
    }

ON_EACH_PLATFORM(every_file_that_is_found)
ON_EACH_PLATFORM(headers_of_headers)
ON_EACH_PLATFORM(header_maps)
ON_EACH_PLATFORM(equal_folders)
ON_EACH_PLATFORM(working_directory)
ON_EACH_PLATFORM(equal_names_of_folders)
ON_EACH_PLATFORM(folder_of_variable)
ON_EACH_PLATFORM(links)
ON_EACH_PLATFORM(what_headers_ask)
ON_EACH_PLATFORM(unknown_driver)

/* PoCL takes the variable when it is loaded. */
static int find_platforms(void **state)
{
    (void)state;
    strcpy(driver_folder, "/tmp/kiln-watched-XXXXXX");
    if (!mkdtemp(driver_folder) || setenv("POCL_CACHE_DIR", driver_folder, 1) != 0) {
        return -1;
    }
    opencl_open(&found);
    return 0;
}

static int forget_platforms(void **state)
{
    (void)state;
    opencl_close(&found);
    remove_all(driver_folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file_that_is_found),
        cmocka_unit_test(test_headers_of_headers),
        cmocka_unit_test(test_header_maps),
        cmocka_unit_test(test_equal_folders),
        cmocka_unit_test(test_working_directory),
        cmocka_unit_test(test_equal_names_of_folders),
        cmocka_unit_test(test_folder_of_variable),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_what_headers_ask),
        cmocka_unit_test(test_unknown_driver),
    };
    return cmocka_run_group_tests(tests, find_platforms, forget_platforms);
}
