/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL's functions: an application's, or those of the system's loader.
 */
#pragma once

#include <CL/cl_icd.h>

#include <kiln/opencl.h>

/* Looks up what Kiln calls. @look_up  as kiln_opencl_function_fn
 *
 * @ret_functions  [out] functions that Kiln doesn't call, or that are not there, are NULL
 * Returns KILN_OK; KILN_E_UNSUPPORTED: one that is needed is missing, with its name. */
kiln_status kilni_opencl_look_up(kiln_opencl_function_fn look_up, void *user,
                                 cl_icd_dispatch *ret_functions, kiln_error *error);

/* The same with those of libOpenCL.so.1, which is loaded for good. Likewise; KILN_E_UNSUPPORTED too
 * where there is no such library. Threads: any. */
kiln_status kilni_opencl_open_loader(cl_icd_dispatch *ret_functions, kiln_error *error);
