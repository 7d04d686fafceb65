/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of kernels, and the functions that create kernels.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rich[] =
    "typedef struct pair { int a; float b; } pair;\n"
    "__kernel __attribute__((reqd_work_group_size(8, 1, 1)))\n"
    "void required(__global int *out) { out[get_global_id(0)] = 40 + get_global_id(0); }\n"
    "__kernel __attribute__((work_group_size_hint(8, 1, 1))) __attribute__((vec_type_hint(int4)))\n"
    "void hinted(__global int *out, const __global float *restrict in, __constant int *table,\n"
    "            __local float4 *scratch, volatile __global uint *counter, int number,\n"
    "            const pair record, float4 vector, ulong large)\n"
    "{ if (number == 12345) out[0] = (int) in[0] + table[0] + (int) scratch[0].x + counter[0]\n"
    "      + record.a + (int) vector.x + (int) large; }\n"
    "__kernel void plain(__global int *out)\n"
    "{ __local int shared[64]; shared[get_local_id(0)] = 50;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE); out[get_global_id(0)] = shared[get_local_id(0)] +\n"
    "  get_global_id(0); }\n"
    "__kernel void empty(void) { }\n";

enum { HINTED_ARGUMENTS = 9 };

static const query of_kernel[] = {
    QUERY(CL_KERNEL_FUNCTION_NAME, VALUE_TEXT),   QUERY(CL_KERNEL_NUM_ARGS, VALUE_UINT),
    QUERY(CL_KERNEL_REFERENCE_COUNT, VALUE_UINT), QUERY(CL_KERNEL_CONTEXT, VALUE_HANDLES),
    QUERY(CL_KERNEL_PROGRAM, VALUE_HANDLES),      QUERY(CL_KERNEL_ATTRIBUTES, VALUE_TEXT),
    QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
};

static const query of_argument[] = {
    QUERY(CL_KERNEL_ARG_ADDRESS_QUALIFIER, VALUE_UINT),
    QUERY(CL_KERNEL_ARG_ACCESS_QUALIFIER, VALUE_UINT),
    QUERY(CL_KERNEL_ARG_TYPE_NAME, VALUE_TEXT),
    QUERY(CL_KERNEL_ARG_TYPE_QUALIFIER, VALUE_ULONG),
    QUERY(CL_KERNEL_ARG_NAME, VALUE_TEXT),
    QUERY(CL_KERNEL_ATTRIBUTES, VALUE_UINT),
};

static const query of_work_group[] = {
    QUERY(CL_KERNEL_WORK_GROUP_SIZE, VALUE_SIZES),
    QUERY(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, VALUE_SIZES),
    QUERY(CL_KERNEL_LOCAL_MEM_SIZE, VALUE_ULONG),
    QUERY(CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, VALUE_SIZES),
    QUERY(CL_KERNEL_PRIVATE_MEM_SIZE, VALUE_ULONG),
    QUERY(CL_KERNEL_GLOBAL_WORK_SIZE, VALUE_SIZES),
};

static const char *const functions[] = {"required", "hinted", "plain", "empty"};

static void for_each_kernel(const char *options, void (*ask)(const scene *in, cl_kernel kernel))
{
    scene in = scene_open();
    cl_program program = program_of(in.context, rich, "P1");
    build(program, options);
    for (size_t i = 0; i < COUNT(functions); i++) {
        char name[8];
        snprintf(name, sizeof name, "K%zu", i + 1);
        cl_kernel kernel = kernel_of(program, functions[i], name);
        ask(&in, kernel);
        clReleaseKernel(kernel);
    }
    check_program(&in, program, "required", 40);
    check_program(&in, program, "plain", 50);
    clReleaseProgram(program);
    scene_close(&in);
}

static void ask_information(const scene *in, cl_kernel kernel)
{
    subject of = {.object = kernel, .device = in->device};
    probe_all(ask_kernel, &of, of_kernel, COUNT(of_kernel));
}

static void information(void)
{
    for_each_kernel(NULL, ask_information);
}

