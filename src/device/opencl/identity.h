/* SPDX-License-Identifier: Apache-2.0
 *
 * What decides an OpenCL build beside its source: platform, device, driver, compiler, processor,
 * environment. Two devices that agree in all of it share results.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/opencl/driver.h"

/* Further variables that decide a build (KILN_KEY_ENV): patterns, NULL-ended. Borrowed. */
typedef struct kilni_opencl_environment {
    const char *const *variables;
} kilni_opencl_environment;

/* Appends the parts of a device's identity, but for the environment (kilni_opencl_add_environment).
 *
 * @cl      functions of the loader or of the layer below; not NULL
 * @device  root device or sub-device
 * @driver  of the device's platform; NULL: identified here, which takes a few milliseconds
 * Returns KILN_OK; KILN_E_UNSUPPORTED: something that decides a build can't be told, with the
 * reason in @error; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_opencl_add_identity(const cl_icd_dispatch *cl, cl_device_id device,
                                      const kilni_opencl_driver *driver, kiln_key_builder *key,
                                      kiln_error *error);

/* Appends the variables, with their values, that steer the compiler of a platform, and the contents
 * of the files that they name. Read anew for each build: applications set variables at run time.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_environment(const char *platform_name,
                                         const kilni_opencl_environment *more,
                                         kiln_key_builder *key, kiln_error *error);
