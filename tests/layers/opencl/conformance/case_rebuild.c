/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a program again.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

static const char based[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = BASE + get_global_id(0); }\n"
    "#if BASE > 100\n"
    "__kernel void more(__global int *out) { out[get_global_id(0)] = 1 + get_global_id(0); }\n"
    "#endif\n";

static void say_program(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    };
    subject of = {.object = program};
    say_build(program, in->device);
    probe_all(ask_program, &of, of_program, COUNT(of_program));
}

static void other_options(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    build(program, "-DBASE=10");
    say_program(&in, program);
    check_program(&in, program, "f", 10);
    build(program, "-DBASE=120");
    say_program(&in, program);
    check_program(&in, program, "f", 120);
    check_program(&in, program, "more", 1);
    build(program, "-DBASE=30");
    say_program(&in, program);
    check_program(&in, program, "f", 30);
    kernel_of(program, "more", "K1");
    clReleaseProgram(program);
    scene_close(&in);
}

static void same_options(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    for (int i = 0; i < 3; i++) {
        build(program, "-DBASE=11");
        say_program(&in, program);
        check_program(&in, program, "f", 11);
    }
    clReleaseProgram(program);
    scene_close(&in);
}

static void back_and_forth(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    for (int i = 0; i < 3; i++) {
        build(program, "-DBASE=12");
        check_program(&in, program, "f", 12);
        build(program, "-DBASE=112");
        check_program(&in, program, "f", 112);
        check_program(&in, program, "more", 1);
    }
    say_program(&in, program);
    clReleaseProgram(program);
    scene_close(&in);
}

static void with_kernels_attached(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    build(program, "-DBASE=13");
    cl_kernel first = kernel_of(program, "f", "K1");
    cl_kernel second = kernel_of(program, "f", "K2");
    build(program, "-DBASE=14");
    say_program(&in, program);
    build(program, "-DBASE=13");
    clReleaseKernel(second);
    build(program, "-DBASE=14");
    check_kernel(&in, first, "K1", 13);
    say_status(clRetainKernel(first), "retain K1");
    clReleaseKernel(first);
    build(program, "-DBASE=14");
    clReleaseKernel(first);
    build(program, "-DBASE=14");
    say_program(&in, program);
    check_program(&in, program, "f", 14);
    clReleaseProgram(program);
    scene_close(&in);
}

/* clCompileProgram counts as a rebuild. */
static void compile_of_a_built_program(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, based, "P1");
    build(program, "-DBASE=15");
    cl_kernel kernel = kernel_of(program, "f", "K1");
    say_status(clCompileProgram(program, 0, NULL, "-DBASE=16", 0, NULL, NULL, NULL, NULL),
               "compile P1 while K1 lives");
    clReleaseKernel(kernel);
    say_status(clCompileProgram(program, 0, NULL, "-DBASE=16", 0, NULL, NULL, NULL, NULL),
               "compile P1");
    probe_build(program, in.device);
    kernel = kernel_of(program, "f", "K1");
    if (kernel != NULL) {
        clReleaseKernel(kernel);
    }
    build(program, "-DBASE=17");
    say_program(&in, program);
    kernel = kernel_of(program, "f", "K1");
    if (kernel != NULL) {
        /* Intel's runtime links the program that was compiled before, with BASE=16. */
        int values[ITEMS] = {0};
        cl_int status = run_kernel(in.context, in.queue, kernel, values);
        say_status(status, "K1 gives %d", values[0]);
        clReleaseKernel(kernel);
    }
    clReleaseProgram(program);
    scene_close(&in);
}

/* Builds three programs with the same options, and then one of them with different options. */
static void one_of_several(void)
{
    scene in = scene_open();
    cl_program programs[3];
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "P%d", i + 1);
        programs[i] = program_of(in.context, based, name);
        build(programs[i], "-DBASE=18");
    }
    build(programs[1], "-DBASE=19");
    check_program(&in, programs[0], "f", 18);
    check_program(&in, programs[1], "f", 19);
    check_program(&in, programs[2], "f", 18);
    for (int i = 0; i < 3; i++) {
        say_program(&in, programs[i]);
        clReleaseProgram(programs[i]);
    }
    scene_close(&in);
}

const conformance_case rebuild_cases[] = {
    {"rebuild.other-options", other_options, 0},
    {"rebuild.same-options", same_options, 0},
    {"rebuild.back-and-forth", back_and_forth, 0},
    {"rebuild.kernels-attached", with_kernels_attached, 0},
    {"rebuild.compile-of-built", compile_of_a_built_program, 0},
    {"rebuild.one-of-several", one_of_several, 0},
    {NULL, NULL, 0},
};
