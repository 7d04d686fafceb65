/* SPDX-License-Identifier: Apache-2.0 */
#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void require(cl_int status, const char *call)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "three_programs: %s returned %d\n", call, status);
        exit(1);
    }
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int platform_matches(cl_platform_id platform, const char *wanted)
{
    char name[256];
    require(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL),
            "clGetPlatformInfo");
    return wanted == NULL || strstr(name, wanted) != NULL;
}

static cl_device_id first_device(const char *wanted)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device;
    require(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        if (platform_matches(platforms[i], wanted) &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) {
            return device;
        }
    }
    fprintf(stderr, "three_programs: no device of a platform like '%s'\n", wanted ? wanted : "");
    exit(1);
}

void example_open(example *self, const char *platform)
{
    cl_int status;
    self->device = first_device(platform);
    self->context = clCreateContext(NULL, 1, &self->device, NULL, NULL, &status);
    require(status, "clCreateContext");
    self->queue = clCreateCommandQueue(self->context, self->device, 0, &status);
    require(status, "clCreateCommandQueue");
}

void example_close(example *self)
{
    clReleaseCommandQueue(self->queue);
    clReleaseContext(self->context);
}

/* Returns the file's text, which the caller frees. */
static char *read_source(const char *folder, const char *file)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "r");
    char *text = NULL;
    size_t capacity = 0;
    if (stream == NULL || getdelim(&text, &capacity, '\0', stream) < 0) {
        fprintf(stderr, "three_programs: can't read %s\n", path);
        exit(1);
    }
    fclose(stream);
    return text;
}

static void print_log(cl_program program, cl_device_id device)
{
    char log[16384] = "";
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    fprintf(stderr, "%s\n", log);
}

cl_program example_build(example *self, const char *file, const char *options)
{
    char *source = read_source(self->kernel_folder, file);
    const uint64_t start = now_ns();
    cl_int status;
    cl_program program =
        clCreateProgramWithSource(self->context, 1, (const char *[]){source}, NULL, &status);
    require(status, "clCreateProgramWithSource");
    status = clBuildProgram(program, 1, &self->device, options, NULL, NULL);
    self->build_ns += now_ns() - start;
    if (status == CL_BUILD_PROGRAM_FAILURE) {
        print_log(program, self->device);
    }
    require(status, "clBuildProgram");
    free(source);
    return program;
}

cl_kernel example_kernel(example *self, cl_program program, const char *name)
{
    const uint64_t start = now_ns();
    cl_int status;
    cl_kernel kernel = clCreateKernel(program, name, &status);
    require(status, "clCreateKernel");
    self->build_ns += now_ns() - start;
    return kernel;
}

cl_mem example_buffer(const example *self, const void *content, size_t size)
{
    cl_int status;
    cl_mem buffer = clCreateBuffer(self->context, CL_MEM_READ_WRITE, size, NULL, &status);
    require(status, "clCreateBuffer");
    if (content != NULL) {
        require(clEnqueueWriteBuffer(self->queue, buffer, CL_TRUE, 0, size, content, 0, NULL, NULL),
                "clEnqueueWriteBuffer");
    }
    return buffer;
}

void example_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    require(clSetKernelArg(kernel, index, size, value), "clSetKernelArg");
}

void example_launch(example *self, cl_kernel kernel, const size_t global[2], const size_t local[2])
{
    const uint64_t start = now_ns();
    require(clEnqueueNDRangeKernel(self->queue, kernel, 2, NULL, global, local, 0, NULL, NULL),
            "clEnqueueNDRangeKernel");
    require(clFinish(self->queue), "clFinish");
    self->launch_ns += now_ns() - start;
}

void example_read(const example *self, cl_mem buffer, void *content, size_t size)
{
    require(clEnqueueReadBuffer(self->queue, buffer, CL_TRUE, 0, size, content, 0, NULL, NULL),
            "clEnqueueReadBuffer");
}
