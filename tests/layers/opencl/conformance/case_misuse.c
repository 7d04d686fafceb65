/* SPDX-License-Identifier: Apache-2.0
 *
 * Invalid calls: each returns the right error code, and changes nothing.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>

static const char source[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = 15 + get_global_id(0); }\n";

static void of_create(void)
{
    scene in = scene_open();
    const char *text = source;
    const char *none = NULL;
    cl_int status = 99;
    cl_program program = clCreateProgramWithSource(NULL, 1, &text, NULL, &status);
    say_status(status, "no context%s", program == NULL ? ", no program" : "");
    program = clCreateProgramWithSource(in.context, 0, &text, NULL, &status);
    say_status(status, "no strings%s", program == NULL ? ", no program" : "");
    if (!runtime_is_pocl()) {
        /* PoCL reads the missing list and crashes. */
        program = clCreateProgramWithSource(in.context, 1, NULL, NULL, &status);
        say_status(status, "no list%s", program == NULL ? ", no program" : "");
    }
    program = clCreateProgramWithSource(in.context, 1, &none, NULL, &status);
    say_status(status, "a NULL in the list%s", program == NULL ? ", no program" : "");
    program = clCreateProgramWithSource(in.context, 1, &text, NULL, NULL);
    check(program != NULL, "no status wanted");
    clReleaseProgram(program);
    scene_close(&in);
}

static void of_build(void)
{
    scene in = scene_open();
    cl_program program = program_of(in.context, source, "P1");
    int user = 0;
    cl_device_id none = NULL;
    say_status(clBuildProgram(NULL, 0, NULL, NULL, NULL, NULL), "no program");
    say_status(clBuildProgram(program, 0, &in.device, NULL, NULL, NULL), "no devices, but a list");
    say_status(clBuildProgram(program, 1, NULL, NULL, NULL, NULL), "a device, but no list");
    if (!runtime_is_pocl()) {
        /* PoCL reads the NULL device and crashes. */
        say_status(clBuildProgram(program, 1, &none, NULL, NULL, NULL), "a NULL device");
    }
    say_status(clBuildProgram(program, 0, NULL, NULL, NULL, &user), "user data, but no callback");
    say_build(program, in.device);
    build(program, NULL);
    check_program(&in, program, "f", 15);
    say_status(clBuildProgram(program, 0, &in.device, NULL, NULL, NULL),
               "no devices, but a list, of a built program");
    say_status(clBuildProgram(program, 0, NULL, NULL, NULL, &user),
               "user data, but no callback, of a built program");
    say_build(program, in.device);
    check_program(&in, program, "f", 15);
    clReleaseProgram(program);
    scene_close(&in);
}

static void of_a_foreign_device(void)
{
    if (runtime_is_pocl()) {
        say("skipped: this runtime may crash on a device of another context");
        return;
    }
    cl_device_id parts[2];
    if (split_device(parts) != 2) {
        return;
    }
    scene in = scene_open_on(parts[0]);
    cl_program program = program_of(in.context, source, "P1");
    name_handle(parts[1], "D2");
    say_status(clBuildProgram(program, 1, &parts[1], NULL, NULL, NULL),
               "a device of another context");
    build(program, NULL);
    check_program(&in, program, "f", 15);
    cl_int state = 99;
    say_status(clGetProgramBuildInfo(program, parts[1], CL_PROGRAM_BUILD_STATUS, sizeof state,
                                     &state, NULL),
               "build status for a device of another context");
    clReleaseProgram(program);
    scene_close(&in);
    clReleaseDevice(parts[0]);
    clReleaseDevice(parts[1]);
}

static void of_kernels(void)
{
    scene in = scene_open();
    cl_int status = 99;
    cl_program program = program_of(in.context, source, "P1");
    check(clCreateKernel(program, "f", &status) == NULL, "no kernel before the build");
    say_status(status, "before the build");
    build(program, NULL);
    check(clCreateKernel(program, "g", &status) == NULL, "no kernel of an unknown name");
    say_status(status, "unknown name");
    check(clCreateKernel(program, NULL, &status) == NULL, "no kernel of no name");
    say_status(status, "no name");
    check(clCreateKernel(NULL, "f", &status) == NULL, "no kernel of no program");
    say_status(status, "no program");
    check(clCreateKernel(program, "", &status) == NULL, "no kernel of an empty name");
    say_status(status, "empty name");
    check(clCreateKernel(program, "g", NULL) == NULL, "no kernel, and no status wanted");
    say("references of P1: %u", program_references(program));
    cl_kernel kernel = clCreateKernel(program, "f", NULL);
    check_kernel(&in, kernel, "f", 15);
    clReleaseKernel(kernel);
    cl_kernel kernels[1];
    say_status(clCreateKernelsInProgram(NULL, 1, kernels, NULL), "kernels of no program");
    clReleaseProgram(program);
    scene_close(&in);
}

static void of_nothing(void)
{
    char buffer[64];
    size_t size;
    say_status(clRetainProgram(NULL), "retain no program");
    say_status(clReleaseProgram(NULL), "release no program");
    say_status(clRetainKernel(NULL), "retain no kernel");
    say_status(clReleaseKernel(NULL), "release no kernel");
    say_status(clGetProgramInfo(NULL, CL_PROGRAM_SOURCE, sizeof buffer, buffer, &size),
               "information about no program");
    say_status(clGetProgramBuildInfo(NULL, setting.device, CL_PROGRAM_BUILD_LOG, sizeof buffer,
                                     buffer, &size),
               "build information about no program");
    say_status(clGetKernelInfo(NULL, CL_KERNEL_FUNCTION_NAME, sizeof buffer, buffer, &size),
               "information about no kernel");
    say_status(clGetKernelWorkGroupInfo(NULL, setting.device, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof buffer, buffer, &size),
               "work-group information about no kernel");
    say_status(clGetKernelArgInfo(NULL, 0, CL_KERNEL_ARG_NAME, sizeof buffer, buffer, &size),
               "argument information about no kernel");
}

const conformance_case misuse_cases[] = {
    {"misuse.create", of_create, 0},
    {"misuse.build", of_build, 0},
    {"misuse.foreign-device", of_a_foreign_device, 0},
    {"misuse.kernels", of_kernels, 1},
    {"misuse.nothing", of_nothing, 0},
    {NULL, NULL, 0},
};
