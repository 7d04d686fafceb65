/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs, kernels and blobs, through public calls only, over OpenCL's device ops, on every
 * installed runtime.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/opencl.h>
#include <kiln/program.h>

#include "support/opencl_platforms.h"
#include "support/spirv_module.h"
#include "support/store_scene.h"

#define DRAIN_NS UINT64_C(60000000000)
#define ITEMS 64
#define THREADS 4

static opencl_platforms found;

/* ---- OpenCL's functions, one of which fails a given number of times ---- */

static struct {
    const char *name; /* NULL: none */
    cl_int error;
    int failing, calls;
} fault;

static cl_icd_dispatch real;

/* Returns whether a call must fail. */
static bool fails(const char *name)
{
    if (!fault.name || strcmp(fault.name, name) != 0) {
        return false;
    }
    return fault.calls++ < fault.failing;
}

static cl_int CL_API_CALL failing_build(cl_program program, cl_uint count,
                                        const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    return fails("clBuildProgram")
               ? fault.error
               : real.clBuildProgram(program, count, devices, options, notify, user);
}

static cl_program CL_API_CALL failing_link(cl_context context, cl_uint count,
                                           const cl_device_id *devices, const char *options,
                                           cl_uint input_count, const cl_program *inputs,
                                           void(CL_CALLBACK *notify)(cl_program, void *),
                                           void *user, cl_int *ret_error)
{
    if (fails("clLinkProgram")) {
        *ret_error = fault.error;
        return NULL;
    }
    return real.clLinkProgram(context, count, devices, options, input_count, inputs, notify, user,
                              ret_error);
}

static cl_kernel CL_API_CALL failing_kernel(cl_program program, const char *name, cl_int *ret_error)
{
    if (fails("clCreateKernel")) {
        *ret_error = fault.error;
        return NULL;
    }
    return real.clCreateKernel(program, name, ret_error);
}

/* @user is the loader; NULL: no function is found. */
static void *look_up(void *user, const char *name)
{
    void *function = user ? dlsym(user, name) : NULL;
#define WRAP(called, wrapper)                                                                      \
    if (function && strcmp(name, #called) == 0) {                                                  \
        memcpy(&real.called, &function, sizeof function);                                          \
        return (void *)wrapper;                                                                    \
    }
    WRAP(clBuildProgram, failing_build)
    WRAP(clLinkProgram, failing_link)
    WRAP(clCreateKernel, failing_kernel)
#undef WRAP
    return function;
}

/* ---- one platform, and one of Kiln's contexts on it ---- */

typedef struct fixture {
    char directory[SCRATCH_DIRECTORY_SIZE];
    const opencl_platform *platform;
    kiln_opencl_device *device;
    bool is_cheap; /* its captures are cheap */
    kiln_store *store;
    uint32_t rules;
    kiln_program_context *context;
} fixture;

static void enter(fixture *f)
{
    void *const devices[] = {f->device};
    assert_int_equal(kiln_store_open(f->directory, NULL, &f->store, NULL), KILN_OK);
    const kiln_program_context_params params = {.struct_size = sizeof params,
                                                .ops = kiln_opencl_ops(f->device),
                                                .devices = devices,
                                                .device_count = 1,
                                                .rules = f->rules,
                                                .store = f->store};
    assert_int_equal(kiln_program_context_new(&params, &f->context), KILN_OK);
}

static void leave(fixture *f)
{
    kiln_program_context_free(&f->context);
    kiln_store_close(&f->store);
}

static kiln_program_desc *describe(fixture *f, const char *text, const char *options)
{
    const kiln_program_desc_params params = {.struct_size = sizeof params,
                                             .form = KILN_SOURCE_TEXT,
                                             .code = {text, strlen(text)},
                                             .options.compile = options};
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(f->context, &params, &desc, NULL), KILN_OK);
    return desc;
}

