/* SPDX-License-Identifier: Apache-2.0
 *
 * What all of the layer shares: the functions below it, beside what a process sets up once.
 */
#pragma once

#include <CL/cl_icd.h>

#include "../shared/session.h"
#include "device/opencl/identity.h"

/* The functions of the next layer or of the loader. Set once, before any call comes in. */
const cl_icd_dispatch *layer_target(void);

/* KILN_KEY_ENV, as OpenCL's keys take it. */
const kilni_opencl_environment *layer_key_environment(void);
