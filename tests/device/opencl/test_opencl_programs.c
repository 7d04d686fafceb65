/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of a context, over the real ops, on every installed OpenCL runtime.
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

#include "device/opencl/device_ops.h"
#include "device/opencl/traits.h"
#include "program/context.h"
#include "support/get_program.h"
#include "support/opencl_platforms.h"
#include "support/store_scene.h"

#define DRAIN_NS UINT64_C(60000000000)
#define ITEMS 64

static opencl_platforms found;

/* Device ops that count the calls that they pass to the ops of the platform under test. */
typedef struct counted_ops {
    kiln_device_ops ops; /* first */
    const kiln_device_ops *real;
    int builds, loads, captures, programs;
    const char *changed_header; /* a header that contains 2 once a build has begun; NULL: none */
} counted_ops;

static counted_ops counted;

static void write_shift(const char *path, int shift)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#define SHIFT %d\n", shift) > 0);
    assert_int_equal(fclose(file), 0);
}

static kiln_status count_build(void *device, const kiln_program_source *source, void **ret_program,
                               char **ret_log)
{
    if (counted.changed_header) {
        write_shift(counted.changed_header, 2);
    }
    const kiln_status status = counted.real->build(device, source, ret_program, ret_log);
    counted.builds++;
    counted.programs += status == KILN_OK;
    return status;
}

static kiln_status count_capture(void *device, void *program, kiln_capture *ret_capture)
{
    counted.captures++;
    return counted.real->capture(device, program, ret_capture);
}

static kiln_status count_load(void *device, const kiln_program_source *source,
                              const kiln_entry *entry, void **ret_program)
{
    const kiln_status status = counted.real->load(device, source, entry, ret_program);
    counted.loads++;
    counted.programs += status == KILN_OK;
    return status;
}

static void count_release(void *device, void *program)
{
    counted.programs--;
    counted.real->release_program(device, program);
}

static void start_counting(const kiln_device_ops *real)
{
    counted = (counted_ops){.ops = *real, .real = real};
    counted.ops.build = count_build;
    counted.ops.capture = count_capture;
    counted.ops.load = count_load;
    counted.ops.release_program = count_release;
}

/* ---- one platform, and one of Kiln's contexts on it ---- */

typedef struct fixture {
    char directory[SCRATCH_DIRECTORY_SIZE];
    const opencl_platform *platform;
    bool is_cheap;
    kilni_opencl_device device;
    kiln_store *store;
    kiln_program_context *context;
} fixture;

static void enter(fixture *f)
{
    assert_int_equal(kiln_store_open(f->directory, NULL, &f->store, NULL), KILN_OK);
    void *const devices[] = {&f->device};
    const kiln_program_context_params params = {.struct_size = sizeof params,
                                                .ops = &counted.ops,
                                                .devices = devices,
                                                .device_count = 1,
                                                .store = f->store};
    assert_int_equal(kiln_program_context_new(&params, &f->context), KILN_OK);
}

static void leave(fixture *f)
{
    kiln_program_context_free(&f->context);
    kiln_store_close(&f->store);
}

static kiln_program_source source_of(const char *text, const char *options)
{
    return (kiln_program_source){.struct_size = sizeof(kiln_program_source),
                                 .form = KILN_SOURCE_TEXT,
                                 .code = {text, strlen(text)},
                                 .options = options};
}

static kiln_program *obtain(fixture *f, const char *text, const char *options, uint32_t from)
{
    const kiln_program_source source = source_of(text, options);
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = get_program(f->context, &source, &program, &result, &error);
    if (status != KILN_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, KILN_OK);
    assert_int_equal(result.from, from);
    return program;
}

/* ---- what a program computes ---- */

static const char affine[] = "kernel void affine(global int *out, int factor)\n"
                             "{ out[get_global_id(0)] = factor * (int)get_global_id(0) + SHIFT; }\n"
                             "kernel void other(global int *out) { out[0] = 1; }\n";

static void run_kernel(const fixture *f, cl_kernel kernel, int factor, int *results)
{
    const cl_icd_dispatch *cl = f->device.cl;
    cl_int error = CL_SUCCESS;
    cl_mem buffer = cl->clCreateBuffer(f->platform->context, CL_MEM_WRITE_ONLY,
                                       ITEMS * sizeof *results, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    const size_t items = ITEMS;
    assert_int_equal(cl->clSetKernelArg(kernel, 0, sizeof buffer, &buffer), CL_SUCCESS);
    assert_int_equal(cl->clSetKernelArg(kernel, 1, sizeof factor, &factor), CL_SUCCESS);
    assert_int_equal(cl->clEnqueueNDRangeKernel(f->platform->queue, kernel, 1, NULL, &items, NULL,
                                                0, NULL, NULL),
                     CL_SUCCESS);
    assert_int_equal(cl->clEnqueueReadBuffer(f->platform->queue, buffer, CL_TRUE, 0,
                                             ITEMS * sizeof *results, results, 0, NULL, NULL),
                     CL_SUCCESS);
    cl->clReleaseMemObject(buffer);
}

static void assert_computes(const fixture *f, const kiln_program *program, int shift)
{
    void *kernel = NULL;
    assert_int_equal(counted.ops.kernel((void *)(uintptr_t)&f->device, kiln_program_handle(program),
                                        "affine", &kernel),
                     KILN_OK);
    int results[ITEMS] = {0};
    run_kernel(f, kernel, 7, results);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(results[i], 7 * i + shift);
    }
    counted.ops.release_kernel((void *)(uintptr_t)&f->device, kernel);
}

