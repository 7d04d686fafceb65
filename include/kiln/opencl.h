/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's device ops, for contexts of kiln/program.h. The header also has functions that report
 * what Kiln knows about OpenCL drivers, for tools that explain a key, and functions that serve
 * capture requests of other processes. This header includes none of OpenCL's headers, and the
 * library does not link OpenCL. All OpenCL handles belong to the caller. The caller can supply the
 * OpenCL functions; otherwise Kiln loads the system's libOpenCL.so.1 when it needs them.
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

/* One device in one context, as OpenCL's ops take it. Immutable. Any thread may use it. */
typedef struct kiln_opencl_device kiln_opencl_device;

/* Returns the address of an OpenCL function, such as "clBuildProgram"; NULL if there is none. */
typedef void *(*kiln_opencl_function_fn)(void *user, const char *name);

/* How a device is created. */
typedef struct kiln_opencl_device_params {
    size_t struct_size;
    kiln_opencl_function_fn function; /* NULL: libOpenCL.so.1 is loaded, and stays loaded */
    void *user;                       /* passed to function; may be NULL */
    const char *const *more; /* patterns of the names of further variables that decide a build
                                (KILN_KEY_ENV), ended by NULL; copied; NULL: none */
} kiln_opencl_device_params;

/* Creates a device for the ops. The programs of these ops are of type cl_program, and their kernels
 * of type cl_kernel.
 *
 * @context     a cl_context; retained until the device is freed
 * @device      a cl_device_id of @context; retained until the device is freed
 * @params      read during the call; NULL: all defaults
 * @ret_device  [out] to be freed with kiln_opencl_device_free
 * @error       may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: a required function is missing, or the
 * device doesn't answer; KILN_E_NO_MEMORY. Threads: any. Blocks: on loading the library. */
KILN_API kiln_status kiln_opencl_device_new(void *context, void *device,
                                            const kiln_opencl_device_params *params,
                                            kiln_opencl_device **ret_device, kiln_error *error);

/* Frees a device and sets the pointer to NULL. NULL and a pointer to NULL are allowed. Contexts,
 * programs and kernels that use the device must have been freed before. */
KILN_API void kiln_opencl_device_free(kiln_opencl_device **device);

/* Returns the ops for a device; NULL for NULL. The ops are static, and depend on the driver.
 * Intel's and NVIDIA's drivers return binaries cheaply (KILN_CAPTURE_CHEAP). PoCL takes seconds to
 * return a binary, and the cost with other drivers is unknown. For PoCL and all other drivers
 * (KILN_CAPTURE_EXPENSIVE), a context writes nothing to disk by itself. It still finds what a store
 * has, and blobs can be obtained (kiln_program_get_cache_blob). Under `kiln run`, a separate
 * process captures what PoCL built. */
KILN_API const kiln_device_ops *kiln_opencl_ops(const kiln_opencl_device *device);

/* ---- facts about drivers ---- */

/* Receives one line of a report. @name and @value are valid during the call; @value may be NULL. */
typedef void (*kiln_opencl_report_fn)(void *user, const char *name, const char *value);

/* Reports the variables that are part of each key on a platform. For each pattern, it reports the
 * variables that match the pattern and are set, with their values. If none is set, it reports the
 * pattern and NULL.
 *
 * @platform_name  CL_PLATFORM_NAME; NULL: an unknown platform
 * @more           further patterns (KILN_KEY_ENV), ended by NULL; NULL: none
 * @report         called on this thread; not NULL
 * @user           passed to @report; may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any, while no thread sets variables.
 * Blocks: never. */
KILN_API kiln_status kiln_opencl_report_environment(const char *platform_name,
                                                    const char *const *more,
                                                    kiln_opencl_report_fn report, void *user);

/* Reports the files of a driver and of its compiler that are part of each key. The value of each is
 * its identity: a build-id, or its size and a digest of its content.
 *
 * @platform       a cl_platform_id; not NULL
 * @platform_name  CL_PLATFORM_NAME; NULL: an unknown platform
 * @report         called on this thread; not NULL
 * @user           passed to @report; may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_UNSUPPORTED: the driver's library can't be determined;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
KILN_API kiln_status kiln_opencl_report_driver_files(void *platform, const char *platform_name,
                                                     kiln_opencl_report_fn report, void *user);

/* Does the same as kiln_opencl_report_driver_files, but leaves out the libraries that the driver is
 * linked to. It reports the driver's own library, and the files that the driver's compiler loads.
 * These files are the same in all processes that use this driver. The linked libraries can differ,
 * because a process can have other versions linked in, or search in other places (LD_LIBRARY_PATH).
 */
KILN_API kiln_status kiln_opencl_report_own_driver_files(void *platform, const char *platform_name,
                                                         kiln_opencl_report_fn report, void *user);

/* Lists what a result was made from, as kiln_nvrtc_each_read does, for an entry of a build that can
 * read files (the key of such an entry has the part "reads"). For PoCL, the program's folder is the
 * folder of PoCL's own cache, to which PoCL writes each source; the current variables name this
 * folder.
 *
 * @entry   borrowed; not NULL
 * @result  the number of the result, from 0
 * @visit   called for each read, on this thread
 * @user    passed to @visit; may be NULL
 * Returns KILN_OK; KILN_MISS: the entry contains fewer results; KILN_E_UNSUPPORTED: the entry is
 * not from such a build, or has an earlier format, which is no longer used; KILN_E_CORRUPT, perhaps
 * after some calls of @visit; KILN_E_INVALID; KILN_E_NO_MEMORY. Threads: any, while no thread sets
 * variables. Blocks: on reading files. */
KILN_API kiln_status kiln_opencl_each_read(const kiln_entry *entry, size_t result,
                                           kiln_read_fn visit, void *user);

/* ---- capture requests: builds whose results are captured in a different process ---- */

/* How long a request (an entry of KILN_ENTRY_REQUEST) is valid, in seconds. A request without a
 * payload is one that was given up. As long as it is valid, programs do not make the same request
 * again. */
#define KILN_OPENCL_REQUEST_AGE_S (7 * 24 * 3600)

/* Reports the variables of the process that made a request. A process that serves the request must
 * have these variables and no others.
 *
 * @request  borrowed; not NULL
 * @report   called on this thread; not NULL
 * @user     passed to @report; may be NULL
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not a request, or given up; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: never. */
KILN_API kiln_status kiln_opencl_report_request(const kiln_entry *request,
                                                kiln_opencl_report_fn report, void *user);

/* Repeats the build of a request, captures the program and stores the result. The caller must be a
 * separate process that has the request's variables and no others. This call changes to the
 * request's working directory, and loads libOpenCL.so.1 and a driver, which can crash the process.
 * The request itself stays in the store.
 *
 * @store    not NULL
 * @request  borrowed; not NULL
 * @more     further patterns (KILN_KEY_ENV), ended by NULL; NULL: none
 * @error    may be NULL; describes the failure
 * Returns KILN_OK; KILN_E_INVALID; KILN_E_CORRUPT: not a request, or given up; KILN_E_UNSUPPORTED:
 * the build can't be repeated, because its inputs, the driver or the machine changed; KILN_E_BUILD;
 * KILN_E_NO_MEMORY; what kiln_store_put returns. Threads: one. Blocks: on the build. */
KILN_API kiln_status kiln_opencl_serve_request(kiln_store *store, const kiln_entry *request,
                                               const char *const *more, kiln_error *error);

#ifdef __cplusplus
}
#endif

#endif
