/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles and reference counts of programs and kernels.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

static const char two_kernels[] =
    "__kernel void first(__global int *out) { out[get_global_id(0)] = 10 + get_global_id(0); }\n"
    "__kernel void second(__global int *out) { out[get_global_id(0)] = 20 + get_global_id(0); }\n";

static void say_counts(const scene *in, cl_program program, const char *when)
{
    say("%s: references of %s %u, of context %u", when, handle_name(program),
        program_references(program), context_references(in->context));
}

static void of_a_program(void)
{
    scene in = scene_open();
    say("new context: %u", context_references(in.context));
    cl_program program = program_of(in.context, two_kernels, "P1");
    say_counts(&in, program, "created");
    build(program, NULL);
    say_counts(&in, program, "built");
    say_status(clRetainProgram(program), "retain");
    say_counts(&in, program, "retained");
    say_status(clReleaseProgram(program), "release");
    say_counts(&in, program, "released once");
    for (int i = 0; i < 3; i++) {
        clRetainProgram(program);
    }
    say_counts(&in, program, "retained three times");
    for (int i = 0; i < 3; i++) {
        clReleaseProgram(program);
    }
    say_counts(&in, program, "released three times");
    check_program(&in, program, "first", 10);
    say_counts(&in, program, "after a kernel came and went");
    say_status(clReleaseProgram(program), "release for the last time");
    say("context at the end: %u", context_references(in.context));
    scene_close(&in);
}

static void say_kernel(const scene *in, cl_kernel kernel, cl_program program, const char *when)
{
    cl_program owner = NULL;
    cl_context context = NULL;
    clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL);
    clGetKernelInfo(kernel, CL_KERNEL_CONTEXT, sizeof context, &context, NULL);
    say("%s: %s has %u references, program %s (%s), context %s; %s has %u, context has %u", when,
        handle_name(kernel), kernel_references(kernel), handle_name(owner),
        owner == program ? "the same" : "another", handle_name(context), handle_name(program),
        program_references(program), context_references(in->context));
}

static void of_kernels(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, two_kernels, "P1");
    build(program, "");
    cl_kernel first = kernel_of(program, "first", "K1");
    say_kernel(&in, first, program, "one kernel");
    cl_kernel second = kernel_of(program, "second", "K2");
    say_kernel(&in, second, program, "two kernels");
    cl_kernel again = kernel_of(program, "first", "K3");
    check(again != first, "a kernel made twice is two kernels");
    say_kernel(&in, again, program, "three kernels");
    say_status(clRetainKernel(first), "retain K1");
    say_kernel(&in, first, program, "retained");
    say_status(clReleaseKernel(first), "release K1");
    say_kernel(&in, first, program, "released");
    check_kernel(&in, first, "K1", 10);
    check_kernel(&in, second, "K2", 20);
    check_kernel(&in, again, "K3", 10);
    clReleaseKernel(again);
    say_kernel(&in, first, program, "K3 gone");
    clReleaseKernel(second);
    say_kernel(&in, first, program, "K2 gone");
    clReleaseKernel(first);
    say_counts(&in, program, "all kernels gone");
    clReleaseProgram(program);
    scene_close(&in);
}

static void program_goes_first(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, two_kernels, "P1");
    build(program, NULL);
    cl_kernel first = kernel_of(program, "first", "K1");
    cl_kernel second = kernel_of(program, "second", "K2");
    say_status(clReleaseProgram(program), "release P1 while K1 and K2 live");
    check_kernel(&in, first, "K1", 10);
    cl_program owner = NULL;
    say_status(clGetKernelInfo(first, CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL),
               "program of K1");
    say("it is %s", handle_name(owner));
    cl_uint count = 0;
    cl_int status = clGetProgramInfo(owner, CL_PROGRAM_REFERENCE_COUNT, sizeof count, &count, NULL);
    say_status(status, "its references: %u", count);
    clReleaseKernel(first);
    check_kernel(&in, second, "K2", 20);
    clReleaseKernel(second);
    say("context: %u", context_references(in.context));
    scene_close(&in);
}

static void of_a_context(void)
{
    scene in = scene_open();
    cl_program programs[3];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "P%d", i + 1);
        programs[i] = program_of(in.context, two_kernels, name);
        build(programs[i], "-DSAME");
        say_counts(&in, programs[i], "built");
    }
    check(programs[0] != programs[1] && programs[1] != programs[2],
          "three programs, three handles");
    for (int i = 0; i < 3; i++) {
        check_program(&in, programs[i], "second", 20);
        clReleaseProgram(programs[i]);
        say("context: %u", context_references(in.context));
    }
    scene_close(&in);
}

/* Creates and releases programs, so that their addresses are reused by different programs and by
 * programs that are never built. No program may show anything of an earlier one. */
static void cycles(void)
{
    enum { DISTINCT = 4, BUILT_ONE_IN = 4 };
    scene in = scene_open();
    unsigned right = 0;
    unsigned built = 0;
    unsigned blank = 0;
    for (unsigned i = 0; i < setting.cycles; i++) {
        char source[160];
        int first = (int)(i / BUILT_ONE_IN % DISTINCT) * 100;
        cl_int status = 99;
        int values[ITEMS] = {0};
        snprintf(source, sizeof source,
                 "__kernel void f(__global int *out) { out[get_global_id(0)] = %d + "
                 "get_global_id(0); }",
                 first);
        const char *text = source;
        cl_program program = clCreateProgramWithSource(in.context, 1, &text, NULL, NULL);
        clGetProgramBuildInfo(program, in.device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status,
                              NULL);
        blank += status == CL_BUILD_NONE && program_references(program) == 1;
        if (i % BUILT_ONE_IN == 0) {
            built++;
            clBuildProgram(program, 0, NULL, NULL, NULL, NULL);
            cl_kernel kernel = clCreateKernel(program, "f", NULL);
            cl_program owner = NULL;
            clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof owner, &owner, NULL);
            right += run_kernel(in.context, in.queue, kernel, values) == CL_SUCCESS &&
                     values[1] == first + 1 && owner == program;
            clReleaseKernel(kernel);
        }
        clReleaseProgram(program);
    }
    check(blank == setting.cycles, "%u programs, all of them new", setting.cycles);
    check(right == built, "%u of them built and run", built);
    say("context: %u", context_references(in.context));
    scene_close(&in);
}

const conformance_case handle_cases[] = {
    {"handles.program", of_a_program, 1},
    {"handles.kernels", of_kernels, 1},
    {"handles.program-released-first", program_goes_first, 1},
    {"handles.context", of_a_context, 1},
    {"handles.cycles", cycles, 1},
    {NULL, NULL, 0},
};
