/* SPDX-License-Identifier: Apache-2.0
 *
 * clBuildProgram under the cache.
 */
#pragma once

#include <CL/cl_icd.h>

#include "records.h"

typedef void(CL_CALLBACK *build_callback)(cl_program program, void *user_data);

cl_int CL_API_CALL layer_build_program(cl_program program, cl_uint device_count,
                                       const cl_device_id *devices, const char *options,
                                       build_callback notify, void *user_data);

/* Makes the driver build what a program's twin stands for, and drops the twin: for calls that only
 * the driver's own program can serve. */
void build_natively(program_record *record, const char *why);
