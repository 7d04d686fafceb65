/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the programs of a job (job.h) with the first OpenCL platform and writes a line for each,
 * with statuses, log, options, kernels and their properties, the binaries if they are requested,
 * and the results of the kernels. Further steps:
 *
 *     device root|sub|subs     the whole device; its first sub-device of one unit; its first two
 *     binaries 0|1|2           not requested; requested but ignored; compared
 *     source, il, options, constant, header, header.content, link    describe a program
 *     run                      builds it
 *
 * Each kernel takes one buffer and runs on four work-items.
 */
#define CL_TARGET_OPENCL_VERSION 220
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

enum { DEVICE_MAX = 2, HEADER_MAX = 16, CONSTANT_MAX = 8, BUFFER_SIZE = 4096, ITEM_COUNT = 4 };

static cl_device_id devices[DEVICE_MAX];
static cl_uint device_count;
static cl_context context;
static int binaries;

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        char text[32];
        snprintf(text, sizeof text, "%d", status);
        job_fail(what, text);
    }
}

static void open_devices(const char *which)
{
    cl_platform_id platform;
    cl_device_id root;
    check(clGetPlatformIDs(1, &platform, NULL), "no platform");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &root, NULL), "no device");
    devices[0] = root;
    device_count = 1;
    if (strcmp(which, "root") != 0) {
        const cl_device_partition_property one_unit[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
        cl_device_id parts[256];
        cl_uint count = 0;
        check(clCreateSubDevices(root, one_unit, 256, parts, &count), "clCreateSubDevices");
        device_count = strcmp(which, "subs") == 0 && count > 1 ? 2 : 1;
        memcpy(devices, parts, device_count * sizeof *parts);
    }
    cl_int status = CL_SUCCESS;
    context = clCreateContext(NULL, device_count, devices, NULL, NULL, &status);
    check(status, "clCreateContext");
}

/* The program being described. */
static struct {
    const char *source, *options;
    const char *il;
    size_t il_size;
    const char *header_names[HEADER_MAX], *headers[HEADER_MAX];
    cl_uint header_count;
    struct {
        cl_uint id, value;
    } constants[CONSTANT_MAX];
    cl_uint constant_count;
    bool link;
} described;

static bool describe(const job_step *step)
{
    if (job_is(step, "source")) {
        described.source = step->bytes;
    } else if (job_is(step, "il")) {
        described.il = step->bytes;
        described.il_size = step->size;
    } else if (job_is(step, "options")) {
        described.options = step->bytes;
    } else if (job_is(step, "link")) {
        described.link = true;
    } else if (job_is(step, "header") && described.header_count < HEADER_MAX) {
        described.header_names[described.header_count++] = step->bytes;
    } else if (job_is(step, "header.content") && described.header_count > 0) {
        described.headers[described.header_count - 1] = step->bytes;
    } else if (job_is(step, "constant") && described.constant_count < CONSTANT_MAX) {
        char *end;
        const cl_uint id = (cl_uint)strtoul(step->bytes, &end, 10);
        described.constants[described.constant_count].id = id;
        described.constants[described.constant_count++].value = (cl_uint)strtoul(end, NULL, 10);
    } else {
        return false;
    }
    return true;
}

/* ---- queries ---- */

static void add_build_text(cl_program program, cl_device_id device, cl_program_build_info what,
                           const char *name)
{
    size_t size = 0;
    cl_int status = clGetProgramBuildInfo(program, device, what, 0, NULL, &size);
    char *text = status == CL_SUCCESS ? calloc(1, size + 1) : NULL;
    if (text) {
        status = clGetProgramBuildInfo(program, device, what, size, text, NULL);
    }
    if (text && status == CL_SUCCESS) {
        job_add_bytes(name, text,
                      what == CL_PROGRAM_BUILD_LOG ? job_normalize_log(text, size) : size);
    } else {
        job_add_number(name, status);
    }
    free(text);
}

static void add_build(cl_program program)
{
    for (cl_uint i = 0; i < device_count; i++) {
        cl_build_status built = 1;
        cl_program_binary_type type = 0;
        clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_STATUS, sizeof built, &built,
                              NULL);
        clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BINARY_TYPE, sizeof type, &type,
                              NULL);
        job_add_number("status", built);
        job_add_number("type", type);
        add_build_text(program, devices[i], CL_PROGRAM_BUILD_OPTIONS, "options");
        add_build_text(program, devices[i], CL_PROGRAM_BUILD_LOG, "log");
    }
}

static void add_binaries(cl_program program)
{
    size_t sizes[DEVICE_MAX] = {0};
    unsigned char *bytes[DEVICE_MAX] = {NULL};
    cl_int status = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL);
    for (cl_uint i = 0; i < device_count && status == CL_SUCCESS; i++) {
        bytes[i] = calloc(1, sizes[i] + 1);
    }
    if (status == CL_SUCCESS) {
        status = clGetProgramInfo(program, CL_PROGRAM_BINARIES, device_count * sizeof *bytes, bytes,
                                  NULL);
    }
    if (binaries == 2) {
        job_add_number("binaries", status);
        for (cl_uint i = 0; i < device_count && status == CL_SUCCESS; i++) {
            job_add_bytes("binary", bytes[i], sizes[i]);
        }
    }
    for (cl_uint i = 0; i < device_count; i++) {
        free(bytes[i]);
    }
}

