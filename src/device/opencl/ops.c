/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/ops.h"

#include <stdlib.h>

#include "base/error.h"
#include "device/opencl/binary.h"
#include "device/opencl/identity.h"
#include "device/opencl/inputs.h"

static kiln_status identity(void *device, kiln_key_builder *key)
{
    const kilni_opencl_device *d = device;
    return kilni_opencl_add_identity(d->cl, d->device, key, NULL);
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    const kilni_opencl_device *d = device;
    cl_platform_id platform = NULL;
    if (d->cl->clGetDeviceInfo(d->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
        CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the device names no platform");
    }
    char *name = kilni_opencl_platform_string(d->cl, platform, CL_PLATFORM_NAME);
    if (!name) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = kilni_opencl_add_environment(name, d->environment, key, error);
    free(name);
    return status == KILN_OK ? kilni_opencl_add_inputs(source, key, error) : status;
}

static cl_program create(const kilni_opencl_device *d, const kiln_program_source *source,
                         cl_int *ret_error)
{
    *ret_error = CL_INVALID_OPERATION;
    if (source->form == KILN_SOURCE_TEXT) {
        /* OpenCL takes a length of 0 for text up to a zero byte. */
        const char *text = source->code.size > 0 ? source->code.data : "";
        return d->cl->clCreateProgramWithSource(d->context, 1, &text, &source->code.size,
                                                ret_error);
    }
    return d->cl->clCreateProgramWithIL
               ? d->cl->clCreateProgramWithIL(d->context, source->code.data, source->code.size,
                                              ret_error)
               : NULL;
}

/* Only what the source itself is to blame for is an answer for all who ask. */
static kiln_status status_of_build(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return KILN_OK;
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return KILN_E_RESOURCES;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_VALUE:
        return KILN_E_BUILD;
    default:
        return KILN_E_IO;
    }
}

static char *build_log(const kilni_opencl_device *d, cl_program program)
{
    size_t size = 0;
    d->cl->clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log) {
        d->cl->clGetProgramBuildInfo(program, d->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    }
    return log;
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    cl_program program = create(d, source, &error);
    if (error != CL_SUCCESS) {
        return status_of_build(error);
    }
    const kiln_status status =
        status_of_build(d->cl->clBuildProgram(program, 1, &d->device, source->options, NULL, NULL));
    if (status == KILN_OK) {
        *ret_program = program;
        return KILN_OK;
    }
    *ret_log = build_log(d, program);
    d->cl->clReleaseProgram(program);
    return status;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    const kilni_opencl_device *d = device;
    return kilni_opencl_take(d->cl, program, d->device, ret_capture);
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    const kilni_opencl_device *d = device;
    cl_program program = NULL;
    const kiln_status status =
        kilni_opencl_load(d->cl, d->context, 1, &d->device, &entry, source->options, &program);
    if (status == KILN_OK) {
        *ret_program = program;
    }
    return status;
}

static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    cl_kernel made = d->cl->clCreateKernel(program, name, &error);
    if (error == CL_SUCCESS) {
        *ret_kernel = made;
        return KILN_OK;
    }
    return error == CL_INVALID_KERNEL_NAME ? KILN_MISS : status_of_build(error);
}

static void release_program(void *device, void *program)
{
    const kilni_opencl_device *d = device;
    d->cl->clReleaseProgram(program);
}

static void release_kernel(void *device, void *held_kernel)
{
    const kilni_opencl_device *d = device;
    d->cl->clReleaseKernel(held_kernel);
}

/* Devices of different contexts never share live programs; equal devices share entries, by key. */
static int interchangeable(void *device, void *other)
{
    const kilni_opencl_device *a = device, *b = other;
    return a->context == b->context && a->device == b->device;
}

#define OPS(cost)                                                                                  \
    {                                                                                              \
        .struct_size = sizeof(kiln_device_ops), .name = "opencl", .capture_cost = (cost),          \
        .identity = identity, .describe = describe, .build = build, .capture = capture,            \
        .load = load, .kernel = kernel, .release_program = release_program,                        \
        .release_kernel = release_kernel, .interchangeable = interchangeable,                      \
    }

const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost)
{
    static const kiln_device_ops cheap = OPS(KILN_CAPTURE_CHEAP), dear = OPS(KILN_CAPTURE_DEAR),
                                 never = OPS(KILN_CAPTURE_NEVER);
    return capture_cost == KILN_CAPTURE_CHEAP  ? &cheap
           : capture_cost == KILN_CAPTURE_DEAR ? &dear
                                               : &never;
}
