/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/opencl.h>

#include "base/text.h"
#include "device/cpu.h"
#include "device/driver_files.h"
#include "device/file_identity.h"
#include "device/opencl/identity.h"
#include "device/opencl/math_functions.h"
#include "device/opencl/traits.h"

/* Drivers leak; LeakSanitizer calls this to find out which leaks not to report. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libintelocl.so\n"
           "leak:libpocl.so\n"
           "leak:libLLVM\n";
}

enum { MAX_PLATFORMS = 8 };

static cl_platform_id platforms[MAX_PLATFORMS];
static cl_uint platform_count;

static const cl_icd_dispatch loader = {.clGetPlatformInfo = clGetPlatformInfo,
                                       .clGetDeviceInfo = clGetDeviceInfo};

static int find_platforms(void **state)
{
    (void)state;
    if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count) != CL_SUCCESS) {
        platform_count = 0;
    }
    platform_count = platform_count < MAX_PLATFORMS ? platform_count : MAX_PLATFORMS;
    return 0;
}

static void need_platforms(void)
{
    if (platform_count == 0) {
        print_message("no OpenCL platform: skipped\n");
        skip();
    }
}

static cl_device_id first_device(cl_uint platform)
{
    cl_device_id device = NULL;
    clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    return device;
}

static void name_of(cl_uint platform, char *name, size_t size)
{
    assert_int_equal(clGetPlatformInfo(platforms[platform], CL_PLATFORM_NAME, size, name, NULL),
                     CL_SUCCESS);
}

static kiln_key *finish(kiln_key_builder *builder)
{
    kiln_key *key;
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    kiln_key_builder_free(&builder);
    return key;
}

static kiln_key *identity_key(cl_device_id device)
{
    kiln_error error = {.struct_size = sizeof error};
    kiln_key_builder *builder;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    kiln_status status = kilni_opencl_add_identity(&loader, device, NULL, builder, &error);
    if (status != KILN_OK) {
        fail_msg("%s: %s", kiln_status_name(status), error.text);
    }
    return finish(builder);
}

static kiln_key *environment_key(const char *platform_name, const char *const *more)
{
    kilni_opencl_environment environment = {.variables = more};
    kiln_key_builder *builder;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(
        kilni_opencl_add_environment(platform_name, more ? &environment : NULL, builder, NULL),
        KILN_OK);
    return finish(builder);
}

/* Returns how many parts have this name, and the last such part. */
static size_t find_part(const kiln_key *key, const char *name, kiln_key_part *ret_part)
{
    size_t count = 0;
    for (size_t i = 0; i < kiln_key_part_count(key); i++) {
        kiln_key_part part;
        assert_int_equal(kiln_key_part_at(key, i, &part), KILN_OK);
        if (strcmp(part.name, name) == 0) {
            *ret_part = part;
            count++;
        }
    }
    return count;
}

/* ---- devices ---- */

static void has_all_parts(void **state)
{
    (void)state;
    static const char *const names[] = {
        "platform.name",    "platform.version",      "device.name",
        "device.version",   "device.driver_version", "device.opencl_c_version",
        "device.vendor_id", "device.address_bits",   "device.extensions"};
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id device = first_device(p);
        if (!device) {
            continue;
        }
        kiln_key *key = identity_key(device);
        kiln_key_part part;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            assert_int_equal(find_part(key, names[i], &part), 1);
            assert_true(part.size > 0);
        }
        cl_device_type type;
        assert_int_equal(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL), 0);
        assert_int_equal(find_part(key, "cpu", &part), type & CL_DEVICE_TYPE_CPU ? 1 : 0);
        /* The parts include at least the driver's library and the C library. */
        assert_true(find_part(key, "driver.file", &part) >= 2);
        assert_int_equal(find_part(key, "device.partition", &part), 0);
        kiln_key_release(&key);
    }
}