/* ---- checks, each on one platform ---- */

static void check_second_context(fixture *f)
{
    enter(f);
    kiln_program *built = obtain(f, affine, "-DSHIFT=3", KILN_PROGRAM_FROM_BUILD);
    kiln_program *shared = obtain(f, affine, "-DSHIFT=3", KILN_PROGRAM_FROM_MEMORY);
    assert_ptr_equal(kiln_program_handle(built), kiln_program_handle(shared));
    assert_computes(f, built, 3);
    kiln_program *other = obtain(f, affine, "-DSHIFT=-5", KILN_PROGRAM_FROM_BUILD);
    assert_computes(f, other, -5);
    kiln_program_release(&other);
    kiln_program_release(&shared);
    kiln_program_release(&built);
    leave(f);
    assert_int_equal(counted.builds, 2);
    assert_int_equal(counted.captures, f->is_cheap ? 2 : 0);

    enter(f);
    const uint32_t from = f->is_cheap ? KILN_PROGRAM_FROM_STORE : KILN_PROGRAM_FROM_BUILD;
    kiln_program *loaded = obtain(f, affine, "-DSHIFT=3", from);
    assert_computes(f, loaded, 3);
    /* The program outlives its context. */
    leave(f);
    assert_computes(f, loaded, 3);
    kiln_program_release(&loaded);
    assert_int_equal(counted.builds, f->is_cheap ? 2 : 3);
    assert_int_equal(counted.loads, f->is_cheap ? 1 : 0);
}

static void check_stored_entry(fixture *f)
{
    if (!f->is_cheap) {
        return;
    }
    enter(f);
    kiln_program *program = obtain(f, affine, "-DSHIFT=3", KILN_PROGRAM_FROM_BUILD);
    kiln_program_release(&program);
    assert_int_equal(kiln_program_context_drain(f->context, DRAIN_NS), KILN_OK);
    kiln_verify_report report = {.struct_size = sizeof report};
    assert_int_equal(kiln_store_verify(f->store, NULL, NULL, &report), KILN_OK);
    assert_int_equal(report.checked, 1);
    assert_int_equal(report.ok, 1);
    leave(f);
}

static void check_failing_build(fixture *f)
{
    enter(f);
    const kiln_program_source source = source_of("kernel void broken( { this is no C }", NULL);
    for (int i = 0; i < 2; i++) {
        kiln_program *program = NULL;
        kiln_error error = {.struct_size = sizeof error};
        assert_int_equal(get_program(f->context, &source, &program, NULL, &error), KILN_E_BUILD);
        assert_null(program);
        assert_int_equal(error.status, KILN_E_BUILD);
        assert_true(strlen(error.text) > 0);
    }
    assert_int_equal(counted.builds, 2);
    leave(f);
}

static void check_unknown_kernel(fixture *f)
{
    enter(f);
    kiln_program *program = obtain(f, affine, "-DSHIFT=3", KILN_PROGRAM_FROM_BUILD);
    void *kernel = NULL;
    assert_int_equal(
        counted.ops.kernel(&f->device, kiln_program_handle(program), "nowhere", &kernel),
        KILN_MISS);
    assert_null(kernel);
    kiln_program_release(&program);
    leave(f);
}

