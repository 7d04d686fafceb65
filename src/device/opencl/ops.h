/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over OpenCL. Programs are cl_program, kernels are cl_kernel.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "device/opencl/identity.h"
#include "device/opencl/program_reads.h"
#include "device/opencl/traits.h"
#include "device/watch/known_reads.h"

/* One device in one of the application's contexts, which the ops take as their device. The caller
 * gives the first four members, which are borrowed; kilni_opencl_device_begin finds the others. */
typedef struct kilni_opencl_device {
    const cl_icd_dispatch *cl;
    cl_context context;
    cl_device_id device;
    const kilni_opencl_environment
        *environment; /* variables that the application adds; NULL: none */
    cl_platform_id platform;
    char *platform_name;
    const kilni_opencl_traits *traits;
    kilni_known_reads *known; /* of programs that read files; NULL: the driver can't be watched */
    kilni_opencl_program_reads *reads; /* the same */
} kilni_opencl_device;

/* KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. Ended with kilni_opencl_device_end, also on
 * failure. */
kiln_status kilni_opencl_device_begin(kilni_opencl_device *device, kiln_error *error);
void kilni_opencl_device_end(kilni_opencl_device *device);

/* Returns the ops for a driver whose captures cost that much (kiln_capture_cost; see traits.h). */
const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost);