static void ask_arguments(const scene *in, cl_kernel kernel)
{
    cl_uint count = 0;
    clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL);
    for (cl_uint i = 0; i <= count; i++) {
        subject of = {.object = kernel, .device = in->device, .index = i};
        say("argument %u of %s", i, handle_name(kernel));
        probe_all(ask_argument, &of, of_argument, COUNT(of_argument));
    }
}

static void arguments_unasked(void)
{
    for_each_kernel("-DNO_INFO", ask_arguments);
}

static void arguments_with_null_options(void)
{
    for_each_kernel(NULL, ask_arguments);
}

static void arguments_asked(void)
{
    for_each_kernel("-cl-kernel-arg-info", ask_arguments);
}

static void ask_work_groups(const scene *in, cl_kernel kernel)
{
    subject of = {.object = kernel, .device = in->device};
    say("%s with a device", handle_name(kernel));
    probe_all(ask_work_group, &of, of_work_group, COUNT(of_work_group));
    say("%s without", handle_name(kernel));
    of.device = NULL;
    probe_all(ask_work_group, &of, of_work_group, COUNT(of_work_group));
}

static void work_groups(void)
{
    for_each_kernel("", ask_work_groups);
}

static void ask_sub_groups(const scene *in, cl_kernel kernel)
{
    static const query from_sizes[] = {
        QUERY(CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, VALUE_SIZES),
        QUERY(CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, VALUE_SIZES),
    };
    static const query from_count[] = {
        QUERY(CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, VALUE_SIZES),
    };
    static const query from_nothing[] = {
        QUERY(CL_KERNEL_MAX_NUM_SUB_GROUPS, VALUE_SIZES),
        QUERY(CL_KERNEL_COMPILE_NUM_SUB_GROUPS, VALUE_SIZES),
    };
    size_t sizes[] = {16, 1, 1};
    size_t groups = 1;
    subject of = {.object = kernel, .device = in->device};
    probe_all(ask_sub_group, &of, from_nothing, COUNT(from_nothing));
    of.input = sizes;
    of.input_size = sizeof sizes;
    probe_all(ask_sub_group, &of, from_sizes, COUNT(from_sizes));
    of.input = &groups;
    of.input_size = sizeof groups;
    probe_all(ask_sub_group, &of, from_count, COUNT(from_count));
}

static void sub_groups(void)
{
    for_each_kernel("", ask_sub_groups);
}

static const char scaled[] =
    "__kernel void f(__global int *out, int first)\n"
    "{ out[get_global_id(0)] = first + get_global_id(0); }\n"
    "__kernel void g(__global int *out) { out[get_global_id(0)] = 60 + get_global_id(0); }\n";

static void set_first(cl_kernel kernel, int first)
{
    say_status(clSetKernelArg(kernel, 1, sizeof first, &first), "set argument 1 of %s to %d",
               handle_name(kernel), first);
}

/* A clone starts with the arguments that its original has at that time; later changes of one do not
 * affect the other. */
