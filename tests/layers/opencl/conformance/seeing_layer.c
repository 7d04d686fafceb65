/* SPDX-License-Identifier: Apache-2.0
 *
 * libseeing_layer.so: a layer for the OpenCL ICD loader that provides an extension function, as a
 * driver does. The function reports how the driver below the layer has built a program.
 */
#include "support/opencl_layer.h"

#include <string.h>

const char layer_name[] = "seeing";

static cl_build_status CL_API_CALL program_status(cl_program program, cl_device_id device)
{
    cl_build_status status = CL_BUILD_IN_PROGRESS;
    layer_below.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_STATUS, sizeof status,
                                      &status, NULL);
    return status;
}

static void *CL_API_CALL get_function_for_platform(cl_platform_id platform, const char *name)
{
    return strcmp(name, "clGetProgramStatusTEST") == 0
               ? (void *)program_status
               : layer_below.clGetExtensionFunctionAddressForPlatform(platform, name);
}

static void *CL_API_CALL get_function(const char *name)
{
    return strcmp(name, "clGetProgramStatusTEST") == 0
               ? (void *)program_status
               : layer_below.clGetExtensionFunctionAddress(name);
}

void layer_interpose(cl_icd_dispatch *own)
{
    INTERPOSE(own, clGetExtensionFunctionAddressForPlatform, get_function_for_platform);
    INTERPOSE(own, clGetExtensionFunctionAddress, get_function);
}