static void add_arguments(cl_kernel kernel)
{
    cl_uint count = 0;
    clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL);
    job_add_number("arguments", (long)count);
    for (cl_uint i = 0; i < count; i++) {
        char text[256] = "";
        cl_int status = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof text, text, NULL);
        job_add_number("argument", status);
        if (status == CL_SUCCESS) {
            job_add_bytes("argument.name", text, strlen(text));
        }
        status = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof text, text, NULL);
        if (status == CL_SUCCESS) {
            job_add_bytes("argument.type", text, strlen(text));
        }
    }
    char attributes[1024] = "";
    const cl_int status =
        clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, sizeof attributes, attributes, NULL);
    if (status == CL_SUCCESS) {
        job_add_bytes("attributes", attributes, strlen(attributes));
    } else {
        job_add_number("attributes", status);
    }
    for (cl_uint i = 0; i < device_count; i++) {
        size_t group[3] = {0};
        clGetKernelWorkGroupInfo(kernel, devices[i], CL_KERNEL_COMPILE_WORK_GROUP_SIZE,
                                 sizeof group, group, NULL);
        job_add_bytes("group", group, sizeof group);
    }
}

/* Runs a kernel on the first device. */
static void add_computed(cl_kernel kernel)
{
    cl_int status = CL_SUCCESS;
    static unsigned char bytes[BUFFER_SIZE];
    const size_t items = ITEM_COUNT;
    memset(bytes, 0, sizeof bytes);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof bytes,
                                   bytes, &status);
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, devices[0], NULL, &status);
    check(status, "clCreateCommandQueueWithProperties");
    status = clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    if (status == CL_SUCCESS) {
        status = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
    }
    if (status == CL_SUCCESS) {
        status = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL, NULL);
    }
    job_add_number("ran", status);
    job_add_bytes("computed", bytes, sizeof bytes);
    clReleaseCommandQueue(queue);
    clReleaseMemObject(buffer);
}

static void add_kernels(cl_program program)
{
    cl_kernel kernels[32];
    cl_uint count = 0;
    const cl_int status = clCreateKernelsInProgram(program, 32, kernels, &count);
    job_add_number("kernels", status);
    for (cl_uint i = 0; status == CL_SUCCESS && i < count; i++) {
        char name[256] = "";
        clGetKernelInfo(kernels[i], CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
        job_add_bytes("kernel", name, strlen(name));
        add_arguments(kernels[i]);
        add_computed(kernels[i]);
        clReleaseKernel(kernels[i]);
    }
}

/* ---- a program ---- */

static cl_program create_from_text(const char *text)
{
    cl_int status = CL_SUCCESS;
    cl_program made = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    job_add_number("create", status);
    return made;
}

static cl_program create(void)
{
    if (!described.il) {
        return create_from_text(described.source);
    }
    cl_int status = CL_SUCCESS;
    cl_program made = clCreateProgramWithIL(context, described.il, described.il_size, &status);
    job_add_number("create", status);
    for (cl_uint i = 0; made && i < described.constant_count; i++) {
        status = clSetProgramSpecializationConstant(made, described.constants[i].id,
                                                    sizeof(cl_uint), &described.constants[i].value);
        job_add_number("constant", status);
    }
    return made;
}

/* Compiles and links, which replaces the program with the linked one. */
static cl_program compile_and_link(cl_program source)
{
    cl_program headers[HEADER_MAX] = {NULL};
    for (cl_uint i = 0; i < described.header_count; i++) {
        headers[i] = clCreateProgramWithSource(context, 1, &described.headers[i], NULL, NULL);
    }
    cl_int status =
        clCompileProgram(source, device_count, devices, described.options, described.header_count,
                         described.header_count ? headers : NULL,
                         described.header_count ? described.header_names : NULL, NULL, NULL);
    job_add_number("compile", status);
    add_build(source);
    cl_program linked = NULL;
    if (status == CL_SUCCESS) {
        linked = clLinkProgram(context, device_count, devices, "", 1, &source, NULL, NULL, &status);
        job_add_number("link", status);
    }
    for (cl_uint i = 0; i < described.header_count; i++) {
        clReleaseProgram(headers[i]);
    }
    clReleaseProgram(source);
    return linked;
}

static void build(void)
{
    job_begin_line();
    cl_program program = create();
    cl_int status = CL_SUCCESS;
    if (program && described.link) {
        program = compile_and_link(program);
    } else if (program) {
        status = clBuildProgram(program, device_count, devices, described.options, NULL, NULL);
        job_add_number("build", status);
    }
    if (program) {
        add_build(program);
        if (status == CL_SUCCESS) {
            if (binaries) {
                add_binaries(program);
            }
            add_kernels(program);
        }
        clReleaseProgram(program);
    }
    job_end_line();
}

int main(void)
{
    job_step step;
    job_read();
    while (job_next(&step)) {
        if (job_is(&step, "device")) {
            open_devices(step.bytes);
        } else if (job_is(&step, "binaries")) {
            binaries = step.bytes[0] - '0';
        } else if (job_is(&step, "run")) {
            job_call(build);
            memset(&described, 0, sizeof described);
        } else if (!job_change_world(&step) && !describe(&step)) {
            job_fail("no such step", step.name);
        }
    }
    return 0;
}
