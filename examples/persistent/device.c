/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#define ITEMS 1000

const char device_source[] = "kernel void polynomial(global const float *x, global float *y)\n"
                             "{\n"
                             "    const size_t i = get_global_id(0);\n"
                             "    y[i] = ((A * x[i] + 3.0f) * x[i] - 5.0f) * x[i] + 7.0f;\n"
                             "}\n";
const char device_options[] = "-D A=2.0f";

static void require(cl_int error, const char *what)
{
    if (error != CL_SUCCESS) {
        fprintf(stderr, "%s: error %d of OpenCL\n", what, (int)error);
        exit(1);
    }
}

static void *require_memory(void *memory)
{
    if (!memory) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void device_open(compute_device *ret_device)
{
    cl_int error = CL_SUCCESS;
    compute_device opened = {0};
    cl_device_type type = 0;
    require(clGetPlatformIDs(1, &opened.platform, NULL), "no platform");
    require(clGetDeviceIDs(opened.platform, CL_DEVICE_TYPE_ALL, 1, &opened.id, NULL), "no device");
    require(clGetDeviceInfo(opened.id, CL_DEVICE_TYPE, sizeof type, &type, NULL), "device type");
    opened.is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    opened.context = clCreateContext(NULL, 1, &opened.id, NULL, NULL, &error);
    require(error, "context");
    opened.queue = clCreateCommandQueue(opened.context, opened.id, 0, &error);
    require(error, "queue");
    *ret_device = opened;
}

void device_close(compute_device *device)
{
    clReleaseCommandQueue(device->queue);
    clReleaseContext(device->context);
}

char *device_platform_text(const compute_device *device, cl_platform_info what)
{
    size_t size = 0;
    require(clGetPlatformInfo(device->platform, what, 0, NULL, &size), "platform");
    char *text = require_memory(calloc(1, size + 1));
    require(clGetPlatformInfo(device->platform, what, size, text, NULL), "platform");
    return text;
}

char *device_text(const compute_device *device, cl_device_info what)
{
    size_t size = 0;
    require(clGetDeviceInfo(device->id, what, 0, NULL, &size), "device");
    char *text = require_memory(calloc(1, size + 1));
    require(clGetDeviceInfo(device->id, what, size, text, NULL), "device");
    return text;
}

/* Takes ownership of the program. */
static cl_program finish(const compute_device *device, cl_program program)
{
    if (clBuildProgram(program, 1, &device->id, device_options, NULL, NULL) == CL_SUCCESS) {
        return program;
    }
    clReleaseProgram(program);
    return NULL;
}

cl_program device_build(const compute_device *device)
{
    const char *text = device_source;
    cl_int error = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(device->context, 1, &text, NULL, &error);
    return program ? finish(device, program) : NULL;
}

cl_program device_load(const compute_device *device, const void *bytes, size_t size)
{
    const unsigned char *binary = bytes;
    cl_int error = CL_SUCCESS, state = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(device->context, 1, &device->id, &size, &binary, &state, &error);
    return program ? finish(device, program) : NULL;
}

void *device_binary(cl_program program, size_t *ret_size)
{
    size_t size = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) !=
            CL_SUCCESS ||
        size == 0) {
        return NULL;
    }
    unsigned char *bytes = require_memory(malloc(size));
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) != CL_SUCCESS) {
        free(bytes);
        return NULL;
    }
    *ret_size = size;
    return bytes;
}

static float expected(float x)
{
    return ((2.0f * x + 3.0f) * x - 5.0f) * x + 7.0f;
}

/* All numbers are small integers, so the result is exact in any order. */
static int is_right(const float *y)
{
    for (int i = 0; i < ITEMS; i++) {
        if (y[i] != expected((float)(i % 50))) {
            return 0;
        }
    }
    return 1;
}

int device_computes(const compute_device *device, cl_program program)
{
    float numbers[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        numbers[i] = (float)(i % 50);
    }
    cl_int error = CL_SUCCESS;
    cl_kernel kernel = clCreateKernel(program, "polynomial", &error);
    require(error, "kernel");
    cl_mem x = clCreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                              sizeof numbers, numbers, &error);
    require(error, "buffer");
    cl_mem y = clCreateBuffer(device->context, CL_MEM_WRITE_ONLY, sizeof numbers, NULL, &error);
    require(error, "buffer");
    const size_t items = ITEMS;
    require(clSetKernelArg(kernel, 0, sizeof x, &x), "argument");
    require(clSetKernelArg(kernel, 1, sizeof y, &y), "argument");
    require(clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
            "launch");
    require(
        clEnqueueReadBuffer(device->queue, y, CL_TRUE, 0, sizeof numbers, numbers, 0, NULL, NULL),
        "read");
    clReleaseMemObject(x);
    clReleaseMemObject(y);
    clReleaseKernel(kernel);
    return is_right(numbers);
}
