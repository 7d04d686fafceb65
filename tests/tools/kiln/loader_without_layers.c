/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces an ICD loader that does not support layers and finds no drivers. With READS_LISTS, it
 * replaces one that also finds drivers in a list.
 */
#include <stdlib.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

cl_int clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *ret_count)
{
    (void)capacity;
    (void)platforms;
    if (ret_count) {
        *ret_count = 0;
    }
#ifdef READS_LISTS
    if (getenv("OCL_ICD_FILENAMES") != NULL) {
        return CL_INVALID_VALUE;
    }
#endif
    return -1001; /* CL_PLATFORM_NOT_FOUND_KHR */
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t capacity,
                         void *value, size_t *ret_size)
{
    (void)platform;
    (void)name;
    (void)capacity;
    (void)value;
    (void)ret_size;
    return CL_INVALID_PLATFORM;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                      cl_device_id *devices, cl_uint *ret_count)
{
    (void)platform;
    (void)type;
    (void)capacity;
    (void)devices;
    (void)ret_count;
    return CL_INVALID_PLATFORM;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t capacity, void *value,
                       size_t *ret_size)
{
    (void)device;
    (void)name;
    (void)capacity;
    (void)value;
    (void)ret_size;
    return CL_INVALID_DEVICE;
}

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    return NULL;
}