static kiln_program *get_from(const kiln_program_desc *desc, uint32_t from)
{
    kiln_program *program = NULL;
    kiln_program_result result = {.struct_size = sizeof result};
    kiln_error error = {.struct_size = sizeof error};
    const kiln_status status = kiln_program_get(desc, &program, &result, &error);
    if (status != KILN_OK) {
        print_error("%s\n", error.text);
    }
    assert_int_equal(status, KILN_OK);
    assert_int_equal(result.from, from);
    return program;
}

/* ---- what is computed ---- */

static const char affine[] = "kernel void affine(global uint *out)\n"
                             "{ out[get_global_id(0)] = get_global_id(0) + SHIFT; }\n";

/* Whether a kernel(global uint *out) makes out[i] = i + @shift. */
static bool computes(const fixture *f, cl_kernel kernel, cl_uint shift)
{
    cl_int error = CL_SUCCESS;
    const cl_icd_dispatch *cl = &found.cl;
    cl_uint results[ITEMS] = {0};
    const size_t items = ITEMS;
    cl_mem buffer =
        cl->clCreateBuffer(f->platform->context, CL_MEM_WRITE_ONLY, sizeof results, NULL, &error);
    bool right = error == CL_SUCCESS &&
                 cl->clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS &&
                 cl->clEnqueueNDRangeKernel(f->platform->queue, kernel, 1, NULL, &items, NULL, 0,
                                            NULL, NULL) == CL_SUCCESS &&
                 cl->clEnqueueReadBuffer(f->platform->queue, buffer, CL_TRUE, 0, sizeof results,
                                         results, 0, NULL, NULL) == CL_SUCCESS;
    for (cl_uint i = 0; i < ITEMS; i++) {
        right = right && results[i] == i + shift;
    }
    cl->clReleaseMemObject(buffer);
    return right;
}

static void assert_computes(const fixture *f, kiln_program *program, const char *name,
                            cl_uint shift)
{
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_program_get_kernel(program, name, 0, &kernel, NULL), KILN_OK);
    kiln_kernel_lock(kernel);
    assert_true(computes(f, kiln_kernel_handle(kernel), shift));
    kiln_kernel_unlock(kernel);
    kiln_kernel_release(&kernel);
}

/* ---- checks, each on one platform ---- */

typedef struct launching {
    const fixture *f;
    const kiln_kernel_desc *kernel;
    int wrong;
} launching;

static void *launch(void *user)
{
    launching *l = user;
    for (int i = 0; i < 20; i++) {
        kiln_kernel *kernel = NULL;
        if (kiln_kernel_get(l->kernel, &kernel, NULL) != KILN_OK) {
            l->wrong++;
            continue;
        }
        kiln_kernel_lock(kernel);
        l->wrong += computes(l->f, kiln_kernel_handle(kernel), 5) ? 0 : 1;
        kiln_kernel_unlock(kernel);
        kiln_kernel_release(&kernel);
    }
    return NULL;
}

