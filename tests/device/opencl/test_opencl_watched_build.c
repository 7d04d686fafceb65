/* SPDX-License-Identifier: Apache-2.0
 *
 * Every read by this machine's drivers that affects a build is recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CL/cl.h>

#include <kiln/nvrtc.h>
#include <kiln/opencl.h>

#include "device/opencl/binary.h"
#include "device/opencl/inputs.h"
#include "device/opencl/stored.h"
#include "device/opencl/watched_build.h"
#include "device/watch/changed_files.h"
#include "os/os.h"
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
    kilni_opencl_texts texts = {.words.list = &kilni_opencl_words};
    cl_platform_id id = NULL;
    found.cl.clGetDeviceInfo(platform->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &id,
                             NULL);
    kilni_words_scan(&texts.words, code, strlen(code));
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of(platform->name), options);
    builds(platform, code, options);
    kilni_opencl_watched_build_end(&build);
    const kiln_status status =
        kilni_opencl_watched_build_finish(&build, &texts, ret_reads, ret_why);
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

/* Watches a build whose result must be cacheable, and returns its reads. */
static kilni_text watch_cacheable(const opencl_platform *platform, const char *code,
                                  const char *options)
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
    {"@/tempfile_common.h", "#include \"tempfile_common.h\"", NULL},
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

/* Creates a second header of that name in each other place. If this changes the driver's result,
 * the recorded reads must no longer hold. */
static void check_competing_headers(const opencl_platform *platform, const char *code,
                                    const char *options, const char *own_path,
                                    const kilni_text *reads)
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
        kilni_text reads = watch_cacheable(platform, code, of->options);
        put(path, "#define FOUND 2\n");
        assert_false(hold(platform, &reads));
        assert_int_equal(remove(path), 0);
        assert_false(hold(platform, &reads));
        put(path, "#define FOUND 1\n");
        assert_true(hold(platform, &reads));
        check_competing_headers(platform, code, of->options, path, &reads);
        assert_true(hold(platform, &reads));
        kilni_text_done(&reads);
    }
    assert_int_equal(remove(path), 0);
    return is_found;
}

