/* SPDX-License-Identifier: Apache-2.0 */
#include "compute.h"

#include <stdio.h>
#include <stdlib.h>

void require(kiln_status status, const kiln_error *error, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s\n", what, error ? error->text : kiln_status_text(status));
        exit(1);
    }
}

static void require_cl(cl_int answer, const char *what)
{
    if (answer != CL_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)answer);
        exit(1);
    }
}

void compute_open(kiln_store *store, compute *ret_compute)
{
    compute on = {0};
    cl_platform_id platform = NULL;
    cl_int answer = CL_SUCCESS;
    kiln_error error = {.struct_size = sizeof error};
    require_cl(clGetPlatformIDs(1, &platform, NULL), "platforms");
    require_cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &on.id, NULL), "devices");
    on.context = clCreateContext(NULL, 1, &on.id, NULL, NULL, &answer);
    require_cl(answer, "context");
    on.queue = clCreateCommandQueue(on.context, on.id, 0, &answer);
    require_cl(answer, "queue");

    require(kiln_opencl_device_new(on.context, on.id, NULL, &on.device, &error), &error, "device");
    void *devices[] = {on.device};
    const kiln_program_context_params params = {
        .struct_size = sizeof params,
        .ops = kiln_opencl_ops(on.device),
        .devices = devices,
        .device_count = 1,
        .store = store,
    };
    require(kiln_program_context_new(&params, &on.programs), NULL, "programs");
    *ret_compute = on;
}

void compute_close(compute *on)
{
    kiln_program_context_free(&on->programs);
    kiln_opencl_device_free(&on->device);
    clReleaseCommandQueue(on->queue);
    clReleaseContext(on->context);
}

const char *compute_source_text(const kiln_program_result *result)
{
    switch (result->from) {
    case KILN_PROGRAM_FROM_MEMORY:
        return "found in memory";
    case KILN_PROGRAM_FROM_STORE:
        return "found on disk";
    case KILN_PROGRAM_FROM_BLOB:
        return "made from its blob";
    default:
        return "built";
    }
}

void compute_run(const compute *on, cl_kernel kernel, float *data, size_t count)
{
    const size_t size = count * sizeof *data;
    cl_int answer = CL_SUCCESS;
    cl_mem buffer =
        clCreateBuffer(on->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size, data, &answer);
    require_cl(answer, "buffer");
    require_cl(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "argument");
    require_cl(clEnqueueNDRangeKernel(on->queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL),
               "launch");
    require_cl(clEnqueueReadBuffer(on->queue, buffer, CL_TRUE, 0, size, data, 0, NULL, NULL),
               "result");
    clReleaseMemObject(buffer);
}