/* Threads set the arguments of the same kernel, one thread after the other. */
static void check_threads_launch_one_kernel(fixture *f)
{
    enter(f);
    kiln_program_desc *desc = describe(f, affine, "-DSHIFT=5");
    kiln_kernel_desc *kernel = NULL;
    assert_int_equal(kiln_kernel_desc_new(desc, "affine", &kernel), KILN_OK);
    pthread_t threads[THREADS];
    launching l[THREADS];
    for (int i = 0; i < THREADS; i++) {
        l[i] = (launching){.f = f, .kernel = kernel};
        assert_int_equal(pthread_create(&threads[i], NULL, launch, &l[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(l[i].wrong, 0);
    }
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_program_context_get_kernel_stats(f->context, &stats), KILN_OK);
    assert_int_equal(stats.entries, 1);
    kiln_section section;
    kiln_kernel_section_enter(f->context, &section);
    assert_non_null(kiln_kernel_peek(&section, kernel));
    kiln_section_leave(&section);
    kiln_kernel_desc_release(&kernel);
    kiln_program_desc_release(&desc);
    leave(f);
}

static bool has_part(const kiln_key *key, const char *name)
{
    kiln_key_part part;
    for (size_t i = 0; kiln_key_part_at(key, i, &part) == KILN_OK; i++) {
        if (strcmp(part.name, name) == 0 && part.size > 0) {
            return true;
        }
    }
    return false;
}

/* Keys contain the platform, the device, the driver and the source. */
static void check_keys_contain_all_inputs(fixture *f)
{
    enter(f);
    kiln_program_desc *desc = describe(f, affine, "-DSHIFT=5");
    const kiln_key *key = kiln_program_desc_key(desc);
    assert_true(has_part(key, "platform.name"));
    assert_true(has_part(key, "device.extensions"));
    assert_true(has_part(key, "driver.file"));
    assert_true(has_part(key, "compile_options"));
    kiln_program_desc_release(&desc);
    leave(f);
}

static void check_reports_what_is_kept(fixture *f)
{
    enter(f);
    kiln_program_desc *desc = describe(f, affine, "-DSHIFT=5"),
                      *uncacheable = describe(f, "kernel void k() { printf(__TIME__); }", NULL);
    kiln_program_caching caching = {.struct_size = sizeof caching};
    assert_int_equal(kiln_program_desc_get_caching(desc, &caching), KILN_OK);
    assert_int_equal(caching.memory, KILN_UNCACHED_NOT);
    assert_int_equal(caching.store, f->is_cheap ? KILN_UNCACHED_NOT : KILN_UNCACHED_CAPTURE);
    assert_int_equal(kiln_program_desc_get_caching(uncacheable, &caching), KILN_OK);
    assert_int_equal(caching.memory, KILN_UNCACHED_INPUTS);
    assert_non_null(strstr(caching.text, "__TIME__"));
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&uncacheable);
    leave(f);
}

/* A function in one source, and a kernel in another source that calls it. */
static void check_linked_programs(fixture *f)
{
    static const char function[] = "uint shifted(uint i) { return i + SHIFT; }\n";
    static const char kernel[] = "uint shifted(uint i);\n"
                                 "kernel void affine(global uint *out)\n"
                                 "{ out[get_global_id(0)] = shifted(get_global_id(0)); }\n";
    for (int start = 0; start < 2; start++) {
        enter(f);
        kiln_program_desc *parts[] = {describe(f, function, "-DSHIFT=9"),
                                      describe(f, kernel, NULL)};
        const kiln_program_desc *const inputs[] = {parts[0], parts[1]};
        const kiln_program_desc_params params = {
            .struct_size = sizeof params, .linked = inputs, .linked_count = 2, .name = "affine"};
        kiln_program_desc *desc = NULL;
        assert_int_equal(kiln_program_desc_new(f->context, &params, &desc, NULL), KILN_OK);
        kiln_program *program = get_from(desc, start == 1 && f->is_cheap ? KILN_PROGRAM_FROM_STORE
                                                                         : KILN_PROGRAM_FROM_BUILD);
        assert_computes(f, program, "affine", 9);
        kiln_program_release(&program);
        kiln_program_desc_release(&desc);
        kiln_program_desc_release(&parts[0]);
        kiln_program_desc_release(&parts[1]);
        leave(f);
    }
}

static void check_link_that_fails(fixture *f)
{
    enter(f);
    kiln_program_desc *part = describe(f, "kernel void broken( { no C }", NULL);
    const kiln_program_desc *const inputs[] = {part};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 1};
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(f->context, &params, &desc, NULL), KILN_OK);
    kiln_program *program = NULL;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_program_get(desc, &program, NULL, &error), KILN_E_BUILD);
    assert_true(strlen(error.text) > 0);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&part);
    leave(f);
}

