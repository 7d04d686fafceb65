/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/loader.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

#define LOADER_LIBRARY "libOpenCL.so.1"

/* X(name) stands for a required function, OPTIONAL(name) for a function that is newer than OpenCL
 * 1.2. */
#define FUNCTIONS(X, OPTIONAL)                                                                     \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateContext)                                                                             \
    X(clRetainContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clRetainDevice)                                                                              \
    X(clReleaseDevice)                                                                             \
    X(clCreateProgramWithSource)                                                                   \
    X(clReleaseProgram)                                                                            \
    X(clCreateProgramWithBinary)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clCompileProgram)                                                                            \
    X(clLinkProgram)                                                                               \
    X(clGetProgramInfo)                                                                            \
    X(clGetProgramBuildInfo)                                                                       \
    X(clCreateKernel)                                                                              \
    X(clCreateKernelsInProgram)                                                                    \
    X(clReleaseKernel)                                                                             \
    X(clGetKernelInfo)                                                                             \
    X(clGetKernelArgInfo)                                                                          \
    OPTIONAL(clCreateProgramWithIL)                                                                \
    OPTIONAL(clSetProgramSpecializationConstant)

static void put(cl_icd_dispatch *functions, size_t place, void *function)
{
    memcpy((char *)functions + place, &function, sizeof function);
}

kiln_status kilni_opencl_look_up(kiln_opencl_function_fn look_up, void *user,
                                 cl_icd_dispatch *ret_functions, kiln_error *error)
{
    const char *missing = NULL;
    memset(ret_functions, 0, sizeof *ret_functions);
#define LOOK_UP(name) put(ret_functions, offsetof(cl_icd_dispatch, name), look_up(user, #name));
#define CHECK(name)                                                                                \
    LOOK_UP(name)                                                                                  \
    missing = missing || ret_functions->name ? missing : #name;
    FUNCTIONS(CHECK, LOOK_UP)
#undef CHECK
#undef LOOK_UP
    return missing ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "OpenCL has no %s", missing)
                   : KILN_OK;
}

static void *look_up_in(void *library, const char *name)
{
    return dlsym(library, name);
}

kiln_status kilni_opencl_open_loader(cl_icd_dispatch *ret_functions, kiln_error *error)
{
    void *library = dlopen(LOADER_LIBRARY, RTLD_NOW);
    if (!library) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s can't be loaded", LOADER_LIBRARY);
    }
    return kilni_opencl_look_up(look_up_in, library, ret_functions, error);
}
