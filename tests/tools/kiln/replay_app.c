/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_app: OpenCL programs that are more than a source. For each it asks for the binaries, runs
 * kernel f, and prints the result.
 *
 *     replay_app constants VALUE  SPIR-V with a specialization constant of that value; exits with
 * 77 if the device takes no SPIR-V replay_app link NUMBER      two compiled sources, one of which
 * includes a header that the program passes, linked; NUMBER is in the first one's options
 *     replay_app library          the same, but the second one is first made a library
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/spirv_module.h"

static cl_device_id device;
static cl_context context;

static void must(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        fprintf(stderr, "replay_app: %s: %d\n", what, error);
        exit(2);
    }
}

static void open_device(void)
{
    cl_platform_id platform;
    cl_int error;
    must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "clCreateContext");
}

/* ---- programs ---- */

static cl_program with_constant(const char *value)
{
    char version[256] = "";
    cl_int error;
    const cl_uint number = (cl_uint)strtoul(value, NULL, 10);
    clGetDeviceInfo(device, CL_DEVICE_IL_VERSION, sizeof version - 1, version, NULL);
    if (strstr(version, "SPIR-V") == NULL) {
        exit(77);
    }
    cl_program program = clCreateProgramWithIL(context, spirv_module, sizeof spirv_module, &error);
    must(error, "clCreateProgramWithIL");
    must(clSetProgramSpecializationConstant(program, SPIRV_SPEC_ID, sizeof number, &number),
         "clSetProgramSpecializationConstant");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    return program;
}

static cl_program compile(const char *source, const char *options, cl_program header)
{
    static const char *name = "passed.h";
    cl_int error;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    must(error, "clCreateProgramWithSource");
    if (options != NULL) {
        must(clCompileProgram(program, 1, &device, options, header != NULL, header ? &header : NULL,
                              header ? &name : NULL, NULL, NULL),
             "clCompileProgram");
    }
    return program;
}

static cl_program link_all(const char *options, cl_uint count, const cl_program *inputs)
{
    cl_int error;
    cl_program linked =
        clLinkProgram(context, 1, &device, options, count, inputs, NULL, NULL, &error);
    must(error, "clLinkProgram");
    return linked;
}

static cl_program linked(const char *number, int as_library)
{
    char options[64];
    snprintf(options, sizeof options, "-DNUMBER=%s", number);
    cl_program header = compile("int other(int);\n#define MORE 30\n", NULL, NULL);
    cl_program inputs[] = {compile("#include \"passed.h\"\n"
                                   "__kernel void f(__global int *out)\n"
                                   "{ *out = other(NUMBER) + MORE; }\n",
                                   options, header),
                           compile("int other(int n) { return 100 * n; }\n", "", NULL)};
    if (as_library) {
        inputs[1] = link_all("-create-library", 1, &inputs[1]);
    }
    return link_all("", 2, inputs);
}

/* ---- results ---- */

static void ask_for_binary(cl_program program)
{
    size_t size = 0;
    must(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL), "size");
    unsigned char *binary = malloc(size + 1);
    must(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL), "binary");
    free(binary);
}

static cl_int run(cl_program program)
{
    const size_t items = 1;
    cl_int error, result = 0;
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    must(error, "queue");
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof result, NULL, &error);
    must(error, "clCreateBuffer");
    cl_kernel kernel = clCreateKernel(program, "f", &error);
    must(error, "clCreateKernel");
    must(clSetKernelArg(kernel, 0, sizeof out, &out), "clSetKernelArg");
    must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "launch");
    must(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof result, &result, 0, NULL, NULL),
         "read");
    return result;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *number = argc > 2 ? argv[2] : "7";
    open_device();
    cl_program program = strcmp(mode, "constants") == 0
                             ? with_constant(number)
                             : linked(number, strcmp(mode, "library") == 0);
    ask_for_binary(program);
    printf("%d\n", run(program));
    return 0;
}
