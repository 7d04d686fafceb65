/* SPDX-License-Identifier: Apache-2.0
 *
 * The contexts, queues, programs and kernels that most cases need.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

conformance_setting setting;

int runtime_is_pocl(void)
{
    return strcmp(setting.platform_name, "Portable Computing Language") == 0;
}

int runtime_is_intel(void)
{
    return strncmp(setting.platform_name, "Intel(R) OpenCL", 15) == 0;
}

static void require(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "opencl_conformance: %s: %s\n", what, status_name(status));
        exit(2);
    }
}

cl_command_queue queue_open(cl_context context, cl_device_id device)
{
    cl_int status;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    require(status, "clCreateCommandQueue");
    return queue;
}

scene scene_open_on(cl_device_id device)
{
    cl_int status;
    scene opened = {.device = device};
    opened.context = clCreateContext(NULL, 1, &opened.device, NULL, NULL, &status);
    require(status, "clCreateContext");
    opened.queue = queue_open(opened.context, opened.device);
    name_handle(opened.context, "C");
    return opened;
}

scene scene_open(void)
{
    return scene_open_on(setting.device);
}

void scene_close(scene *opened)
{
    require(clFinish(opened->queue), "clFinish");
    require(clReleaseCommandQueue(opened->queue), "clReleaseCommandQueue");
    require(clReleaseContext(opened->context), "clReleaseContext");
}

cl_uint split_device(cl_device_id ret_devices[2])
{
    const cl_device_partition_property by_counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 1,
                                                      CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_uint count = 0;
    cl_int status = clCreateSubDevices(setting.device, by_counts, 2, ret_devices, &count);
    say_status(status, "clCreateSubDevices by counts 1, 1 gives %u",
               status == CL_SUCCESS ? count : 0);
    if (status != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < count; i++) {
        name_handle(ret_devices[i], "D%u", i + 1);
    }
    return count;
}

cl_program program_of(cl_context context, const char *source, const char *name)
{
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    if (status != CL_SUCCESS) {
        say_status(status, "create %s", name);
        return NULL;
    }
    name_handle(program, "%s", name);
    return program;
}

cl_int build(cl_program program, const char *options)
{
    cl_int status = clBuildProgram(program, 0, NULL, options, NULL, NULL);
    say_status(status, "build %s with %s%s%s", handle_name(program), options != NULL ? "'" : "",
               options != NULL ? options : "NULL", options != NULL ? "'" : "");
    return status;
}

cl_kernel kernel_of(cl_program program, const char *function, const char *name)
{
    cl_int status;
    cl_kernel kernel = clCreateKernel(program, function, &status);
    say_status(status, "create kernel %s of %s", function, handle_name(program));
    if (status != CL_SUCCESS) {
        check(kernel == NULL, "no kernel comes with an error");
        return NULL;
    }
    name_handle(kernel, "%s", name);
    return kernel;
}

static cl_uint queue_references(cl_command_queue queue)
{
    cl_uint count = 0;
    clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL);
    return count;
}

/* Reference counts before a command. */
typedef struct holdings {
    cl_kernel kernel;
    cl_program program;
    cl_context context;
    cl_command_queue queue;
    cl_uint of_kernel;
    cl_uint of_program;
    cl_uint of_context;
    cl_uint of_queue;
} holdings;

static holdings holdings_of(cl_context context, cl_command_queue queue, cl_kernel kernel)
{
    cl_program program = NULL;
    clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);
    return (holdings){.kernel = kernel,
                      .program = program,
                      .context = context,
                      .queue = queue,
                      .of_kernel = kernel_references(kernel),
                      .of_program = program_references(program),
                      .of_context = context_references(context),
                      .of_queue = queue_references(queue)};
}

/* Waits until the reference counts are the same as before: PoCL reports a command as complete
 * shortly before it releases the command's references, and the cases print reference counts. */
static void settle(const holdings *before)
{
    enum { ROUNDS = 2000, ROUND_US = 1000 };
    for (int i = 0; i < ROUNDS && (kernel_references(before->kernel) > before->of_kernel ||
                                   program_references(before->program) > before->of_program ||
                                   context_references(before->context) > before->of_context ||
                                   queue_references(before->queue) > before->of_queue);
         i++) {
        usleep(ROUND_US);
    }
}

static cl_int run_in_queue(cl_context context, cl_command_queue queue, cl_kernel kernel,
                           int ret_values[ITEMS])
{
    cl_int status;
    const size_t items = ITEMS;
    int zeros[ITEMS] = {0};
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros,
                                   zeros, &status);
    if (status != CL_SUCCESS) {
        return status;
    }
    status = clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    if (status == CL_SUCCESS) {
        status = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL);
    }
    if (status == CL_SUCCESS) {
        status =
            clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof zeros, ret_values, 0, NULL, NULL);
    }
    clReleaseMemObject(buffer);
    return status;
}

cl_int run_kernel(cl_context context, cl_command_queue queue, cl_kernel kernel,
                  int ret_values[ITEMS])
{
    const holdings before = holdings_of(context, queue, kernel);
    const cl_int status = run_in_queue(context, queue, kernel, ret_values);
    if (!transcript_is_redirected()) {
        settle(&before);
    }
    return status;
}

void check_kernel(const scene *in, cl_kernel kernel, const char *label, int first)
{
    int values[ITEMS] = {0};
    int right = 1;
    cl_int status = run_kernel(in->context, in->queue, kernel, values);
    for (int i = 0; i < ITEMS; i++) {
        right = right && values[i] == first + i;
    }
    check(status == CL_SUCCESS && right, "%s gives %s, %d … %d", label, status_name(status),
          values[0], values[ITEMS - 1]);
}

void check_program(const scene *in, cl_program program, const char *function, int first)
{
    cl_int status;
    char label[64];
    cl_kernel kernel = clCreateKernel(program, function, &status);
    if (status != CL_SUCCESS) {
        check(0, "kernel %s of %s: %s", function, handle_name(program), status_name(status));
        return;
    }
    snprintf(label, sizeof label, "%s of %s", function, handle_name(program));
    check_kernel(in, kernel, label, first);
    clReleaseKernel(kernel);
}

cl_uint program_references(cl_program program)
{
    cl_uint count = 0;
    clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof count, &count, NULL);
    return count;
}

cl_uint kernel_references(cl_kernel kernel)
{
    cl_uint count = 0;
    clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof count, &count, NULL);
    return count;
}

cl_uint context_references(cl_context context)
{
    cl_uint count = 0;
    clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL);
    return count;
}