static bool takes_il(const fixture *f)
{
    char version[128] = "";
    return found.cl.clGetDeviceInfo(f->platform->device, CL_DEVICE_IL_VERSION, sizeof version,
                                    version, NULL) == CL_SUCCESS &&
           strstr(version, "SPIR-V") != NULL;
}

/* A device image, with and without its constant, under the rules of SYCL. */
static void check_images_with_constants(fixture *f)
{
    if (!takes_il(f)) {
        print_message("takes no SPIR-V\n");
        return;
    }
    static const cl_uint values[] = {0, 1000, 2000};
    f->rules = KILN_RULES_IMAGES;
    for (int start = 0; start < 2; start++) {
        enter(f);
        for (size_t i = 0; i < 3; i++) {
            const kiln_spec_constant constant = {SPIRV_SPEC_ID, {&values[i], sizeof values[i]}};
            const kiln_program_desc_params params = {
                .struct_size = sizeof params,
                .form = KILN_SOURCE_IL,
                .code = {spirv_module, sizeof spirv_module},
                .constants = &constant,
                .constant_count = i > 0,
            };
            kiln_program_desc *desc = NULL;
            assert_int_equal(kiln_program_desc_new(f->context, &params, &desc, NULL), KILN_OK);
            kiln_program *program =
                get_from(desc, start == 1 && f->is_cheap ? KILN_PROGRAM_FROM_STORE
                                                         : KILN_PROGRAM_FROM_BUILD);
            assert_computes(f, program, "f", i > 0 ? values[i] : SPIRV_DEFAULT_BASE);
            kiln_program_release(&program);
            kiln_program_desc_release(&desc);
        }
        kiln_program_desc *source = describe(f, affine, "-DSHIFT=5");
        kiln_program *program = get_from(source, KILN_PROGRAM_FROM_PRIVATE_BUILD);
        assert_computes(f, program, "affine", 5);
        kiln_program_release(&program);
        kiln_program_desc_release(&source);
        leave(f);
    }
    f->rules = KILN_RULES_ALL;
}

static void check_blobs(fixture *f)
{
    enter(f);
    kiln_program_desc *desc = describe(f, affine, "-DSHIFT=31");
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(desc, &program, NULL, NULL), KILN_OK);
    size_t size = 0;
    assert_int_equal(kiln_program_get_cache_blob(program, &size, NULL), KILN_OK);
    uint8_t *blob = test_malloc(size), *again = test_malloc(size);
    assert_int_equal(kiln_program_get_cache_blob(program, &size, blob), KILN_OK);
    kiln_program_release(&program);
    kiln_program_context_clear(f->context);

    kiln_program_result result = {.struct_size = sizeof result};
    assert_int_equal(kiln_program_create_from_cache_blob(desc, size, blob, &program, &result, NULL),
                     KILN_OK);
    assert_int_equal(result.from, KILN_PROGRAM_FROM_BLOB);
    assert_computes(f, program, "affine", 31);
    size_t same = size;
    assert_int_equal(kiln_program_get_cache_blob(program, &same, again), KILN_OK);
    assert_int_equal(same, size);
    assert_memory_equal(blob, again, size);
    kiln_program_release(&program);
    kiln_program_context_clear(f->context);

    for (size_t at = 0; at < size; at += 1 + size / 50) {
        blob[at] ^= 4;
        const kiln_status status =
            kiln_program_create_from_cache_blob(desc, size, blob, &program, NULL, NULL);
        assert_true(status == KILN_E_CORRUPT || status == KILN_E_VERSION);
        blob[at] ^= 4;
    }
    kiln_program_desc *other = describe(f, affine, "-DSHIFT=32");
    assert_int_equal(kiln_program_create_from_cache_blob(other, size, blob, &program, NULL, NULL),
                     KILN_E_REFUSED);
    kiln_program_desc_release(&other);
    test_free(blob);
    test_free(again);
    kiln_program_desc_release(&desc);
    leave(f);
}