static void is_repeatable(void **state)
{
    (void)state;
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id device = first_device(p);
        if (!device) {
            continue;
        }
        kiln_key *one = identity_key(device);
        char before[4096];
        assert_non_null(getcwd(before, sizeof before));
        assert_int_equal(chdir("/"), 0);
        kiln_key *two = identity_key(device);
        assert_int_equal(chdir(before), 0);
        assert_int_equal(kiln_key_difference(one, two, NULL, NULL), 0);
        kiln_key_release(&one);
        kiln_key_release(&two);
    }
}

static void distinguishes_platforms(void **state)
{
    (void)state;
    if (platform_count < 2) {
        print_message("fewer than two OpenCL platforms: skipped\n");
        skip();
    }
    kiln_key *one = identity_key(first_device(0));
    kiln_key *two = identity_key(first_device(1));
    assert_false(kiln_key_equals(one, two));
    kiln_key_release(&one);
    kiln_key_release(&two);
}

/* No part contains the folder of the driver, so that equal installations share entries. */
static void contains_no_folder_of_the_driver(void **state)
{
    (void)state;
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id device = first_device(p);
        if (!device) {
            continue;
        }
        kiln_key *key = identity_key(device);
        size_t files = 0;
        for (size_t i = 0; i < kiln_key_part_count(key); i++) {
            kiln_key_part part;
            assert_int_equal(kiln_key_part_at(key, i, &part), KILN_OK);
            if (strcmp(part.name, "driver.file") == 0) {
                assert_null(memchr(part.bytes, '/', part.size));
                files++;
            }
        }
        assert_true(files > 0);
        kiln_key_release(&key);
    }
}

#if defined(__x86_64__)

/* The return type of a function of glibc. This program replaces that function by exporting one with
 * the same name. */
typedef struct cpuid_leaf {
    unsigned offered[4], used[4];
} cpuid_leaf;

__attribute__((visibility("default"))) const cpuid_leaf *__x86_get_cpuid_feature_leaf(
    unsigned leaf);

static cpuid_leaf stand_in[3];

const cpuid_leaf *__x86_get_cpuid_feature_leaf(unsigned leaf)
{
    return &stand_in[leaf];
}

static void set_feature(unsigned leaf, unsigned word, unsigned bit, bool is_offered, bool is_used)
{
    const unsigned mask = 1U << bit;
    stand_in[leaf].offered[word] &= ~mask;
    stand_in[leaf].used[word] &= ~mask;
    stand_in[leaf].offered[word] |= is_offered ? mask : 0;
    stand_in[leaf].used[word] |= is_used ? mask : 0;
}

static void expect_unused(const char *expected)
{
    for (cl_uint p = 0; p < platform_count; p++) {
        kiln_key_builder *builder;
        kilni_loaded_libraries all;
        assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
        assert_int_equal(kilni_opencl_driver_libraries(platforms[p], &all, NULL), KILN_OK);
        assert_int_equal(kilni_math_functions_add(&all, builder, NULL), KILN_OK);
        kilni_loaded_libraries_done(&all);
        kiln_key *key = finish(builder);
        kiln_key_part part;
        assert_int_equal(find_part(key, "libm.unused", &part), expected ? 1 : 0);
        if (expected) {
            assert_int_equal(part.size, strlen(expected));
            assert_memory_equal(part.bytes, expected, part.size);
        }
        kiln_key_release(&key);
    }
}

/* Constants that two machines fold for a GPU may differ if libm uses FMA on only one of them. */
static void distinguishes_processors_by_what_libm_uses(void **state)
{
    (void)state;
    need_platforms();
    enum { EBX = 1, ECX = 2 };
    set_feature(0, ECX, 28, true, true); /* AVX */
    set_feature(0, ECX, 12, true, true); /* FMA */
    set_feature(1, EBX, 5, true, true);  /* AVX2 */
    set_feature(2, ECX, 16, false, false);
    expect_unused(NULL);
    set_feature(2, ECX, 16, true, true); /* FMA4: libm prefers FMA */
    expect_unused(NULL);
    set_feature(0, ECX, 12, true, false);
    expect_unused("FMA");
    set_feature(0, ECX, 12, false, false);
    expect_unused("FMA");
    set_feature(2, ECX, 16, false, false);
    expect_unused("FMA FMA4");
    set_feature(1, EBX, 5, false, false);
    expect_unused("FMA AVX2 FMA4");
}

