/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a platform's driver. It consists of what affects builds: the files that make up
 * the driver, and the functions with which the driver computes constants. The identity is the same
 * for all devices of a platform.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/key.h>

#include "device/file_stamps.h"
#include "device/loaded_libraries.h"

typedef struct kilni_opencl_driver {
    kiln_key *parts;          /* "driver.file", "driver.math", "libm.unused" */
    kilni_file_stamps stamps; /* of the files found by patterns, which the driver might read at any
                               * time; and of the folders that were searched */
} kilni_opencl_driver;

/* Finds the libraries of this process and marks those that a platform's driver needs. The list is
 * the same as from kilni_loaded_libraries_find. */
kiln_status kilni_opencl_driver_libraries(cl_platform_id platform, kilni_loaded_libraries *ret_all,
                                          kiln_error *error);

/* Identifies a driver. This takes a few milliseconds.
 *
 * @ret_driver  [out] freed by the caller, with kilni_opencl_driver_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: the driver cannot be identified;
 * KILN_E_NO_MEMORY. Threads: any. Blocks: on reading files. */
kiln_status kilni_opencl_driver_identify(cl_platform_id platform, const char *platform_name,
                                         kilni_opencl_driver *ret_driver, kiln_error *error);
void kilni_opencl_driver_done(kilni_opencl_driver *driver);