/* ---- out of resources, host memory, device memory ---- */

static const cl_int kinds[] = {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY,
                               CL_MEM_OBJECT_ALLOCATION_FAILURE};

static void arm(const char *name, cl_int error, int failing)
{
    fault.name = name;
    fault.error = error;
    fault.failing = failing;
    fault.calls = 0;
}

static size_t programs_in_memory(const fixture *f)
{
    kiln_cache_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(kiln_program_context_get_program_stats(f->context, &stats), KILN_OK);
    return (size_t)stats.entries;
}

/* A program that is linked from one source, so that the driver both compiles and links. */
static kiln_program_desc *describe_link(fixture *f, const char *options)
{
    kiln_program_desc *part = describe(f, affine, options);
    const kiln_program_desc *const inputs[] = {part};
    const kiln_program_desc_params params = {
        .struct_size = sizeof params, .linked = inputs, .linked_count = 1};
    kiln_program_desc *desc = NULL;
    assert_int_equal(kiln_program_desc_new(f->context, &params, &desc, NULL), KILN_OK);
    kiln_program_desc_release(&part);
    return desc;
}

/* If the function fails once, everything in memory is evicted and the call succeeds. If it always
 * fails, its second failure is reported. */
static void check_fault(fixture *f, const char *function, cl_int error, cl_uint number)
{
    char options[64];
    snprintf(options, sizeof options, "-DSHIFT=%u", (unsigned)number);
    enter(f);
    kiln_program_desc *before = describe(f, affine, "-DSHIFT=1");
    kiln_program *program = NULL;
    assert_int_equal(kiln_program_get(before, &program, NULL, NULL), KILN_OK);
    kiln_program_release(&program);
    assert_int_equal(programs_in_memory(f), 1);
    kiln_program_desc *desc = strcmp(function, "clLinkProgram") == 0 ? describe_link(f, options)
                                                                     : describe(f, affine, options);
    kiln_kernel_desc *kernel_desc = NULL;
    kiln_kernel *kernel = NULL;
    assert_int_equal(kiln_kernel_desc_new(desc, "affine", &kernel_desc), KILN_OK);

    arm(function, error, 1);
    assert_int_equal(kiln_kernel_get(kernel_desc, &kernel, NULL), KILN_OK);
    assert_int_equal(fault.calls, 2);
    assert_true(computes(f, kiln_kernel_handle(kernel), number));
    assert_int_equal(programs_in_memory(f), 1);
    kiln_kernel_release(&kernel);

    /* A lasting failure is reported, unless the store has the linked program, which needs no
     * link. */
    assert_int_equal(kiln_program_context_drain(f->context, DRAIN_NS), KILN_OK);
    kiln_program_context_clear(f->context);
    arm(function, error, 1000);
    const bool is_needed = !f->is_cheap || strcmp(function, "clLinkProgram") != 0;
    assert_int_equal(kiln_kernel_get(kernel_desc, &kernel, NULL),
                     is_needed ? KILN_E_RESOURCES : KILN_OK);
    kiln_kernel_release(&kernel);
    arm(NULL, CL_SUCCESS, 0);
    kiln_kernel_desc_release(&kernel_desc);
    kiln_program_desc_release(&desc);
    kiln_program_desc_release(&before);
    leave(f);
}

static void check_out_of_resources(fixture *f)
{
    static const char *const functions[] = {"clBuildProgram", "clLinkProgram", "clCreateKernel"};
    cl_uint number = 100;
    for (size_t i = 0; i < 3; i++) {
        for (size_t kind = 0; kind < 3; kind++) {
            check_fault(f, functions[i], kinds[kind], number++);
        }
    }
}

/* ---- devices ---- */

