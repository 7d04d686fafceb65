/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the system's OpenCL loader, for a process that is no OpenCL program otherwise.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/status.h>

/* Loads libOpenCL.so.1, for good, and looks up what Kiln calls of it.
 *
 * @ret_functions  [out] static; functions that Kiln doesn't call, or that the loader lacks, are
 * NULL Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason. Threads: one at a time. */
kiln_status kilni_opencl_open_loader(const cl_icd_dispatch **ret_functions, kiln_error *error);
