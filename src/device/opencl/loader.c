/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl/loader.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

#define LOADER_LIBRARY "libOpenCL.so.1"

/* X(name): needed; OPTIONAL(name): newer than OpenCL 1.2. */
#define FUNCTIONS(X, OPTIONAL)                                                                     \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clCreateProgramWithSource)                                                                   \
    X(clReleaseProgram)                                                                            \
    X(clBuildProgram)                                                                              \
    X(clGetProgramInfo)                                                                            \
    X(clGetProgramBuildInfo)                                                                       \
    X(clCreateKernelsInProgram)                                                                    \
    X(clReleaseKernel)                                                                             \
    X(clGetKernelInfo)                                                                             \
    X(clGetKernelArgInfo)                                                                          \
    OPTIONAL(clCreateProgramWithIL)                                                                \
    OPTIONAL(clSetProgramSpecializationConstant)

static cl_icd_dispatch functions;

static void look_up(void *library, const char *name, size_t place)
{
    void *function = dlsym(library, name);
    memcpy((char *)&functions + place, &function, sizeof function);
}

kiln_status kilni_opencl_open_loader(const cl_icd_dispatch **ret_functions, kiln_error *error)
{
    void *library = dlopen(LOADER_LIBRARY, RTLD_NOW);
    if (!library) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s can't be loaded", LOADER_LIBRARY);
    }
#define LOOK_UP(name) look_up(library, #name, offsetof(cl_icd_dispatch, name));
    FUNCTIONS(LOOK_UP, LOOK_UP)
#undef LOOK_UP
    int has_all = 1;
#define CHECK(name) has_all &= functions.name != NULL;
#define NO_CHECK(name)
    FUNCTIONS(CHECK, NO_CHECK)
#undef CHECK
#undef NO_CHECK
    if (!has_all) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s is too old", LOADER_LIBRARY);
    }
    *ret_functions = &functions;
    return KILN_OK;
}