#else

static void distinguishes_processors_by_what_libm_uses(void **state)
{
    (void)state;
    print_message("not x86-64: skipped\n");
    skip();
}

#endif

static void distinguishes_sub_devices_from_their_root(void **state)
{
    (void)state;
    need_platforms();
    size_t tried = 0;
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id device = first_device(p), parts[16];
        const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
        cl_uint count = 0;
        if (!device || clCreateSubDevices(device, equally, 16, parts, &count) != CL_SUCCESS) {
            continue;
        }
        kiln_key *root = identity_key(device);
        kiln_key *part = identity_key(parts[0]);
        kiln_key *other = identity_key(parts[count - 1]);
        kiln_key_part partition;
        assert_int_equal(find_part(part, "device.partition", &partition), 1);
        assert_false(kiln_key_equals(root, part));
        assert_true(kiln_key_equals(part, other));
        for (cl_uint i = 0; i < count; i++) {
            clReleaseDevice(parts[i]);
        }
        kiln_key_release(&root);
        kiln_key_release(&part);
        kiln_key_release(&other);
        tried++;
    }
    if (tried == 0) {
        print_message("no device can be partitioned: skipped\n");
        skip();
    }
}

static void lists_driver_files_sorted(void **state)
{
    (void)state;
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        char name[256];
        name_of(p, name, sizeof name);
        kilni_driver_files files;
        kilni_loaded_libraries all;
        assert_int_equal(kilni_opencl_driver_libraries(platforms[p], &all, NULL), KILN_OK);
        assert_int_equal(kilni_driver_files_find(&all, kilni_opencl_traits_of(name)->compiler_files,
                                                 &files, NULL),
                         KILN_OK);
        kilni_loaded_libraries_done(&all);
        int libc = 0;
        for (size_t i = 0; i < files.count; i++) {
            assert_true(i == 0 || strcmp(files.items[i - 1].name, files.items[i].name) <= 0);
            assert_null(strstr(files.items[i].name, "libOpenCL.so"));
            libc |= strncmp(files.items[i].name, "libc.so", 7) == 0;
        }
        assert_true(libc);
        kilni_driver_files_done(&files);
    }
}

static void contains_files_of_known_compilers(void **state)
{
    (void)state;
    static const struct {
        const char *platform;
        const char *file;
    } known[] = {
        {"Portable Computing Language", "libLLVM"},
        {"Portable Computing Language", "kernel-"},
        {"Portable Computing Language", "opencl-c.h"},
        {"Portable Computing Language", "libpocl-devices-"},
        {"Intel(R) OpenCL", "libcommon_clang.so"},
        {"Intel(R) OpenCL", "clbltfn"},
        {"Intel(R) OpenCL", "libocl_svml_"},
        {"Intel(R) OpenCL", "cl.cfg"},
    };
    size_t tried = 0;
    for (cl_uint p = 0; p < platform_count; p++) {
        char name[256];
        name_of(p, name, sizeof name);
        cl_device_id device = first_device(p);
        kiln_key *key = device ? identity_key(device) : NULL;
        for (size_t i = 0; key && i < sizeof known / sizeof *known; i++) {
            int found = strcmp(known[i].platform, name) != 0;
            for (size_t n = 0; n < kiln_key_part_count(key); n++) {
                kiln_key_part part;
                assert_int_equal(kiln_key_part_at(key, n, &part), KILN_OK);
                size_t length = strlen(known[i].file);
                found |= strcmp(part.name, "driver.file") == 0 && part.size > length &&
                         memcmp(part.bytes, known[i].file, length) == 0;
            }
            if (!found) {
                fail_msg("%s: no %s", name, known[i].file);
            }
            tried += strcmp(known[i].platform, name) == 0;
        }
        kiln_key_release(&key);
    }
    if (tried == 0) {
        print_message("neither PoCL nor Intel's runtime is installed: skipped\n");
        skip();
    }
}

