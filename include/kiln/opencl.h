/* SPDX-License-Identifier: Apache-2.0
 *
 * What Kiln knows of OpenCL drivers, for tools that explain a key. Nothing here needs OpenCL's
 * headers, and the library links no OpenCL: platforms are handles that the caller got.
 */
#ifndef KILN_OPENCL_H
#define KILN_OPENCL_H

#include <kiln/status.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