static void clone(void)
{
    scene in = scene_open();
    cl_int status;
    cl_program program = program_of(in.context, scaled, "P1");
    build(program, NULL);
    cl_kernel kernel = kernel_of(program, "f", "K1");
    set_first(kernel, 70);
    cl_kernel copy = clCloneKernel(kernel, &status);
    say_status(status, "clone K1");
    if (status == CL_SUCCESS) {
        subject of = {.object = copy, .device = in.device};
        name_handle(copy, "K2");
        check(copy != kernel, "the clone has a separate handle");
        probe_all(ask_kernel, &of, of_kernel, COUNT(of_kernel));
        say("references: P1 %u, K1 %u, K2 %u", program_references(program),
            kernel_references(kernel), kernel_references(copy));
        set_first(kernel, 80);
        check_kernel(&in, copy, "K2", 70);
        check_kernel(&in, kernel, "K1", 80);
        build(program, "-DREBUILD");
        clReleaseKernel(kernel);
        build(program, "-DREBUILD");
        set_first(copy, 90);
        check_kernel(&in, copy, "K2", 90);
        say("references: P1 %u", program_references(program));
        clReleaseProgram(program);
        check_kernel(&in, copy, "K2", 90);
        clReleaseKernel(copy);
    } else {
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
    check(clCloneKernel(NULL, &status) == NULL, "nothing gives no clone");
    say_status(status, "clone of nothing");
    scene_close(&in);
}

static void say_kernels(const scene *in, cl_kernel *kernels, cl_uint count)
{
    for (cl_uint i = 0; i < count; i++) {
        char function[32] = "";
        cl_program owner = NULL;
        clGetKernelInfo(kernels[i], CL_KERNEL_FUNCTION_NAME, sizeof function, function, NULL);
        clGetKernelInfo(kernels[i], CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL);
        say("%u: %s of %s, references %u", i, function, handle_name(owner),
            kernel_references(kernels[i]));
        if (strcmp(function, "f") == 0) {
            int first = 95;
            clSetKernelArg(kernels[i], 1, sizeof first, &first);
            check_kernel(in, kernels[i], "f", 95);
        } else {
            check_kernel(in, kernels[i], "g", 60);
        }
    }
}

static void all_of_a_program(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, scaled, "P1");
    cl_kernel kernels[4] = {NULL};
    cl_uint count = 77;
    say_status(clCreateKernelsInProgram(program, 0, NULL, &count), "before the build");
    build(program, NULL);
    say_status(clCreateKernelsInProgram(program, 0, NULL, &count), "how many");
    say("%u; references of P1 %u", count, program_references(program));
    count = 77;
    say_status(clCreateKernelsInProgram(program, 1, kernels, &count), "room for one");
    say("%u; references of P1 %u; first %s", count, program_references(program),
        kernels[0] == NULL ? "untouched" : "written");
    say_status(clCreateKernelsInProgram(program, 4, kernels, &count), "room for four");
    say("%u; references of P1 %u", count, program_references(program));
    say_kernels(&in, kernels, count < 4 ? count : 0);
    build(program, "-DREBUILD");
    for (cl_uint i = 0; i < count && i < 4; i++) {
        clReleaseKernel(kernels[i]);
    }
    say("references of P1 %u", program_references(program));
    say_status(clCreateKernelsInProgram(program, 2, kernels, NULL), "exact room, no count");
    clReleaseKernel(kernels[0]);
    clReleaseKernel(kernels[1]);
    say("references of P1 %u", program_references(program));
    clReleaseProgram(program);
    scene_close(&in);
}

/* Errors of clSetKernelArg and of a launch, which the layer's kernel must return like the
 * driver's. */
static void argument_errors(void)
{
    scene in = scene_open();
    size_t items = ITEMS;
    size_t five = 5;
    int number = 1;
    cl_program program = program_of(in.context, scaled, "P1");
    build(program, NULL);
    cl_kernel kernel = kernel_of(program, "f", "K1");
    say_status(clEnqueueNDRangeKernel(in.queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
               "launch without arguments");
    say_status(clSetKernelArg(kernel, 2, sizeof number, &number), "an argument too many");
    say_status(clSetKernelArg(kernel, 1, 1, &number), "a short argument");
    clReleaseKernel(kernel);
    kernel = kernel_of(program, "g", "K1");
    cl_mem buffer = clCreateBuffer(in.context, CL_MEM_READ_WRITE, 64, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    say_status(clEnqueueNDRangeKernel(in.queue, kernel, 1, NULL, &items, &five, 0, NULL, NULL),
               "an uneven work-group");
    clFinish(in.queue);
    clReleaseMemObject(buffer);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    scene_close(&in);
}

const conformance_case kernel_cases[] = {
    {"kernels.information", information, 1},
    {"kernels.arguments-without-option", arguments_unasked, 1},
    {"kernels.arguments-null-options", arguments_with_null_options, 1},
    {"kernels.arguments-with-option", arguments_asked, 1},
    {"kernels.work-groups", work_groups, 1},
    {"kernels.sub-groups", sub_groups, 1},
    {"kernels.clone", clone, 0},
    {"kernels.all", all_of_a_program, 0},
    {"kernels.argument-errors", argument_errors, 1},
    {NULL, NULL, 0},
};