/* ---- environment ---- */

static int keys_differ(const char *platform, const char *const *more, const char *name,
                       const char *value)
{
    unsetenv(name);
    kiln_key *before = environment_key(platform, more);
    setenv(name, value, 1);
    kiln_key *after = environment_key(platform, more);
    unsetenv(name);
    int differ = !kiln_key_equals(before, after);
    kiln_key_release(&before);
    kiln_key_release(&after);
    return differ;
}

static void contains_variables_that_affect_compilers(void **state)
{
    (void)state;
    static const struct {
        const char *platform;
        const char *variable;
        int counts;
    } cases[] = {
        {"Portable Computing Language", "POCL_EXTRA_BUILD_FLAGS", 1},
        {"Portable Computing Language", "POCL_WORK_GROUP_METHOD", 1},
        {"Portable Computing Language", "POCL_LLVM_CPU_NAME", 1},
        {"Portable Computing Language", "POCL_CACHE_DIR", 0},
        {"Portable Computing Language", "POCL_DEBUG", 0},
        {"Portable Computing Language", "POCL_TRACING_OPT", 0},
        {"Portable Computing Language", "CL_CONFIG_USE_VECTORIZER", 0},
        {"Intel(R) OpenCL", "CL_CONFIG_USE_VECTORIZER", 1},
        {"Intel(R) OpenCL", "CL_CONFIG_CPU_TARGET_ARCH", 1},
        {"Intel(R) OpenCL", "OPENCL_PROGRAM_COMPILE_OPTIONS", 1},
        {"Intel(R) OpenCL", "VOLCANO_X", 1},
        {"Intel(R) OpenCL", "CL_CONFIG_LOG_FILE", 0},
        {"Intel(R) OpenCL", "CL_CONFIG", 0},
        {"NVIDIA CUDA", "CUDA_FORCE_PTX_JIT", 1},
        {"NVIDIA CUDA", "CUDA_CACHE_PATH", 0},
        {"Intel(R) OpenCL Graphics", "IGC_X", 1},
        {"Some other driver", "POCL_X", 1},
        {"Some other driver", "AMD_OCL_BUILD_OPTIONS", 1},
        {NULL, "CL_CONFIG_X", 1},
        {NULL, "PATH_OF_MINE", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (keys_differ(cases[i].platform, NULL, cases[i].variable, "x") != cases[i].counts) {
            fail_msg("%s on %s", cases[i].variable, cases[i].platform ? cases[i].platform : "any");
        }
    }
}

static void distinguishes_values(void **state)
{
    (void)state;
    static const char *const more[] = {"MINE", "MY_*", NULL};
    kiln_key *keys[5];
    keys[0] = environment_key(NULL, more);
    setenv("MINE", "", 1);
    keys[1] = environment_key(NULL, more);
    setenv("MINE", "a", 1);
    keys[2] = environment_key(NULL, more);
    setenv("MY_X", "1", 1);
    setenv("MY_A", "=2=", 1);
    keys[3] = environment_key(NULL, more);
    kiln_key_part part;
    assert_int_equal(find_part(keys[3], "env.MY_A", &part), 1);
    assert_int_equal(part.size, 3);
    assert_memory_equal(part.bytes, "=2=", 3);
    unsetenv("MY_X");
    unsetenv("MY_A");
    setenv("MY_A", "=2=", 1);
    setenv("MY_X", "1", 1);
    keys[4] = environment_key(NULL, more);
    for (int a = 0; a < 4; a++) {
        for (int b = a + 1; b < 4; b++) {
            assert_false(kiln_key_equals(keys[a], keys[b]));
        }
    }
    assert_true(kiln_key_equals(keys[3], keys[4]));
    unsetenv("MINE");
    unsetenv("MY_X");
    unsetenv("MY_A");
    assert_false(keys_differ(NULL, NULL, "MINE", "x"));
    assert_true(keys_differ("Portable Computing Language",
                            (const char *const[]){"POCL_DEBUG", NULL}, "POCL_DEBUG", "x"));
    for (int i = 0; i < 5; i++) {
        kiln_key_release(&keys[i]);
    }
}

static void put(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void contains_configuration_files(void **state)
{
    (void)state;
    char folder[64], before[4096];
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/kiln-identity-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    kiln_key *keys[6];
    keys[0] = environment_key("Intel(R) OpenCL", NULL);
    put("cl.cfg", "CL_CONFIG_USE_FAST_RELAXED_MATH = True\n");
    keys[1] = environment_key("Intel(R) OpenCL", NULL);
    put("cl.cfg", "CL_CONFIG_USE_FAST_RELAXED_MATH = False\n");
    keys[2] = environment_key("Intel(R) OpenCL", NULL);
    setenv("OCLBACKEND_PLUGINS", "plugin.so", 1);
    keys[3] = environment_key("Intel(R) OpenCL", NULL);
    put("plugin.so", "1");
    keys[4] = environment_key("Intel(R) OpenCL", NULL);
    put("plugin.so", "2");
    keys[5] = environment_key("Intel(R) OpenCL", NULL);
    unsetenv("OCLBACKEND_PLUGINS");
    for (int a = 0; a < 6; a++) {
        for (int b = a + 1; b < 6; b++) {
            assert_false(kiln_key_equals(keys[a], keys[b]));
        }
    }
    for (int i = 0; i < 6; i++) {
        kiln_key_release(&keys[i]);
    }
    assert_int_equal(remove("cl.cfg"), 0);
    kiln_key_builder *builder;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(mkdir("cl.cfg", 0700), 0);
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kilni_opencl_add_environment("Intel(R) OpenCL", NULL, builder, &error),
                     KILN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "cl.cfg"));
    kiln_key_builder_free(&builder);
    assert_int_equal(rmdir("cl.cfg"), 0);
    assert_int_equal(remove("plugin.so"), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(folder), 0);
}