static void check_every_file_found(const opencl_platform *platform)
{
    size_t count = 0;
    for (size_t i = 0; i < COUNT(places) && *places[i] != '@'; i++) {
        put(places[i], ""); /* creates the folders */
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
    kilni_text reads = watch_cacheable(platform, code, NULL);
    put("a/x.h", "int y(void);\n");
    assert_false(hold(platform, &reads));
    put("a/x.h", "int x(void);\n");
    assert_true(hold(platform, &reads));
    assert_int_equal(rename("a/x.h", "x.h"), 0);
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
}

/* Clang treats a file in place of a folder as a header map. */
static void check_header_maps(const opencl_platform *platform)
{
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    put("h.h", "\n");
    put("map", "hmap, but invalid");
    kilni_text reads = watch_cacheable(platform, code, "-I map");
    put("map", "different");
    assert_false(hold(platform, &reads));
    assert_int_equal(remove("map"), 0);
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
}

/* Relative paths are relative to the working directory of the build, so that folders with equal
 * contents share results. */
static void check_equal_folders(const opencl_platform *platform)
{
    static const char code[] = "#include <h.h>\nkernel void k(void) {}\n";
    put("one/in/h.h", "#include \"g.h\"\n");
    put("one/in/g.h", "\n");
    put("two/in/h.h", "#include \"g.h\"\n");
    put("two/in/g.h", "\n");
    assert_int_equal(chdir("one"), 0);
    kilni_text reads = watch_cacheable(platform, code, "-I in");
    assert_int_equal(chdir("../two"), 0);
    assert_true(hold(platform, &reads));
    put("in/g.h", "int g;\n");
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

/* If the driver's result in a second folder differs, the reads must not hold there. */
static void check_in_second_folder(const opencl_platform *platform, const char *code,
                                   const char *options)
{
    assert_int_equal(chdir("one"), 0);
    assert_true(builds(platform, code, options));
    kilni_text reads = watch_cacheable(platform, code, options);
    assert_int_equal(chdir("../two"), 0);
    if (!builds(platform, code, options)) {
        assert_false(hold(platform, &reads));
    }
    assert_int_equal(chdir("../one"), 0);
    assert_true(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

static void check_with_and_without_pwd(const opencl_platform *platform, const char *code,
                                       const char *options)
{
    const char *before = getenv("PWD");
    char *kept = before ? strdup(before) : NULL, *here = getcwd(NULL, 0);
    char path[256];
    snprintf(path, sizeof path, "%s/one", here);
    const char *const values[] = {path, here};
    check_in_second_folder(platform, code, options);
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_int_equal(setenv("PWD", values[i], 1), 0);
        check_in_second_folder(platform, code, options);
    }
    assert_int_equal(kept ? setenv("PWD", kept, 1) : unsetenv("PWD"), 0);
    free(kept);
    free(here);
}

/* Headers that the driver finds by absolute paths, because it prepends the working directory to
 * relative paths. */
static void check_working_directory(const opencl_platform *platform)
{
    static const char plain[] = "#include <p.h>\n#if P != 1\n#error other\n#endif\n"
                                "kernel void k(void) {}\n";
    static const char nested[] = "#include \"common/math.h\"\n#if N != 1\n#error other\n#endif\n"
                                 "kernel void k(void) {}\n";
    static const char absent[] = "#if __has_include(<n.h>)\n#error other\n#endif\n"
                                 "kernel void k(void) {}\n";
    put("one/p.h", "#define P 1\n");
    put("two/p.h", "#define P 2\n");
    put("one/common/math.h", "#include \"common/types.h\"\n");
    put("two/common/math.h", "#include \"common/types.h\"\n");
    put("one/common/types.h", "#define N 1\n");
    put("two/common/types.h", "#define N 2\n");
    put("two/n.h", "\n");
    if (strcmp(platform->name, "Portable Computing Language") != 0) {
        check_with_and_without_pwd(platform, plain, NULL);
        check_with_and_without_pwd(platform, nested, NULL);
    }
    check_with_and_without_pwd(platform, plain, "-I .");
    check_with_and_without_pwd(platform, nested, "-I .");
    check_with_and_without_pwd(platform, absent, NULL);
    check_with_and_without_pwd(platform, absent, "-I .");
}

typedef struct folder_case {
    const char *code, *options; /* '@' stands for the scratch folder, before its slash */
    const char *there;          /* a build in this folder differs once @made exists */
    const char *made;
} folder_case;

static const char has_n[] = "#if __has_include(<n.h>)\n#error other\n#endif\n"
                            "kernel void k(void) {}\n";
static const char has_one[] = "#if __has_include(\"@/a/one\")\n#error other\n#endif\n"
                              "kernel void k(void) {}\n";
static const char has_relative_one[] = "#if __has_include(\"../one\")\n#error other\n#endif\n"
                                       "kernel void k(void) {}\n";
static const char includes_n[] = "#include <n.h>\n#if N != 1\n#error other\n#endif\n"
                                 "kernel void k(void) {}\n";

/* Builds in a/one. The driver searches a folder once even if it is named twice, and does not query
 * folders that it knows to exist. */
static const folder_case folder_cases[] = {
    {has_n, "-I. -I@/a/one", "b/two", "a/one/n.h"},
    {has_n, "-I. -I../../a/one", "b/two", "a/one/n.h"},
    {has_n, "-I.. -I@/a", "b/two", "a/n.h"},
    {has_n, "-I../ -I @/a/.", "b/two", "a/n.h"},
    {has_n, "-I../.. -I@", "b/c/d", "n.h"},
    {includes_n, "-I.. -I@/a -Ic", "b/two", "a/n.h"},
    {has_one, NULL, "b/two", "a/one"},
    {has_relative_one, NULL, "b/two", "b/one"},
};

static char *expand(const char *text, const char *here)
{
    kilni_text whole = {0};
    for (; text && *text; text++) {
        assert_int_equal(*text == '@' ? kilni_text_append(&whole, here)
                                      : kilni_text_append_bytes(&whole, text, 1),
                         KILN_OK);
    }
    return whole.bytes;
}

static void check_folder_case(const opencl_platform *platform, const folder_case *of)
{
    char *here = getcwd(NULL, 0), *code = expand(of->code, here),
         *options = expand(of->options, here);
    put("a/one/c/n.h", "#define N 1\n");
    put("b/two/c/n.h", "#define N 1\n");
    put("b/c/d/x.h", "\n");
    assert_int_equal(chdir("a/one"), 0);
    kilni_text reads = watch_cacheable(platform, code, options);
    assert_int_equal(chdir(here), 0);
    struct stat facts;
    if (stat(of->made, &facts) == 0) {
        remove_all(of->made);
    }
    put(of->made, "#define N 2\n");
    assert_int_equal(chdir(of->there), 0);
    assert_false(builds(platform, code, options));
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(here), 0);
    kilni_text_done(&reads);
    remove_all("a");
    remove_all("b");
    remove("n.h");
    free(here);
    free(code);
    free(options);
}

/* Checks each case with PWD and without. */
static void check_folders_above(const opencl_platform *platform)
{
    char *here = getcwd(NULL, 0), *kept = strdup(getenv("PWD")), path[256];
    snprintf(path, sizeof path, "%s/a/one", here);
    for (size_t i = 0; i < 2 * COUNT(folder_cases); i++) {
        assert_int_equal(i % 2 ? setenv("PWD", path, 1) : unsetenv("PWD"), 0);
        check_folder_case(platform, &folder_cases[i / 2]);
    }
    assert_int_equal(setenv("PWD", kept, 1), 0);
    free(here);
    free(kept);
}

/* Clang searches a folder once, even if it is named by two paths. */
static void check_folders_with_two_paths(const opencl_platform *platform)
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
        kilni_text reads = watch_cacheable(platform, code, options);
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

/* PWD contains the path of a folder that does not exist, and is created later. */
static void check_folder_of_variable(const opencl_platform *platform)
{
    static const char code[] = "#if __has_include(<x.h>)\n#error other\n#endif\n"
                               "kernel void k(void) {}\n";
    char options[256], path[128], *here = getcwd(NULL, 0), *kept = strdup(getenv("PWD"));
    snprintf(path, sizeof path, "%s/nd", here);
    snprintf(options, sizeof options, "-I %s", path);
    assert_int_equal(setenv("PWD", path, 1), 0);
    kilni_text reads = watch_cacheable(platform, code, options);
    put("nd/x.h", "\n");
    assert_false(builds(platform, code, options));
    assert_false(hold(platform, &reads));
    kilni_text_done(&reads);
    assert_int_equal(setenv("PWD", kept, 1), 0);
    free(kept);
    free(here);
}

/* Clang warns if a name differs in case from the file's real name, so the real name matters. */
static void check_links(const opencl_platform *platform)
{
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    put("H.h", "\n");
    put("other.h", "\n");
    assert_int_equal(symlink("other.h", "h.h"), 0);
    kilni_text reads = watch_cacheable(platform, code, NULL);
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

static void check_uncacheable_headers(const opencl_platform *platform)
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

    /* If a header uses __FILE__, the result holds only in the same working directory. */
    put("one/h.h", "constant char where[] = __FILE__;\n");
    put("two/h.h", "constant char where[] = __FILE__;\n");
    assert_int_equal(chdir("one"), 0);
    kilni_text reads = watch_cacheable(platform, code, NULL);
    assert_int_equal(chdir("../two"), 0);
    assert_false(hold(platform, &reads));
    assert_int_equal(chdir(".."), 0);
    kilni_text_done(&reads);
}

/* Checks that a driver that Kiln cannot watch is reported as such. */
static void check_unknown_driver(const opencl_platform *platform)
{
    kilni_opencl_watched_build build;
    const kilni_opencl_texts texts = {.words.list = &kilni_opencl_words};
    kilni_text reads = {0};
    const char *why = NULL;
    cl_platform_id id = NULL;
    found.cl.clGetDeviceInfo(platform->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &id,
                             NULL);
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of("unknown"), NULL);
    kilni_opencl_watched_build_end(&build);
    assert_int_equal(kilni_opencl_watched_build_finish(&build, &texts, &reads, &why),
                     KILN_E_UNSUPPORTED);
    /* The compiler does not run during this watch. */
    kilni_opencl_watched_build_begin(&build, id, kilni_opencl_traits_of(platform->name), NULL);
    kilni_opencl_watched_build_end(&build);
    assert_int_equal(kilni_opencl_watched_build_finish(&build, &texts, &reads, &why),
                     KILN_E_UNSUPPORTED);
    assert_string_equal(why, "no read of the compiler was observed");
    kilni_opencl_watched_build_done(&build);
}

/* ---- a signal that ends the program while Kiln reads a file ---- */

static ssize_t read_and_raise(int file, void *buffer, size_t size)
{
    raise(SIGTERM);
    return kilni_os_system()->read(file, buffer, size);
}

/* Runs in a program that the signal ends. LLVM's handlers remove the compiler's temporary files
 * first. */
static int build_until_signal(const char *name)
{
    static kilni_os_table table;
    static const char code[] = "#include \"h.h\"\nkernel void k(void) {}\n";
    kilni_text reads = {0};
    const char *why = NULL;
    table = *kilni_os_system();
    table.read = read_and_raise;
    opencl_open(&found);
    alarm(60);
    kilni_os_replace(&table);
    for (size_t i = 0; i < found.count; i++) {
        if (strcmp(found.platforms[i].name, name) == 0) {
            watch(&found.platforms[i], code, NULL, &reads, &why);
        }
    }
    return 0;
}

static void check_signals(const opencl_platform *platform)
{
    int status = 0;
    put("h.h", "\n");
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_opencl_watched_build", platform->name, NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

#define ON_EACH_PLATFORM(check)                                                                    \
    static void test_##check(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        on_each_platform(check_##check);                                                           \
    }

ON_EACH_PLATFORM(every_file_found)
ON_EACH_PLATFORM(headers_of_headers)
ON_EACH_PLATFORM(header_maps)
ON_EACH_PLATFORM(equal_folders)
ON_EACH_PLATFORM(working_directory)
ON_EACH_PLATFORM(folders_above)
ON_EACH_PLATFORM(folders_with_two_paths)
ON_EACH_PLATFORM(folder_of_variable)
ON_EACH_PLATFORM(links)
ON_EACH_PLATFORM(uncacheable_headers)
ON_EACH_PLATFORM(unknown_driver)
ON_EACH_PLATFORM(signals)

/* PoCL reads the variable when it is loaded. */
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

/* ---- what an entry reports ---- */

static kiln_entry *new_entry(const char *platform_name, const char *part, uint32_t kind,
                             const kilni_text *reads)
{
    kiln_capture taken = {.log = strdup("log")};
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    kiln_key_builder_add_text(builder, "platform.name", platform_name);
    kiln_key_builder_add_text(builder, part, "in the entry");
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    assert_int_equal(
        kilni_opencl_stored_add_reads(&taken, (kiln_bytes){reads->bytes, reads->length}, NULL),
        KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = kind,
                                      .answers = {taken.answers, taken.answers_size},
                                      .payload = {taken.payload, taken.payload_size}};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_key_release(&key);
    kiln_capture_done(&taken);
    return entry;
}

typedef struct tally {
    size_t count, headers, others;
} tally;

/* Counts what has changed, or can't be looked up: headers, and all other paths. */
static int count_changed(void *user, const kiln_read *read)
{
    tally *t = user;
    const char *name = strrchr(read->path, '/');
    const bool is_header = strcmp(name ? name + 1 : read->path, "h.h") == 0;
    t->count++;
    t->headers += read->now == KILN_MISS && is_header;
    t->others += read->now != KILN_OK && !is_header;
    return 0;
}

static void check_reported_reads(const opencl_platform *platform)
{
    put("h.h", "int x(void);\n");
    kilni_text reads =
        watch_cacheable(platform, "#include \"h.h\"\nkernel void k(void) {}\n", NULL);
    kiln_entry *entry = new_entry(platform->name, "reads", KILN_ENTRY_PROGRAM, &reads);
    tally unchanged = {0}, changed = {0}, none = {0};
    assert_int_equal(kiln_opencl_each_read(entry, 0, count_changed, &unchanged), KILN_OK);
    assert_true(unchanged.count > 1);
    assert_int_equal(unchanged.headers + unchanged.others, 0);
    put("h.h", "int y(void);\n");
    assert_int_equal(kiln_opencl_each_read(entry, 0, count_changed, &changed), KILN_OK);
    assert_int_equal(changed.headers, 1);
    assert_int_equal(changed.others, 0);

    assert_int_equal(kiln_opencl_each_read(entry, 1, count_changed, &none), KILN_MISS);
    assert_int_equal(kiln_opencl_each_read(NULL, 0, count_changed, &none), KILN_E_INVALID);
    assert_int_equal(kiln_opencl_each_read(entry, 0, NULL, &none), KILN_E_INVALID);
    assert_int_equal(kiln_nvrtc_each_read(entry, 0, count_changed, &none), KILN_E_UNSUPPORTED);
    kiln_entry *others[] = {new_entry(platform->name, "source", KILN_ENTRY_PROGRAM, &reads),
                            new_entry(platform->name, "reads", KILN_ENTRY_REQUEST, &reads)};
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_int_equal(kiln_opencl_each_read(others[i], 0, count_changed, &none),
                         KILN_E_UNSUPPORTED);
        kiln_entry_release(&others[i]);
    }
    assert_int_equal(none.count, 0);
    kiln_entry_release(&entry);
    kilni_text_done(&reads);
}

static void test_reported_reads(void **state)
{
    (void)state;
    on_each_platform(check_reported_reads);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) {
        return build_until_signal(arguments[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file_found),
        cmocka_unit_test(test_headers_of_headers),
        cmocka_unit_test(test_header_maps),
        cmocka_unit_test(test_equal_folders),
        cmocka_unit_test(test_working_directory),
        cmocka_unit_test(test_folders_above),
        cmocka_unit_test(test_folders_with_two_paths),
        cmocka_unit_test(test_folder_of_variable),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_uncacheable_headers),
        cmocka_unit_test(test_unknown_driver),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_reported_reads),
    };
    return cmocka_run_group_tests(tests, find_platforms, forget_platforms);
}
