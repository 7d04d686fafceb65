/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over OpenCL. Programs are cl_program, kernels cl_kernel.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/device.h>

#include "device/opencl/identity.h"

/* One device in one context of the user's: what the ops take as their device. Borrowed handles. */
typedef struct kilni_opencl_device {
    const cl_icd_dispatch *cl;
    cl_context context;
    cl_device_id device;
    const kilni_opencl_environment *environment; /* what the user adds; NULL: nothing */
} kilni_opencl_device;

/* The ops of a driver whose captures cost so much (kiln_capture_cost; see traits.h). */
const kiln_device_ops *kilni_opencl_ops(uint32_t capture_cost);