typedef struct reported {
    int found;
    int absent;
} reported;

static void note_report(void *user, const char *name, const char *value)
{
    reported *r = user;
    if (value && strcmp(name, "POCL_X") == 0 && strcmp(value, "y") == 0) {
        r->found++;
    }
    assert_true(*name != '!');
    if (!value && strcmp(name, "KILN_TEST_ABSENT") == 0) {
        r->absent++;
    }
}

static void reports_the_environment(void **state)
{
    (void)state;
    static const char *const more[] = {"KILN_TEST_ABSENT", NULL};
    reported r = {0};
    setenv("POCL_X", "y", 1);
    assert_int_equal(
        kiln_opencl_report_environment("Portable Computing Language", more, note_report, &r),
        KILN_OK);
    unsetenv("POCL_X");
    assert_int_equal(r.found, 1);
    assert_int_equal(r.absent, 1);
}

static void count_report(void *user, const char *name, const char *value)
{
    assert_non_null(name);
    assert_non_null(value);
    ++*(int *)user;
}

typedef struct reported_files {
    int count;
    bool has_libc;
} reported_files;

static void note_file(void *user, const char *name, const char *value)
{
    reported_files *r = user;
    assert_non_null(value);
    r->count++;
    r->has_libc |= strncmp(name, "libc.so", 7) == 0;
}

static void reports_driver_files(void **state)
{
    (void)state;
    need_platforms();
    int count = 0;
    assert_int_equal(kiln_opencl_report_driver_files(platforms[0], NULL, count_report, &count),
                     KILN_OK);
    assert_true(count >= 2);
}

/* Libraries that may differ in a different process, such as the C library, are not reported as the
 * driver's own files. */
