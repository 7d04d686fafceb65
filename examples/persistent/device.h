/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runtime as a library sees it: here OpenCL, with one program that it builds. It does
 * not cache anything.
 */
#pragma once

#include <stddef.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct compute_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    int is_gpu;
} compute_device;

/* The source that is built. */
extern const char device_source[];
extern const char device_options[];

/* Opens the first device of the first platform. A failure ends the program with a message. */
void device_open(compute_device *ret_device);
void device_close(compute_device *device);

/* The text of a CL_PLATFORM_… or CL_DEVICE_… property. The caller frees it with free. */
char *device_platform_text(const compute_device *device, cl_platform_info what);
char *device_text(const compute_device *device, cl_device_info what);

/* NULL if the compiler refuses the source. */
cl_program device_build(const compute_device *device);

/* NULL if the driver refuses the bytes. */
cl_program device_load(const compute_device *device, const void *bytes, size_t size);

/* The bytes of a built program, or NULL if the driver has none. The caller frees them with free. */
void *device_binary(cl_program program, size_t *ret_size);

/* Runs the program and returns whether its result is right. */
int device_computes(const compute_device *device, cl_program program);

#ifdef __cplusplus
}
#endif
