/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl_library.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include <CL/cl_icd.h>

#include "../text/memory.h"

static bool find_function(void *library, const char *name, void *ret_function)
{
    void *function = dlsym(library, name);
    memcpy(ret_function, &function, sizeof function);
    return function != NULL;
}

bool opencl_load(const char *library, opencl_functions *ret_opencl, char **ret_why)
{
    opencl_functions opencl = {.library = dlopen(library, RTLD_NOW | RTLD_GLOBAL)};
    if (opencl.library == NULL) {
        *ret_why = text_of("OpenCL can't be loaded: %s", dlerror());
        return false;
    }
#define FIND(name) find_function(opencl.library, #name, &opencl.name)
    bool complete = FIND(clGetPlatformIDs) && FIND(clGetPlatformInfo) && FIND(clGetDeviceIDs) &&
                    FIND(clGetDeviceInfo) && FIND(clGetExtensionFunctionAddress);
#undef FIND
    if (!complete) {
        *ret_why = text_of("%s is not an OpenCL loader: %s", library, dlerror());
        return false;
    }
    *ret_opencl = opencl;
    return true;
}

cl_uint opencl_platforms(const opencl_functions *opencl, cl_platform_id *ret_platforms)
{
    cl_uint count = 0;
    if (opencl->clGetPlatformIDs(OPENCL_PLATFORMS_MAX, ret_platforms, &count) != CL_SUCCESS) {
        return 0;
    }
    return count < OPENCL_PLATFORMS_MAX ? count : OPENCL_PLATFORMS_MAX;
}

bool opencl_platform_text(const opencl_functions *opencl, cl_platform_id platform,
                          cl_platform_info name, char *ret_text)
{
    memset(ret_text, 0, OPENCL_TEXT_SIZE);
    return opencl->clGetPlatformInfo(platform, name, OPENCL_TEXT_SIZE - 1, ret_text, NULL) ==
           CL_SUCCESS;
}

int64_t opencl_installed_s(cl_platform_id platform)
{
    /* Each object of a driver begins with a pointer to a table of the driver's functions. */
    const cl_icd_dispatch *table = *(const cl_icd_dispatch *const *)(const void *)platform;
    void *address;
    Dl_info where = {0};
    struct stat library;
    memcpy(&address, &table->clGetPlatformInfo, sizeof address);
    const bool is_known = dladdr(address, &where) != 0 && where.dli_fname != NULL &&
                          stat(where.dli_fname, &library) == 0;
    /* This is the time of the last status change, because installers set the modification time to
     * an earlier time. */
    return is_known ? library.st_ctim.tv_sec : OPENCL_INSTALLED_UNKNOWN;
}
