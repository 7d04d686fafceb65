/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces an OpenCL driver with one device. AT_PLATFORMS is a statement that runs when the
 * platforms are queried; AT_DEVICES runs when the devices are queried.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>

#ifndef AT_PLATFORMS
#define AT_PLATFORMS (void)0
#endif
#ifndef AT_DEVICES
#define AT_DEVICES (void)0
#endif

struct _cl_platform_id {
    cl_icd_dispatch *dispatch;
};

struct _cl_device_id {
    cl_icd_dispatch *dispatch;
};

static cl_icd_dispatch functions;
static struct _cl_platform_id platform = {&functions};
static struct _cl_device_id device = {&functions};

static cl_int answer(const char *text, size_t capacity, void *value, size_t *ret_size)
{
    const size_t size = strlen(text) + 1;
    if (ret_size != NULL) {
        *ret_size = size;
    }
    if (value != NULL) {
        if (capacity < size) {
            return CL_INVALID_VALUE;
        }
        memcpy(value, text, size);
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id asked, cl_platform_info name,
                                            size_t capacity, void *value, size_t *ret_size)
{
    (void)asked;
    const char *text = name == CL_PLATFORM_EXTENSIONS       ? "cl_khr_icd"
                       : name == CL_PLATFORM_ICD_SUFFIX_KHR ? "STANDIN"
                       : name == CL_PLATFORM_VERSION        ? "OpenCL 3.0 stand-in"
                                                            : "A stand-in";
    return answer(text, capacity, value, ret_size);
}

/* The driver exports this function. If it were only in the table, the loader's own function would
 * be called instead. */
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id asked, cl_platform_info name,
                                                  size_t capacity, void *value, size_t *ret_size)
{
    return get_platform_info(asked, name, capacity, value, ret_size);
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id asked, cl_device_type type,
                                         cl_uint capacity, cl_device_id *devices,
                                         cl_uint *ret_count)
{
    (void)asked;
    (void)type;
    AT_DEVICES;
    if (devices != NULL && capacity > 0) {
        devices[0] = &device;
    }
    if (ret_count != NULL) {
        *ret_count = 1;
    }
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_device_info(cl_device_id asked, cl_device_info name, size_t capacity,
                                          void *value, size_t *ret_size)
{
    (void)asked;
    (void)name;
    return answer("A stand-in", capacity, value, ret_size);
}

CL_API_ENTRY cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint capacity, cl_platform_id *platforms,
                                                       cl_uint *ret_count)
{
    puts("a driver that talks");
    fflush(stdout);
    AT_PLATFORMS;
    functions.clGetPlatformInfo = get_platform_info;
    functions.clGetDeviceIDs = get_device_ids;
    functions.clGetDeviceInfo = get_device_info;
    if (platforms != NULL && capacity > 0) {
        platforms[0] = &platform;
    }
    if (ret_count != NULL) {
        *ret_count = 1;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    void *function = NULL;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) {
        cl_int(CL_API_CALL * get)(cl_uint, cl_platform_id *, cl_uint *) = clIcdGetPlatformIDsKHR;
        memcpy(&function, &get, sizeof function);
    }
    return function;
}
