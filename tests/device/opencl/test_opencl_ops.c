/* SPDX-License-Identifier: Apache-2.0
 *
 * How OpenCL's device ops handle what drivers return, and functions that drivers lack. The test
 * implements the functions of the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/entry.h>

#include "device/opencl/device_ops.h"

static int handle; /* the handle of all programs */
static int live;
static cl_int answer;           /* the result of the call under test */
static char source_begins;      /* the first character of the source */
static const char *built_with;  /* the options */
static cl_uint device_count;    /* the number of devices of each program */
static const size_t bytes = 77; /* the size of each binary */
static int kernel_handle;
static int live_kernels;

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count,
                                                 const char **texts, const size_t *sizes,
                                                 cl_int *ret_error)
{
    (void)context, (void)count, (void)sizes;
    source_begins = texts[0][0];
    *ret_error = CL_SUCCESS;
    live++;
    return (cl_program)&handle;
}

static cl_program CL_API_CALL create_with_il(cl_context context, const void *code, size_t size,
                                             cl_int *ret_error)
{
    (void)context, (void)code, (void)size;
    *ret_error = answer;
    live += answer == CL_SUCCESS;
    return answer == CL_SUCCESS ? (cl_program)&handle : NULL;
}

static cl_int CL_API_CALL release(cl_program program)
{
    assert_ptr_equal(program, &handle);
    live--;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *done)(cl_program, void *),
                                void *user)
{
    (void)program, (void)count, (void)devices, (void)done, (void)user;
    built_with = options;
    return answer;
}

static cl_int CL_API_CALL compile(cl_program program, cl_uint count, const cl_device_id *devices,
                                  const char *options, cl_uint header_count,
                                  const cl_program *headers, const char **names,
                                  void(CL_CALLBACK *done)(cl_program, void *), void *user)
{
    (void)program, (void)count, (void)devices, (void)options, (void)header_count;
    (void)headers, (void)names, (void)done, (void)user;
    return answer;
}

static cl_program CL_API_CALL link_all(cl_context context, cl_uint count,
                                       const cl_device_id *devices, const char *options,
                                       cl_uint program_count, const cl_program *programs,
                                       void(CL_CALLBACK *done)(cl_program, void *), void *user,
                                       cl_int *ret_error)
{
    (void)context, (void)count, (void)devices, (void)options, (void)program_count;
    (void)programs, (void)done, (void)user;
    *ret_error = answer;
    return NULL;
}

static cl_int CL_API_CALL get_log(cl_program program, cl_device_id device,
                                  cl_program_build_info what, size_t size, void *value,
                                  size_t *ret_size)
{
    (void)program, (void)device, (void)what;
    static const char log[] = "the log";
    if (ret_size) {
        *ret_size = sizeof log;
    }
    if (value) {
        assert_int_equal(size, sizeof log);
        memcpy(value, log, size);
    }
    return CL_SUCCESS;
}

static cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint count,
                                                 const cl_device_id *devices, const size_t *sizes,
                                                 const unsigned char **binaries, cl_int *statuses,
                                                 cl_int *ret_error)
{
    (void)context, (void)count, (void)devices, (void)sizes, (void)binaries, (void)statuses;
    *ret_error = CL_SUCCESS;
    live++;
    return (cl_program)&handle;
}

static cl_int CL_API_CALL get_program_info(cl_program program, cl_program_info what, size_t size,
                                           void *value, size_t *ret_size)
{
    (void)program, (void)ret_size;
    if (what == CL_PROGRAM_NUM_DEVICES) {
        memcpy(value, &device_count, size);
    } else {
        assert_int_equal(device_count, 1);
        memcpy(value, &bytes, size);
    }
    return answer;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *ret_error)
{
    (void)program, (void)name;
    *ret_error = answer;
    live_kernels += answer == CL_SUCCESS;
    return answer == CL_SUCCESS ? (cl_kernel)&kernel_handle : NULL;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    assert_ptr_equal(kernel, &kernel_handle);
    live_kernels--;
    return CL_SUCCESS;
}