static void reports_own_driver_files(void **state)
{
    (void)state;
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        char name[256];
        name_of(p, name, sizeof name);
        reported_files all = {0}, own = {0};
        assert_int_equal(kiln_opencl_report_driver_files(platforms[p], name, note_file, &all),
                         KILN_OK);
        assert_int_equal(kiln_opencl_report_own_driver_files(platforms[p], name, note_file, &own),
                         KILN_OK);
        assert_true(own.count >= 1);
        assert_true(own.count < all.count);
        assert_true(all.has_libc);
        assert_false(own.has_libc);
    }
    assert_int_equal(kiln_opencl_report_own_driver_files(NULL, NULL, note_file, NULL),
                     KILN_E_INVALID);
}

/* ---- files and processors ---- */

static void write_file(const char *path, size_t size, size_t changed)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < size; i += 4096) {
        char page[4096];
        memset(page, (int)(i / 4096 % 251), sizeof page);
        if (changed >= i && changed - i < sizeof page) {
            page[changed - i] ^= 1;
        }
        size_t count = size - i < sizeof page ? size - i : sizeof page;
        assert_int_equal(fwrite(page, 1, count, file), count);
    }
    assert_int_equal(fclose(file), 0);
}

static void expect_identity_change(const char *path, size_t size, size_t other, size_t changed,
                                   int expected)
{
    kilni_text one = {0}, two = {0};
    write_file(path, size, SIZE_MAX);
    assert_int_equal(kilni_file_identity(path, &one), KILN_OK);
    write_file(path, other, changed);
    assert_int_equal(kilni_file_identity(path, &two), KILN_OK);
    assert_int_equal(strcmp(one.bytes, two.bytes) != 0, expected);
    kilni_text_done(&one);
    kilni_text_done(&two);
}

static void identifies_files_by_content(void **state)
{
    (void)state;
    char path[64];
    const char *parent = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.40s/kiln-identity-XXXXXX", parent ? parent : "/tmp");
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const size_t small = 1 << 20, large = (3 << 20) + 77;
    expect_identity_change(path, 0, 0, SIZE_MAX, 0);
    expect_identity_change(path, 0, 1, SIZE_MAX, 1);
    expect_identity_change(path, small, small, SIZE_MAX, 0);
    for (size_t i = 0; i < small; i += 99991) {
        expect_identity_change(path, small, small, i, 1);
    }
    expect_identity_change(path, large, large, SIZE_MAX, 0);
    expect_identity_change(path, large, large + 1, SIZE_MAX, 1);
    expect_identity_change(path, large, large, 0, 1);
    expect_identity_change(path, large, large, large - 1, 1);
    assert_int_equal(remove(path), 0);
    kilni_text text = {0};
    assert_int_equal(kilni_file_identity(path, &text), KILN_E_UNSUPPORTED);
    assert_int_equal(kilni_file_identity("/", &text), KILN_E_UNSUPPORTED);
    kilni_text_done(&text);
}

/* A header with absurd numbers yields no build-id and no crash. */
static void survives_damaged_libraries(void **state)
{
    (void)state;
    char path[64];
    const char *parent = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.40s/kiln-identity-XXXXXX", parent ? parent : "/tmp");
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    unsigned char image[4096];
    FILE *self = fopen("/proc/self/exe", "r");
    assert_non_null(self);
    assert_int_equal(fread(image, 1, sizeof image, self), sizeof image);
    assert_int_equal(fclose(self), 0);
    srand(1);
    for (int round = 0; round < 2000; round++) {
        unsigned char damaged[sizeof image];
        memcpy(damaged, image, sizeof image);
        for (int i = 0; i < 8; i++) {
            damaged[(size_t)rand() % 1024] = (unsigned char)rand();
        }
        memcpy(damaged, "\177ELF", 4);
        size_t size = (size_t)rand() % sizeof damaged;
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(damaged, 1, size, out), size);
        assert_int_equal(fclose(out), 0);
        kilni_text text = {0};
        assert_int_equal(kilni_file_identity(path, &text), KILN_OK);
        assert_true(text.length > 0);
        kilni_text_done(&text);
    }
    assert_int_equal(remove(path), 0);
}

/* The processor's description is the same on each core. A child process runs on each core in
 * turn. */
