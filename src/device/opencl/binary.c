/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/binary.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/opencl/answers.h"
#include "device/opencl/defeating_constant.h"

/* ---- capture ---- */

/* Finds the index of a device among a program's devices. The program's binaries are in the same
 * order. */
static kiln_status find_device(const cl_icd_dispatch *cl, cl_program program, cl_device_id device,
                               size_t *ret_place, size_t *ret_count)
{
    size_t size = 0;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, 0, NULL, &size) != CL_SUCCESS ||
        size == 0) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *devices = malloc(size);
    if (!devices) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_E_UNSUPPORTED;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, size, devices, NULL) == CL_SUCCESS) {
        *ret_count = size / sizeof *devices;
        for (size_t i = 0; i < *ret_count && status != KILN_OK; i++) {
            if (devices[i] == device) {
                *ret_place = i;
                status = KILN_OK;
            }
        }
    }
    free(devices);
    return status;
}

/* Allocates memory for each binary, because some drivers refuse a NULL pointer here, and others
 * write through it. */
static kiln_status make_room(const size_t *sizes, unsigned char **binaries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        binaries[i] = sizes[i] < SIZE_MAX ? malloc(sizes[i] + 1) : NULL;
        if (!binaries[i]) {
            return KILN_E_NO_MEMORY;
        }
    }
    return KILN_OK;
}

static kiln_status take_binary(const cl_icd_dispatch *cl, cl_program program, size_t place,
                               size_t *sizes, unsigned char **binaries, size_t count,
                               void **ret_binary, size_t *ret_size)
{
    if (cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes,
                             NULL) != CL_SUCCESS ||
        sizes[place] == 0) {
        return KILN_E_UNSUPPORTED;
    }
    const kiln_status status = make_room(sizes, binaries, count);
    if (status != KILN_OK) {
        return status;
    }
    if (cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries,
                             NULL) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    *ret_binary = binaries[place];
    *ret_size = sizes[place];
    binaries[place] = NULL;
    return KILN_OK;
}

static kiln_status get_binary(const cl_icd_dispatch *cl, cl_program program, cl_device_id device,
                              void **ret_binary, size_t *ret_size)
{
    size_t place = 0, count = 0;
    kiln_status status = find_device(cl, program, device, &place, &count);
    if (status != KILN_OK) {
        return status;
    }
    size_t *sizes = calloc(count, sizeof *sizes);
    unsigned char **binaries = calloc(count, sizeof *binaries);
    status = KILN_E_NO_MEMORY;
    if (sizes && binaries) {
        status = take_binary(cl, program, place, sizes, binaries, count, ret_binary, ret_size);
    }
    for (size_t i = 0; binaries && i < count; i++) {
        free(binaries[i]);
    }
    free(sizes);
    free(binaries);
    return status;
}

kiln_status kilni_opencl_capture(const cl_icd_dispatch *cl, cl_program program, cl_device_id device,
                                 kiln_capture *ret_capture)
{
    kiln_capture taken = {0};
    kiln_status status = kilni_opencl_answers_record(cl, program, device, &taken.answers,
                                                     &taken.answers_size, &taken.log);
    /* The next build with the same key might have a constant with a different name. */
    if (status == KILN_OK && kilni_opencl_names_defeating_constant(taken.log)) {
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        status = get_binary(cl, program, device, &taken.payload, &taken.payload_size);
    }
    if (status != KILN_OK) {
        kiln_capture_done(&taken);
        return status;
    }
    taken.name = kilni_opencl_kernel_names(cl, program);
    taken.device = kilni_opencl_device_text(cl, device);
    *ret_capture = taken;
    return KILN_OK;
}

/* ---- load ---- */

typedef struct binary_list {
    const unsigned char **binaries;
    size_t *sizes;
    cl_int *statuses;
} binary_list;

static cl_int create(const cl_icd_dispatch *cl, cl_context context, cl_uint count,
                     const cl_device_id *devices, const kiln_bytes *binaries,
                     const binary_list *list, cl_program *ret_program)
{
    for (cl_uint i = 0; i < count; i++) {
        list->binaries[i] = binaries[i].data;
        list->sizes[i] = binaries[i].size;
    }
    cl_int error = CL_SUCCESS;
    *ret_program = cl->clCreateProgramWithBinary(context, count, devices, list->sizes,
                                                 list->binaries, list->statuses, &error);
    return error;
}

/* An error caused by a lack of resources says nothing about the binary. */
static kiln_status status_of_load(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return KILN_OK;
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
        return KILN_E_RESOURCES;
    default:
        return KILN_E_REFUSED;
    }
}

kiln_status kilni_opencl_load(const cl_icd_dispatch *cl, cl_context context, cl_uint device_count,
                              const cl_device_id *devices, const kiln_bytes *binaries,
                              const char *options, cl_program *ret_program)
{
    const binary_list list = {calloc(device_count, sizeof *list.binaries),
                              calloc(device_count, sizeof *list.sizes),
                              calloc(device_count, sizeof *list.statuses)};
    kiln_status status = KILN_E_NO_MEMORY;
    if (list.binaries && list.sizes && list.statuses) {
        cl_program program = NULL;
        cl_int error = create(cl, context, device_count, devices, binaries, &list, &program);
        if (error == CL_SUCCESS) {
            error = cl->clBuildProgram(program, device_count, devices, options, NULL, NULL);
            if (error != CL_SUCCESS) {
                cl->clReleaseProgram(program);
            }
        }
        status = status_of_load(error);
        if (status == KILN_OK) {
            *ret_program = program;
        }
    }
    free(list.binaries);
    free(list.sizes);
    free(list.statuses);
    return status;
}

/* ---- texts ---- */

char *kilni_opencl_device_string(const cl_icd_dispatch *cl, cl_device_id device,
                                 cl_device_info what)
{
    size_t size = 0;
    if (cl->clGetDeviceInfo(device, what, 0, NULL, &size) != CL_SUCCESS) {
        return NULL;
    }
    char *text = calloc(1, size + 1);
    if (text && cl->clGetDeviceInfo(device, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    return text;
}

char *kilni_opencl_platform_string(const cl_icd_dispatch *cl, cl_platform_id platform,
                                   cl_platform_info what)
{
    size_t size = 0;
    if (cl->clGetPlatformInfo(platform, what, 0, NULL, &size) != CL_SUCCESS) {
        return NULL;
    }
    char *text = calloc(1, size + 1);
    if (text && cl->clGetPlatformInfo(platform, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        return NULL;
    }
    return text;
}

char *kilni_opencl_device_text(const cl_icd_dispatch *cl, cl_device_id device)
{
    cl_platform_id platform = NULL;
    if (cl->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) !=
        CL_SUCCESS) {
        return NULL;
    }
    char *platform_name = kilni_opencl_platform_string(cl, platform, CL_PLATFORM_NAME);
    char *name = kilni_opencl_device_string(cl, device, CL_DEVICE_NAME);
    char *driver = kilni_opencl_device_string(cl, device, CL_DRIVER_VERSION);
    kilni_text text = {0};
    const kiln_status status =
        kilni_text_printf(&text, "%s / %s / %s", platform_name ? platform_name : "",
                          name ? name : "", driver ? driver : "");
    free(platform_name);
    free(name);
    free(driver);
    if (status != KILN_OK) {
        kilni_text_done(&text);
        return NULL;
    }
    return text.bytes;
}
