/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's device ops, for contexts of kiln/program.h; what Kiln knows of OpenCL drivers, for tools
 * that explain a key; and the builds that other processes left to be repeated. Nothing here needs
 * OpenCL's headers, and the library links no OpenCL: handles are those that the caller got, and
 * functions are the caller's, or those of the system's loader, which is opened when it is needed.
 */
#ifndef KILN_OPENCL_H
#define KILN_OPENCL_H

#include <kiln/device.h>
#include <kiln/entry.h>
#include <kiln/status.h>
#include <kiln/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- device ops ---- */

/* One device in one context: what OpenCL's ops take as their device. Immutable. Any thread. */
typedef struct kiln_opencl_device kiln_opencl_device;

/* The address of one of OpenCL's functions, such as "clBuildProgram"; NULL where it is not there.
 */
typedef void *(*kiln_opencl_function_fn)(void *user, const char *name);

/* How a device is used. */
typedef struct kiln_opencl_device_params {
    size_t struct_size;
    kiln_opencl_function_fn function; /* NULL: libOpenCL.so.1 is loaded, for good */
    void *user;                       /* for function */
    const char *const *more; /* further variables that decide a build (KILN_KEY_ENV): patterns,
                                NULL-ended, copied; NULL: none */
} kiln_opencl_device_params;

/* Makes a device for the ops. Programs are cl_program then, and kernels cl_kernel.
 *
 * @context     a cl_context; retained until the device is freed
 * @device      a cl_device_id of it; retained likewise
 * @params      lives for the call; NULL: all defaults
 * @ret_device  [out] to be given back with kiln_opencl_device_free
 * @error       may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: a function that is needed is missing, or the
 * device doesn't answer; KILN_E_NO_MEMORY. Threads: any. Blocks: on loading the library. */
KILN_API kiln_status kiln_opencl_device_new(void *context, void *device,
                                            const kiln_opencl_device_params *params,
                                            kiln_opencl_device **ret_device, kiln_error *error);

/* Frees a device and sets the pointer to NULL; takes NULL and a pointer to NULL. Contexts, programs
 * and kernels that use it must have been given back. */
KILN_API void kiln_opencl_device_free(kiln_opencl_device **device);

/* The ops that go with it: static, and not the same for all drivers. NULL for NULL. Intel's drivers
 * and NVIDIA's give binaries cheaply (KILN_CAPTURE_CHEAP). PoCL takes seconds, and of other drivers
 * it isn't known (KILN_CAPTURE_DEAR): there a context keeps nothing on disk by itself. What a store
 * has is found, and blobs can be had (kiln_program_get_cache_blob). Under `kiln run` another
 * process captures what PoCL built. */
KILN_API const kiln_device_ops *kiln_opencl_ops(const kiln_opencl_device *device);

/* ---- what is known of drivers ---- */

/* @name and @value live for the call; @value may be NULL. */
typedef void (*kiln_opencl_report_fn)(void *user, const char *name, const char *value);

/* Reports the variables that are a part of each key on a platform: each pattern, with the
 * variables that match it and are set, and their values; where none is set, the pattern and NULL.
 *
 * @platform_name  CL_PLATFORM_NAME; NULL: a platform that isn't known
 * @more           further patterns (KILN_KEY_ENV), NULL-ended; NULL: none
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any, while nobody sets variables.
 * Blocks: never. */
KILN_API kiln_status kiln_opencl_report_environment(const char *platform_name,
                                                    const char *const *more,
                                                    kiln_opencl_report_fn report, void *user);

/* Reports the files of a driver and of its compiler that are a part of each key, each with its
 * identity: a build-id, or its size and a digest of its content.
 *
 * @platform       a cl_platform_id; not NULL
 * @platform_name  as above
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: the driver's library can't be told;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
KILN_API kiln_status kiln_opencl_report_driver_files(void *platform, const char *platform_name,
                                                     kiln_opencl_report_fn report, void *user);

/* The same without the libraries that the driver is linked to: its own library, and the files that
 * its compiler loads. These are the same in all processes that use this driver. Of the others a
 * process may have its own, by what it is linked to itself and where it searches (LD_LIBRARY_PATH).
 */
KILN_API kiln_status kiln_opencl_report_own_driver_files(void *platform, const char *platform_name,
                                                         kiln_opencl_report_fn report, void *user);

/* ---- requests: builds whose results are too dear to capture where they were built ---- */

/* How long a request (an entry of KILN_ENTRY_REQUEST) counts. One without a payload stands for a
 * request that was given up, and keeps it from being made again for as long. */
#define KILN_OPENCL_REQUEST_AGE_S (7 * 24 * 3600)

/* Reports the variables of the process that left a request: the process that serves it needs
 * them, and no others.
 *
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not a request, or given up; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_opencl_report_request(const kiln_entry *request,
                                                kiln_opencl_report_fn report, void *user);

/* Repeats a request's build, captures it and stores the result. For a process of its own, which
 * has the request's variables and no others: it goes into the request's working directory, loads
 * libOpenCL.so.1 and a driver, and may be killed by what that does. The request itself stays.
 *
 * @more   further patterns (KILN_KEY_ENV), NULL-ended; NULL: none
 * @error  may be NULL; says why
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not a request, or given up; KILN_E_UNSUPPORTED:
 * the same build can't be had any more (its inputs, the driver or the machine changed);
 * KILN_E_BUILD; KILN_E_NO_MEMORY; what kiln_store_put returns. Threads: one. Blocks: on building.
 */
KILN_API kiln_status kiln_opencl_serve_request(kiln_store *store, const kiln_entry *request,
                                               const char *const *more, kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
