/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's functions, from an application or from the system's loader.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/opencl.h>

/* Looks up the functions that Kiln calls.
 *
 * @look_up        see kiln_opencl_function_fn
 * @ret_functions  [out] functions that Kiln does not call, or that do not exist, are NULL
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the function's name in @error: a required function is
 * missing. */
kiln_status kilni_opencl_look_up(kiln_opencl_function_fn look_up, void *user,
                                 cl_icd_dispatch *ret_functions, kiln_error *error);

/* Does the same as kilni_opencl_look_up, but with the functions of libOpenCL.so.1. That library
 * stays loaded until the process ends. Also returns KILN_E_UNSUPPORTED if there is no such library.
 * Threads: any. */
kiln_status kilni_opencl_open_loader(cl_icd_dispatch *ret_functions, kiln_error *error);