static cl_icd_dispatch functions = {
    .clCreateProgramWithSource = create_with_source,
    .clCreateProgramWithBinary = create_with_binary,
    .clReleaseProgram = release,
    .clBuildProgram = build,
    .clCompileProgram = compile,
    .clLinkProgram = link_all,
    .clGetProgramBuildInfo = get_log,
    .clGetProgramInfo = get_program_info,
    .clCreateKernel = create_kernel,
    .clReleaseKernel = release_kernel,
};
static kilni_opencl_device device = {.cl = &functions};

typedef kiln_status (*step_fn)(void *device, const kiln_program_source *source, void **ret_made,
                               char **ret_log);

static const kiln_spec_constant constant = {1, {"7", 1}};

/* Checks what a build and a compilation return; @has_log: they made a program, which has a log. */
static void check_steps(const kiln_program_source *source, kiln_status expected, bool has_log)
{
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    const step_fn steps[] = {ops->build, ops->compile};
    for (int i = 0; i < 2; i++) {
        void *made = NULL;
        char *log = NULL;
        assert_int_equal(steps[i](&device, source, &made, &log), expected);
        assert_null(made);
        assert_int_equal(live, 0);
        assert_int_equal(log != NULL, has_log);
        if (has_log) {
            assert_string_equal(log, "the log");
        }
        free(log);
    }
}

static void test_no_intermediate_language(void **state)
{
    (void)state;
    kiln_program_source source = {
        .struct_size = sizeof source, .form = KILN_SOURCE_IL, .code = {"il", 2}};
    functions.clCreateProgramWithIL = NULL;
    check_steps(&source, KILN_E_UNSUPPORTED, false);
    /* The loader has the function, but the driver lacks it. */
    functions.clCreateProgramWithIL = create_with_il;
    answer = CL_INVALID_OPERATION;
    check_steps(&source, KILN_E_UNSUPPORTED, false);
    answer = CL_INVALID_VALUE;
    check_steps(&source, KILN_E_BUILD, false);
    answer = CL_SUCCESS;
    source.constants = &constant;
    source.constant_count = 1;
    check_steps(&source, KILN_E_UNSUPPORTED, false);
}

static const kiln_program_source text_source = {
    .struct_size = sizeof text_source, .form = KILN_SOURCE_TEXT, .code = {"c", 1}};

/* Errors that a driver returns, and whether the source, a lack of resources, or the driver is the
 * cause. */
static const struct {
    cl_int error;
    kiln_status status;
} answers[] = {
    {CL_OUT_OF_RESOURCES, KILN_E_RESOURCES},
    {CL_OUT_OF_HOST_MEMORY, KILN_E_RESOURCES},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, KILN_E_RESOURCES},
    {CL_BUILD_PROGRAM_FAILURE, KILN_E_BUILD},
    {CL_COMPILE_PROGRAM_FAILURE, KILN_E_BUILD},
    {CL_LINK_PROGRAM_FAILURE, KILN_E_BUILD},
    {CL_INVALID_BUILD_OPTIONS, KILN_E_BUILD},
    {CL_INVALID_COMPILER_OPTIONS, KILN_E_BUILD},
    {CL_INVALID_LINKER_OPTIONS, KILN_E_BUILD},
    {CL_INVALID_VALUE, KILN_E_BUILD},
    {CL_INVALID_SPEC_ID, KILN_E_BUILD},
    {CL_COMPILER_NOT_AVAILABLE, KILN_E_UNSUPPORTED},
    {CL_LINKER_NOT_AVAILABLE, KILN_E_UNSUPPORTED},
    {CL_INVALID_OPERATION, KILN_E_IO},
    {CL_INVALID_PROGRAM, KILN_E_IO},
};

static void test_errors_of_drivers(void **state)
{
    (void)state;
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        answer = answers[i].error;
        check_steps(&text_source, answers[i].status, true);
        void *objects[] = {&handle}, *made = NULL;
        char *log = NULL;
        assert_int_equal(ops->link(&device, objects, 1, NULL, &made, &log), answers[i].status);
        assert_null(made);
        free(log);
        assert_int_equal(ops->kernel(&device, &handle, "k", &made), answers[i].status);
        assert_null(made);
    }
}