static void describes_the_processor_alike_on_each_core(void **state)
{
    (void)state;
    kilni_text here = {0};
    assert_int_equal(kilni_cpu_describe(&here), KILN_OK);
    assert_true(here.length > 20);
    for (int core = 0; core < 4; core++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(core, &set);
            kilni_text there = {0};
            if (sched_setaffinity(0, sizeof set, &set) != 0) {
                _exit(0);
            }
            _exit(kilni_cpu_describe(&there) != KILN_OK || strcmp(here.bytes, there.bytes) != 0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    kilni_text_done(&here);
}

static void has_a_row_for_each_driver(void **state)
{
    (void)state;
    assert_int_equal(kilni_opencl_traits_of("Portable Computing Language")->capture_cost,
                     KILN_CAPTURE_EXPENSIVE);
    assert_int_equal(kilni_opencl_traits_of("Intel(R) OpenCL")->capture_cost, KILN_CAPTURE_CHEAP);
    assert_true(kilni_opencl_traits_of("Intel(R) OpenCL")->rebuild_is_no_op);
    assert_null(kilni_opencl_traits_of("Intel(R) OpenC")->platform_name);
    assert_null(kilni_opencl_traits_of(NULL)->platform_name);
    assert_int_equal(kilni_opencl_traits_of(NULL)->capture_cost, KILN_CAPTURE_EXPENSIVE);
}

/* Kiln's table of how drivers count references agrees with the drivers of this machine. */
static void reference_counts_match_the_drivers(void **state)
{
    (void)state;
    need_platforms();
    for (cl_uint p = 0; p < platform_count; p++) {
        char name[256];
        name_of(p, name, sizeof name);
        const kilni_opencl_traits *traits = kilni_opencl_traits_of(name);
        cl_device_id device = first_device(p);
        if (!traits->platform_name || !device) {
            continue;
        }
        cl_int error;
        cl_uint before, after, alone, with_kernel;
        const char *code = "kernel void k(global int *a) { a[0] = 1; }";
        cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
        assert_int_equal(error, CL_SUCCESS);
        clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof before, &before, NULL);
        cl_program program = clCreateProgramWithSource(context, 1, &code, NULL, &error);
        assert_int_equal(clBuildProgram(program, 1, &device, NULL, NULL, NULL), CL_SUCCESS);
        clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof after, &after, NULL);
        clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof alone, &alone, NULL);
        cl_kernel kernel = clCreateKernel(program, "k", &error);
        assert_int_equal(error, CL_SUCCESS);
        clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof with_kernel, &with_kernel,
                         NULL);
        assert_int_equal(after - before, traits->counts_programs);
        assert_int_equal(with_kernel - alone, traits->counts_kernels);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
        clReleaseContext(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_all_parts),
        cmocka_unit_test(is_repeatable),
        cmocka_unit_test(distinguishes_platforms),
        cmocka_unit_test(contains_no_folder_of_the_driver),
        cmocka_unit_test(distinguishes_sub_devices_from_their_root),
        cmocka_unit_test(distinguishes_processors_by_what_libm_uses),
        cmocka_unit_test(lists_driver_files_sorted),
        cmocka_unit_test(contains_files_of_known_compilers),
        cmocka_unit_test(contains_variables_that_affect_compilers),
        cmocka_unit_test(distinguishes_values),
        cmocka_unit_test(contains_configuration_files),
        cmocka_unit_test(reports_the_environment),
        cmocka_unit_test(reports_driver_files),
        cmocka_unit_test(reports_own_driver_files),
        cmocka_unit_test(identifies_files_by_content),
        cmocka_unit_test(survives_damaged_libraries),
        cmocka_unit_test(describes_the_processor_alike_on_each_core),
        cmocka_unit_test(has_a_row_for_each_driver),
        cmocka_unit_test(reference_counts_match_the_drivers),
    };
    return cmocka_run_group_tests_name("opencl_identity", tests, find_platforms, NULL);
}
