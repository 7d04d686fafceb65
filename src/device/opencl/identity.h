/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds to a key what affects an OpenCL build, apart from its source: the platform, the device, the
 * driver, the compiler, the processor and the environment. Two devices share results if all of
 * these are equal.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/driver.h"

/* NULL-terminated patterns (as in KILN_KEY_ENV) for further variables that affect a build. The
 * patterns are borrowed. */
typedef struct kilni_opencl_environment {
    const char *const *variables;
} kilni_opencl_environment;

/* Appends the parts of a device's identity. kilni_opencl_add_environment appends the environment.
 *
 * @cl      functions of the loader or of the next layer; not NULL
 * @device  a root device or a sub-device
 * @driver  the driver of the device's platform; if it is NULL, this function identifies the driver,
 *          which takes a few milliseconds
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: something that affects a build
 * cannot be determined; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_opencl_add_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key_builder *key,
                                      kiln_error *error);

/* Appends the variables that affect a platform's compiler, with their values, and the calling
 * thread's floating-point mode. Also appends the contents of the files that these variables name,
 * and of the files that the driver reads in the working directory. Must be called for each build,
 * because applications set variables at run time.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: a variable's name is too long for
 * a key, or a file cannot be read; KILN_E_TOO_LARGE; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_environment(const char *platform_name,
                                         const kilni_opencl_environment *more,
                                         kiln_key_builder *key, kiln_error *error);