static void test_kernels(void **state)
{
    (void)state;
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    void *made = NULL;
    answer = CL_INVALID_KERNEL_NAME;
    assert_int_equal(ops->kernel(&device, &handle, "k", &made), KILN_MISS);
    assert_null(made);
    answer = CL_SUCCESS;
    assert_int_equal(ops->kernel(&device, &handle, "k", &made), KILN_OK);
    assert_ptr_equal(made, &kernel_handle);
    assert_int_equal(live_kernels, 1);
    ops->release_kernel(&device, made);
    assert_int_equal(live_kernels, 0);
}

/* A program for several devices has a binary for each of them. */
static void test_bytes_of_programs(void **state)
{
    (void)state;
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_CHEAP);
    answer = CL_SUCCESS;
    device_count = 1;
    assert_int_equal(ops->program_bytes(&device, &handle), bytes);
    device_count = 2;
    assert_int_equal(ops->program_bytes(&device, &handle), 0);
    answer = CL_INVALID_PROGRAM;
    device_count = 1;
    assert_int_equal(ops->program_bytes(&device, &handle), 0);
}

/* OpenCL takes a length of 0 to mean that the text ends with a zero byte, but an empty source has
 * no zero byte. */
static void test_empty_source(void **state)
{
    (void)state;
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    kiln_program_source source = text_source;
    source.code.size = 0;
    answer = CL_SUCCESS;
    void *made = NULL;
    char *log = NULL;
    assert_int_equal(ops->build(&device, &source, &made, &log), KILN_OK);
    assert_int_equal(source_begins, '\0');
    ops->release_program(&device, made);
    assert_int_equal(ops->build(&device, &text_source, &made, &log), KILN_OK);
    assert_int_equal(source_begins, 'c');
    ops->release_program(&device, made);
    assert_int_equal(live, 0);
    assert_null(log);
}

/* Programs that are made from binaries may need the options. */
static void test_binaries_are_built_with_their_options(void **state)
{
    (void)state;
    kiln_key_builder *builder = NULL;
    kiln_key *key = NULL;
    assert_int_equal(kiln_key_builder_new(&builder), KILN_OK);
    assert_int_equal(kiln_key_builder_add_text(builder, "a", "key"), KILN_OK);
    assert_int_equal(kiln_key_builder_finish(builder, &key), KILN_OK);
    const kiln_entry_params params = {.struct_size = sizeof params,
                                      .key = key,
                                      .kind = KILN_ENTRY_PROGRAM,
                                      .payload = {"binary", 6}};
    kiln_entry *entry = NULL;
    assert_int_equal(kiln_entry_new(&params, &entry), KILN_OK);
    kiln_program_source source = text_source;
    source.options = "-O2";
    answer = CL_SUCCESS;
    void *made = NULL;
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    assert_int_equal(ops->load(&device, &source, entry, &made), KILN_OK);
    assert_string_equal(built_with, "-O2");
    ops->release_program(&device, made);
    assert_int_equal(live, 0);
    kiln_entry_release(&entry);
    kiln_key_release(&key);
    kiln_key_builder_free(&builder);
}

static void test_a_device_is_interchangeable_with_itself(void **state)
{
    (void)state;
    static int contexts[2], devices[2];
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    for (int context = 0; context < 2; context++) {
        for (int card = 0; card < 2; card++) {
            kilni_opencl_device first = {.context = (cl_context)&contexts[0],
                                         .device = (cl_device_id)&devices[0]};
            kilni_opencl_device other = {.context = (cl_context)&contexts[context],
                                         .device = (cl_device_id)&devices[card]};
            assert_int_equal(ops->interchangeable(&first, &other), context == 0 && card == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_intermediate_language),
        cmocka_unit_test(test_errors_of_drivers),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_bytes_of_programs),
        cmocka_unit_test(test_empty_source),
        cmocka_unit_test(test_binaries_are_built_with_their_options),
        cmocka_unit_test(test_a_device_is_interchangeable_with_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
