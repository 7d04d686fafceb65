/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over OpenCL. Programs are cl_program, kernels are cl_kernel.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "device/opencl/identity.h"

/* One device in one of the application's contexts, which the ops take as their device. The handles
 * are borrowed. */
typedef struct kilni_opencl_device {
    const cl_icd_dispatch *cl;
    cl_context context;
    cl_device_id device;
    const kilni_opencl_environment *environment; /* variables that the application adds; NULL:
                                                  * none */
} kilni_opencl_device;

/* Returns the ops for a driver whose captures cost that much (kiln_capture_cost; see traits.h). */
const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost);
