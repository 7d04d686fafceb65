/* SPDX-License-Identifier: Apache-2.0
 *
 * What OpenCL's device ops make of drivers that lack something: their functions are the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "device/opencl/ops.h"

static int handle; /* of all programs */
static int live;
static cl_int answer; /* of what is tested */

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count,
                                                 const char **texts, const size_t *sizes,
                                                 cl_int *ret_error)
{
    (void)context, (void)count, (void)texts, (void)sizes;
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
    (void)program, (void)count, (void)devices, (void)options, (void)done, (void)user;
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

static cl_int CL_API_CALL say_nothing(cl_program program, cl_device_id device,
                                      cl_program_build_info what, size_t size, void *value,
                                      size_t *ret_size)
{
    (void)program, (void)device, (void)what, (void)size, (void)value;
    if (ret_size) {
        *ret_size = 0;
    }
    return CL_SUCCESS;
}

static cl_icd_dispatch functions = {
    .clCreateProgramWithSource = create_with_source,
    .clReleaseProgram = release,
    .clBuildProgram = build,
    .clCompileProgram = compile,
    .clLinkProgram = link_all,
    .clGetProgramBuildInfo = say_nothing,
};
static kilni_opencl_device device = {.cl = &functions};

typedef kiln_status (*step_fn)(void *device, const kiln_program_source *source, void **ret_made,
                               char **ret_log);

static const kiln_spec_constant constant = {1, {"7", 1}};

/* What a build and a compilation say. */
static void check_steps(const kiln_program_source *source, kiln_status expected)
{
    const kiln_device_ops *ops = kilni_opencl_ops(KILN_CAPTURE_NEVER);
    const step_fn steps[] = {ops->build, ops->compile};
    for (int i = 0; i < 2; i++) {
        void *made = NULL;
        char *log = NULL;
        assert_int_equal(steps[i](&device, source, &made, &log), expected);
        assert_null(made);
        assert_int_equal(live, 0);
        free(log);
    }
}

static void test_no_intermediate_language(void **state)
{
    (void)state;
    kiln_program_source source = {
        .struct_size = sizeof source, .form = KILN_SOURCE_IL, .code = {"il", 2}};
    functions.clCreateProgramWithIL = NULL;
    check_steps(&source, KILN_E_UNSUPPORTED);
    /* By a loader that has the function, for a driver that hasn't. */
    functions.clCreateProgramWithIL = create_with_il;
    answer = CL_INVALID_OPERATION;
    check_steps(&source, KILN_E_UNSUPPORTED);
    answer = CL_INVALID_VALUE;
    check_steps(&source, KILN_E_BUILD);
    answer = CL_SUCCESS;
    source.constants = &constant;
    source.constant_count = 1;
    check_steps(&source, KILN_E_UNSUPPORTED);
}

static void test_no_compiler_and_no_linker(void **state)
{
    (void)state;
    const kiln_program_source source = {
        .struct_size = sizeof source, .form = KILN_SOURCE_TEXT, .code = {"c", 1}};
    answer = CL_COMPILER_NOT_AVAILABLE;
    check_steps(&source, KILN_E_UNSUPPORTED);
    answer = CL_INVALID_OPERATION;
    check_steps(&source, KILN_E_IO);
    answer = CL_LINKER_NOT_AVAILABLE;
    void *objects[] = {&handle}, *made = NULL;
    char *log = NULL;
    assert_int_equal(
        kilni_opencl_ops(KILN_CAPTURE_NEVER)->link(&device, objects, 1, NULL, &made, &log),
        KILN_E_UNSUPPORTED);
    assert_null(made);
    free(log);
}

/* Equal cards are not: a program of one can't be launched on the other. */
static void test_one_device_that_was_given_twice_is_interchangeable(void **state)
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
        cmocka_unit_test(test_no_compiler_and_no_linker),
        cmocka_unit_test(test_one_device_that_was_given_twice_is_interchangeable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