static void check_devices(fixture *f)
{
    kiln_opencl_device *device = NULL;
    cl_context context = f->platform->context;
    cl_device_id id = f->platform->device;
    kiln_error error = {.struct_size = sizeof error};
    assert_int_equal(kiln_opencl_device_new(NULL, id, NULL, &device, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_opencl_device_new(context, NULL, NULL, &device, NULL), KILN_E_INVALID);
    assert_int_equal(kiln_opencl_device_new(context, id, NULL, NULL, NULL), KILN_E_INVALID);
    const kiln_opencl_device_params nothing = {.struct_size = sizeof nothing, .function = look_up};
    assert_int_equal(kiln_opencl_device_new(context, id, &nothing, &device, &error),
                     KILN_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "OpenCL has no cl"));
    assert_null(device);
    kiln_opencl_device_free(NULL);
    kiln_opencl_device_free(&device);
    assert_null(kiln_opencl_ops(NULL));

    /* Variables that the application names are parts of each key. */
    static const char *const more[] = {"KILN_TEST_*", NULL};
    const kiln_opencl_device_params params = {.struct_size = sizeof params, .more = more};
    assert_int_equal(kiln_opencl_device_new(context, id, &params, &device, NULL), KILN_OK);
    kiln_opencl_device *usual = f->device;
    f->device = device;
    enter(f);
    assert_int_equal(setenv("KILN_TEST_VARIABLE", "one", 1), 0);
    kiln_program_desc *first = describe(f, affine, "-DSHIFT=5");
    assert_int_equal(setenv("KILN_TEST_VARIABLE", "two", 1), 0);
    kiln_program_desc *second = describe(f, affine, "-DSHIFT=5");
    unsetenv("KILN_TEST_VARIABLE");
    assert_false(kiln_key_equals(kiln_program_desc_key(first), kiln_program_desc_key(second)));
    kiln_program_desc_release(&first);
    kiln_program_desc_release(&second);
    leave(f);
    f->device = usual;
    kiln_opencl_device_free(&device);
}

/* ---- on all platforms ---- */

static void on_each_platform(void (*check)(fixture *f))
{
    if (found.count == 0) {
        print_message("no OpenCL runtime\n");
        skip();
    }
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
    assert_non_null(loader);
    const kiln_opencl_device_params params = {
        .struct_size = sizeof params, .function = look_up, .user = loader};
    for (size_t i = 0; i < found.count; i++) {
        fixture f = {.platform = &found.platforms[i]};
        assert_int_equal(kiln_opencl_device_new(f.platform->context, f.platform->device, &params,
                                                &f.device, NULL),
                         KILN_OK);
        f.is_cheap = kiln_opencl_ops(f.device)->capture_cost == KILN_CAPTURE_CHEAP;
        print_message("on %s\n", f.platform->name);
        scratch_make(f.directory);
        check(&f);
        scratch_remove(f.directory);
        kiln_opencl_device_free(&f.device);
    }
}

#define ON_EACH_PLATFORM(check)                                                                    \
    static void test_##check(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        on_each_platform(check_##check);                                                           \
    }

ON_EACH_PLATFORM(threads_launch_one_kernel)
ON_EACH_PLATFORM(keys_contain_all_inputs)
ON_EACH_PLATFORM(reports_what_is_kept)
ON_EACH_PLATFORM(linked_programs)
ON_EACH_PLATFORM(link_that_fails)
ON_EACH_PLATFORM(images_with_constants)
ON_EACH_PLATFORM(blobs)
ON_EACH_PLATFORM(out_of_resources)
ON_EACH_PLATFORM(devices)

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
        cmocka_unit_test(test_threads_launch_one_kernel),
        cmocka_unit_test(test_keys_contain_all_inputs),
        cmocka_unit_test(test_reports_what_is_kept),
        cmocka_unit_test(test_linked_programs),
        cmocka_unit_test(test_link_that_fails),
        cmocka_unit_test(test_images_with_constants),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_out_of_resources),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, find_platforms, forget_platforms);
}
