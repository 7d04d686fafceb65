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
    return kilni_opencl_add_identity(d->cl, d->device, NULL, key, NULL);
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    const kilni_opencl_device *d = device;
    cl_platform_id platform = NULL;
    if (d->cl->clGetDeviceInfo(d->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
        CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the device reports no platform");
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
        /* OpenCL takes a length of 0 to mean text that ends with a zero byte. */
        const char *text = source->code.size > 0 ? source->code.data : "";
        return d->cl->clCreateProgramWithSource(d->context, 1, &text, &source->code.size,
                                                ret_error);
    }
    return d->cl->clCreateProgramWithIL
               ? d->cl->clCreateProgramWithIL(d->context, source->code.data, source->code.size,
                                              ret_error)
               : NULL;
}

static cl_int set_constants(const kilni_opencl_device *d, const kiln_program_source *source,
                            cl_program program)
{
    if (source->constant_count > 0 && !d->cl->clSetProgramSpecializationConstant) {
        return CL_INVALID_OPERATION;
    }
    cl_int error = CL_SUCCESS;
    for (size_t i = 0; i < source->constant_count && error == CL_SUCCESS; i++) {
        const kiln_spec_constant *constant = &source->constants[i];
        error = d->cl->clSetProgramSpecializationConstant(
            program, constant->id, constant->value.size, constant->value.data);
    }
    return error;
}

/* Creates a program and sets its constants. */
static cl_program prepare(const kilni_opencl_device *d, const kiln_program_source *source,
                          cl_int *ret_error)
{
    cl_program program = create(d, source, ret_error);
    if (*ret_error == CL_SUCCESS) {
        *ret_error = set_constants(d, source, program);
        if (*ret_error != CL_SUCCESS) {
            d->cl->clReleaseProgram(program);
        }
    }
    return program;
}

/* Returns KILN_E_BUILD only for a failure that the source itself causes, since that is the result
 * for every caller. */
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
    case CL_LINK_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_COMPILER_OPTIONS:
    case CL_INVALID_LINKER_OPTIONS:
    case CL_INVALID_VALUE:
    case CL_INVALID_SPEC_ID:
        return KILN_E_BUILD;
    case CL_COMPILER_NOT_AVAILABLE:
    case CL_LINKER_NOT_AVAILABLE:
        return KILN_E_UNSUPPORTED;
    default:
        return KILN_E_IO;
    }
}

/* Before a build, CL_INVALID_OPERATION means that the driver lacks support for intermediate
 * languages, or for constants in them. */
static kiln_status status_of_preparation(cl_int error)
{
    return error == CL_INVALID_OPERATION ? KILN_E_UNSUPPORTED : status_of_build(error);
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

/* Returns the program that a step made, or the log and status of its failure. */
static kiln_status end_step(const kilni_opencl_device *d, cl_program program, cl_int error,
                            void **ret_program, char **ret_log)
{
    if (error == CL_SUCCESS) {
        *ret_program = program;
        return KILN_OK;
    }
    *ret_log = build_log(d, program);
    d->cl->clReleaseProgram(program);
    return status_of_build(error);
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    cl_program program = prepare(d, source, &error);
    if (error != CL_SUCCESS) {
        return status_of_preparation(error);
    }
    error = d->cl->clBuildProgram(program, 1, &d->device, source->options, NULL, NULL);
    return end_step(d, program, error, ret_program, ret_log);
}

static kiln_status compile(void *device, const kiln_program_source *source, void **ret_object,
                           char **ret_log)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    cl_program program = prepare(d, source, &error);
    if (error != CL_SUCCESS) {
        return status_of_preparation(error);
    }
    error =
        d->cl->clCompileProgram(program, 1, &d->device, source->options, 0, NULL, NULL, NULL, NULL);
    return end_step(d, program, error, ret_object, ret_log);
}

static kiln_status link_objects(void *device, void *const *objects, size_t count,
                                const char *options, void **ret_program, char **ret_log)
{
    const kilni_opencl_device *d = device;
    cl_int error = CL_SUCCESS;
    /* Both types are arrays of handles. */
    cl_program program = d->cl->clLinkProgram(d->context, 1, &d->device, options, (cl_uint)count,
                                              (const cl_program *)objects, NULL, NULL, &error);
    /* A failed link may return a program that has the log. */
    return program ? end_step(d, program, error, ret_program, ret_log) : status_of_build(error);
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    const kilni_opencl_device *d = device;
    return kilni_opencl_capture(d->cl, program, d->device, ret_capture);
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

/* If getting a binary is expensive, so is asking for its size. */
static uint64_t program_bytes(void *device, void *program)
{
    const kilni_opencl_device *d = device;
    cl_uint count = 0;
    size_t size = 0;
    const int has_one_device = d->cl->clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES,
                                                       sizeof count, &count, NULL) == CL_SUCCESS &&
                               count == 1;
    const int is_known =
        has_one_device && d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size,
                                                  &size, NULL) == CL_SUCCESS;
    return is_known ? size : 0;
}

/* Devices of different contexts never share live programs; equal devices share entries, by key. */
static int interchangeable(void *device, void *other)
{
    const kilni_opencl_device *a = device, *b = other;
    return a->context == b->context && a->device == b->device;
}

#define OPS(cost, bytes)                                                                           \
    {                                                                                              \
        .struct_size = sizeof(kiln_device_ops), .name = "opencl", .capture_cost = (cost),          \
        .identity = identity, .describe = describe, .build = build, .capture = capture,            \
        .load = load, .kernel = kernel, .release_program = release_program,                        \
        .release_kernel = release_kernel, .interchangeable = interchangeable, .compile = compile,  \
        .link = link_objects, .program_bytes = (bytes),                                            \
    }

const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost)
{
    static const kiln_device_ops cheap = OPS(KILN_CAPTURE_CHEAP, program_bytes),
                                 dear = OPS(KILN_CAPTURE_DEAR, NULL),
                                 never = OPS(KILN_CAPTURE_NEVER, NULL);
    return capture_cost == KILN_CAPTURE_CHEAP  ? &cheap
           : capture_cost == KILN_CAPTURE_DEAR ? &dear
                                               : &never;
}
