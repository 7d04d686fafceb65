/* SPDX-License-Identifier: Apache-2.0
 *
 * What a platform's driver is, as far as it decides builds: the files that it is made of, and the
 * functions that it computes constants with. The same for all devices of a platform.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/key.h>

#include "device/file_stamps.h"
#include "device/loaded_libraries.h"

typedef struct kilni_opencl_driver {
    kiln_key *parts;          /* "driver.file", "driver.math", "libm.unused" */
    kilni_file_stamps stamps; /* of what was found by name, which the driver reads at any time */
} kilni_opencl_driver;

/* The libraries of this process, with those that a platform's driver needs: as
 * kilni_loaded_libraries_find. */
kiln_status kilni_opencl_driver_libraries(cl_platform_id platform, kilni_loaded_libraries *ret_all,
                                          kiln_error *error);

/* Takes a few milliseconds.
 *
 * @ret_driver  [out] given back with kilni_opencl_driver_done
 * Returns KILN_OK; KILN_E_UNSUPPORTED: it can't be told, @error says why; KILN_E_NO_MEMORY.
 * Threads: any. Blocks: on reading files. */
kiln_status kilni_opencl_driver_identify(cl_platform_id platform, const char *platform_name,
                                         kilni_opencl_driver *ret_driver, kiln_error *error);
void kilni_opencl_driver_done(kilni_opencl_driver *driver);
