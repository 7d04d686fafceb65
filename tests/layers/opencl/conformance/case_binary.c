/* SPDX-License-Identifier: Apache-2.0
 *
 * Binaries that the application supplies itself, and built-in kernels.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "__kernel void f(__global int *out) { out[get_global_id(0)] = 300 + get_global_id(0); }\n";

typedef struct binary {
    unsigned char *bytes;
    size_t size;
} binary;

static binary take_binary(const scene *in, const char *options)
{
    binary taken = {NULL, 0};
    cl_program program = program_of(in->context, source, "P1");
    build(program, options);
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof taken.size, &taken.size, NULL);
    taken.bytes = calloc(1, taken.size + 1);
    say_status(
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof taken.bytes, &taken.bytes, NULL),
        "take the binary of P1");
    check(taken.size > 0, "it is there");
    clReleaseProgram(program);
    return taken;
}

static cl_program load(const scene *in, const binary *from, const char *name)
{
    cl_int status;
    cl_int state = 99;
    const unsigned char *bytes = from->bytes;
    cl_program program = clCreateProgramWithBinary(in->context, 1, &in->device, &from->size, &bytes,
                                                   &state, &status);
    say_status(status, "load %s, binary status %s", name, status_name(state));
    if (program != NULL) {
        name_handle(program, "%s", name);
    }
    return program;
}

static void say_loaded(const scene *in, cl_program program)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),
        QUERY(CL_PROGRAM_SOURCE, VALUE_TEXT),
        QUERY(CL_PROGRAM_IL, VALUE_TEXT),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
        QUERY(CL_PROGRAM_BINARY_SIZES, VALUE_NONZERO_SIZES),
    };
    subject of = {.object = program};
    probe_all(ask_program, &of, of_program, COUNT(of_program));
    probe_build(program, in->device);
}

static void supplied(void)
{
    scene in = scene_open();
    binary taken = take_binary(&in, "-DSUPPLIED");
    cl_program programs[2];
    for (int i = 0; i < 2; i++) {
        programs[i] = load(&in, &taken, i == 0 ? "L1" : "L2");
        build(programs[i], "-DSUPPLIED");
        say_loaded(&in, programs[i]);
        check_program(&in, programs[i], "f", 300);
    }
    cl_kernel kernel = kernel_of(programs[0], "f", "K1");
    say("references: L1 %u, K1 %u", program_references(programs[0]), kernel_references(kernel));
    clReleaseProgram(programs[0]);
    check_kernel(&in, kernel, "K1", 300);
    clReleaseKernel(kernel);
    clReleaseProgram(programs[1]);
    free(taken.bytes);
    scene_close(&in);
}

/* Uses a program from a binary while the program from its source exists too. */
static void beside_its_source(void)
{
    scene in = scene_open();
    binary taken = take_binary(&in, NULL);
    cl_program loaded = load(&in, &taken, "L1");
    cl_program program = program_of(in.context, source, "P2");
    build(program, NULL);
    build(loaded, NULL);
    check_program(&in, program, "f", 300);
    check_program(&in, loaded, "f", 300);
    clReleaseProgram(program);
    check_program(&in, loaded, "f", 300);
    clReleaseProgram(loaded);
    free(taken.bytes);
    scene_close(&in);
}

static void refused(void)
{
    static unsigned char noise[256];
    scene in = scene_open();
    cl_int status;
    cl_int state = 99;
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (unsigned char)(i * 37 + 11);
    }
    const unsigned char *bytes = noise;
    const unsigned char *none = NULL;
    size_t size = sizeof noise;
    size_t zero = 0;
    cl_program program =
        clCreateProgramWithBinary(in.context, 1, &in.device, &size, &bytes, &state, &status);
    say_status(status, "noise, binary status %s, %s", status_name(state),
               program == NULL ? "no program" : "a program");
    program = clCreateProgramWithBinary(in.context, 1, &in.device, &zero, &bytes, &state, &status);
    say_status(status, "nothing");
    program = clCreateProgramWithBinary(in.context, 1, &in.device, &size, &none, &state, &status);
    say_status(status, "NULL");
    program = clCreateProgramWithBinary(in.context, 0, NULL, &size, &bytes, &state, &status);
    say_status(status, "no device");
    program = clCreateProgramWithBinary(NULL, 1, &in.device, &size, &bytes, &state, &status);
    say_status(status, "no context");
    check(program == NULL, "an error returns no program");
    scene_close(&in);
}

static char *built_in_kernels(cl_device_id device)
{
    size_t size = 0;
    clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, 0, NULL, &size);
    char *names = calloc(1, size + 1);
    clGetDeviceInfo(device, CL_DEVICE_BUILT_IN_KERNELS, size, names, NULL);
    return names;
}

static void built_in(void)
{
    static const query of_program[] = {
        QUERY(CL_PROGRAM_NUM_DEVICES, VALUE_UINT),
        QUERY(CL_PROGRAM_REFERENCE_COUNT, VALUE_UINT),
        QUERY(CL_PROGRAM_NUM_KERNELS, VALUE_SIZES),
        QUERY(CL_PROGRAM_KERNEL_NAMES, VALUE_TEXT),
    };
    if (runtime_is_intel()) {
        say("skipped: releasing a program of unknown built-in kernels crashes this runtime");
        return;
    }
    scene in = scene_open();
    cl_int status;
    char *names = built_in_kernels(in.device);
    cl_program program =
        clCreateProgramWithBuiltInKernels(in.context, 1, &in.device, "no.such.kernel", &status);
    say_status(status, "an unknown built-in kernel%s", program == NULL ? ", no program" : "");
    if (status == CL_SUCCESS) {
        clReleaseProgram(program);
    }
    say("the device has '%s'", names);
    names[strcspn(names, ";")] = '\0';
    if (names[0] != '\0') {
        program = clCreateProgramWithBuiltInKernels(in.context, 1, &in.device, names, &status);
        say_status(status, "'%s'", names);
        if (status == CL_SUCCESS) {
            subject of = {.object = program, .device = in.device};
            name_handle(program, "P1");
            build(program, NULL);
            probe_all(ask_program, &of, of_program, COUNT(of_program));
            cl_kernel kernel = kernel_of(program, names, "K1");
            if (kernel != NULL) {
                clReleaseKernel(kernel);
            }
            clReleaseProgram(program);
        }
    }
    free(names);
    scene_close(&in);
}

const conformance_case binary_cases[] = {
    {"binary.supplied", supplied, 0},
    {"binary.beside-its-source", beside_its_source, 0},
    {"binary.refused", refused, 0},
    {"binary.built-in-kernels", built_in, 0},
    {NULL, NULL, 0},
};