/* Each build of a source with __TIME__ differs, so no result is shared, but every build works. */
static void check_source_with_time(fixture *f)
{
    static const char timed[] = "constant char when[] = __TIME__;\n"
                                "kernel void affine(global int *out, int factor)\n"
                                "{ out[get_global_id(0)] = factor * (int)get_global_id(0)\n"
                                "                          + (when[2] == ':'); }\n";
    enter(f);
    kiln_program *first = obtain(f, timed, NULL, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    kiln_program *second = obtain(f, timed, NULL, KILN_PROGRAM_FROM_PRIVATE_BUILD);
    assert_ptr_not_equal(kiln_program_handle(first), kiln_program_handle(second));
    assert_computes(f, first, 1);
    assert_int_equal(counted.captures, 0);
    kiln_program_release(&first);
    kiln_program_release(&second);
    leave(f);
}

/* A header changes after the build has begun and before the build reads it. The result belongs to
 * the content that was read, and is found again only for that content. */
static void check_changing_header(fixture *f)
{
    static const char including[] = "#include \"shift.h\"\n"
                                    "kernel void affine(global int *out, int factor)\n"
                                    "{ out[get_global_id(0)] = factor * (int)get_global_id(0)\n"
                                    "                          + SHIFT; }\n";
    char folder[SCRATCH_DIRECTORY_SIZE], options[sizeof folder + 8], path[sizeof folder + 16];
    scratch_make(folder);
    snprintf(options, sizeof options, "-I%s", folder);
    snprintf(path, sizeof path, "%s/shift.h", folder);
    enter(f);
    write_shift(path, 1);
    counted.changed_header = path;
    kiln_program *program = obtain(f, including, options, KILN_PROGRAM_FROM_BUILD);
    counted.changed_header = NULL;
    assert_computes(f, program, 2);
    kiln_program_release(&program);
    const uint32_t known = f->is_cheap ? KILN_PROGRAM_FROM_STORE : KILN_PROGRAM_FROM_BUILD;
    const uint32_t from[] = {KILN_PROGRAM_FROM_BUILD, known, known};
    for (int i = 0; i < 3; i++) {
        const int shift = i == 1 ? 2 : 1;
        write_shift(path, shift);
        program = obtain(f, including, options, from[i]);
        assert_computes(f, program, shift);
        kiln_program_release(&program);
        program = obtain(f, including, options, KILN_PROGRAM_FROM_MEMORY);
        assert_computes(f, program, shift);
        kiln_program_release(&program);
    }
    leave(f);
    scratch_remove(folder);
}

/* Nothing is read from an empty source. */
static void check_empty_source(fixture *f)
{
    const kiln_program_source source = {.struct_size = sizeof source,
                                        .form = KILN_SOURCE_TEXT,
                                        .code = {.data = "this is no program", .size = 0}};
    void *program = NULL;
    char *log = NULL;
    assert_int_equal(counted.ops.build(&f->device, &source, &program, &log), KILN_OK);
    counted.ops.release_program(&f->device, program);
}

/* Variables that the application names are parts of the key. */
static void check_named_variables(fixture *f)
{
    static const char *const names[] = {"KILN_TEST_*", NULL};
    static const kilni_opencl_environment environment = {.variables = names};
    f->device.environment = &environment;
    enter(f);
    static const char *const values[] = {"one", "two"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(setenv("KILN_TEST_VARIABLE", values[i], 1), 0);
        kiln_program *program = obtain(f, affine, "-DSHIFT=5", KILN_PROGRAM_FROM_BUILD);
        kiln_program_release(&program);
        program = obtain(f, affine, "-DSHIFT=5", KILN_PROGRAM_FROM_MEMORY);
        kiln_program_release(&program);
    }
    unsetenv("KILN_TEST_VARIABLE");
    leave(f);
}

/* The driver refuses the invalid binary of a valid entry. */
static void check_refused_binary(fixture *f)
{
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .provenance.struct_size = sizeof params.provenance,
                                      .payload = {"this is no binary", 17}};
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    const kiln_program_source source = source_of(affine, "-DSHIFT=3");
    void *program = NULL;
    assert_int_equal(counted.real->load(&f->device, &source, entry, &program), KILN_E_REFUSED);
    assert_null(program);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
}

/* ---- on all platforms ---- */

static void on_each_platform(void (*check)(fixture *f))
{
    if (found.count == 0) {
        print_message("no OpenCL runtime\n");
        skip();
    }
    for (size_t i = 0; i < found.count; i++) {
        const opencl_platform *platform = &found.platforms[i];
        const uint32_t cost = kilni_opencl_traits_of(platform->name)->capture_cost;
        fixture f = {
            .platform = platform,
            .is_cheap = cost == KILN_CAPTURE_CHEAP,
            .device = {.cl = &found.cl, .context = platform->context, .device = platform->device},
        };
        print_message("on %s, captures %s\n", platform->name, f.is_cheap ? "cheap" : "expensive");
        assert_int_equal(kilni_opencl_device_begin(&f.device, NULL), KILN_OK);
        scratch_make(f.directory);
        start_counting(kilni_opencl_ops(cost));
        check(&f);
        scratch_remove(f.directory);
        assert_int_equal(counted.programs, 0);
        kilni_opencl_device_end(&f.device);
    }
}

#define ON_EACH_PLATFORM(check)                                                                    \
    static void test_##check(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        on_each_platform(check_##check);                                                           \
    }

ON_EACH_PLATFORM(second_context)
ON_EACH_PLATFORM(stored_entry)
ON_EACH_PLATFORM(failing_build)
ON_EACH_PLATFORM(unknown_kernel)
ON_EACH_PLATFORM(source_with_time)
ON_EACH_PLATFORM(changing_header)
ON_EACH_PLATFORM(empty_source)
ON_EACH_PLATFORM(named_variables)
ON_EACH_PLATFORM(refused_binary)

static int find_platforms(void **state)
{
    (void)state;
    opencl_open(&found);
    return 0;
}

static int forget_platforms(void **state)
{
    (void)state;
    opencl_close(&found);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_context),   cmocka_unit_test(test_stored_entry),
        cmocka_unit_test(test_failing_build),    cmocka_unit_test(test_unknown_kernel),
        cmocka_unit_test(test_source_with_time), cmocka_unit_test(test_changing_header),
        cmocka_unit_test(test_empty_source),     cmocka_unit_test(test_named_variables),
        cmocka_unit_test(test_refused_binary),
    };
    return cmocka_run_group_tests(tests, find_platforms, forget_platforms);
}
