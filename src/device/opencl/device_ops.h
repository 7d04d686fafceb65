/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over OpenCL. Programs are cl_program, kernels are cl_kernel.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "device/opencl/identity.h"
#include "device/opencl/reads_of_programs.h"
#include "device/opencl/traits.h"
#include "device/watch/known_reads.h"

/* The device argument of the ops: one device in one of the application's contexts. The caller sets
 * the first four members, which are borrowed; kilni_opencl_device_begin sets the others. */
typedef struct kilni_opencl_device {
    const cl_icd_dispatch *cl;
    cl_context context;
    cl_device_id device;
    /* Variables that the application adds; NULL: none. */
    const kilni_opencl_environment *environment;
    cl_platform_id platform;
    char *platform_name;
    const kilni_opencl_traits *traits;
    kilni_known_reads *known; /* for programs that read files; NULL: the driver can't be watched */
    kilni_opencl_reads_of_programs *reads; /* NULL if known is NULL */
} kilni_opencl_device;

/* Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. The caller must call
 * kilni_opencl_device_end, even on failure. */
kiln_status kilni_opencl_device_begin(kilni_opencl_device *device, kiln_error *error);
void kilni_opencl_device_end(kilni_opencl_device *device);

/* Returns the ops for a driver whose captures have the given cost, which is a kiln_capture_cost:
 * see traits.h. */
const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost);
