/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads OpenCL as a program gets it, which is the loader with all drivers that it finds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#define OPENCL_LIBRARY "libOpenCL.so.1"
#define OPENCL_PLATFORMS_MAX 64
#define OPENCL_TEXT_SIZE 1024

/* The functions of the loader that the tool calls. Each member has the name of its function. */
typedef struct opencl_functions {
    void *library;
    cl_int (*clGetPlatformIDs)(cl_uint, cl_platform_id *, cl_uint *);
    cl_int (*clGetPlatformInfo)(cl_platform_id, cl_platform_info, size_t, void *, size_t *);
    cl_int (*clGetDeviceIDs)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    cl_int (*clGetDeviceInfo)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    void *(*clGetExtensionFunctionAddress)(const char *);
} opencl_functions;

/* Loads OpenCL, which stays loaded until the tool ends. If it cannot be loaded, returns false and
 * stores the reason. The caller frees the reason.
 *
 * @library  OPENCL_LIBRARY, or a loader's file */
bool opencl_load(const char *library, opencl_functions *ret_opencl, char **ret_why);

/* @ret_platforms  has room for OPENCL_PLATFORMS_MAX
 * Returns the number of platforms. Also returns 0 if the loader fails. */
cl_uint opencl_platforms(const opencl_functions *opencl, cl_platform_id *ret_platforms);

/* @ret_text  has room for OPENCL_TEXT_SIZE bytes; set to "" if the function returns false */
bool opencl_platform_text(const opencl_functions *opencl, cl_platform_id platform,
                          cl_platform_info name, char *ret_text);

#define OPENCL_INSTALLED_UNKNOWN INT64_MIN

/* Returns when the library of a platform's driver was installed, in Unix seconds, or
 * OPENCL_INSTALLED_UNKNOWN. */
int64_t opencl_installed_s(cl_platform_id platform);
