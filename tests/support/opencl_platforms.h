/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the OpenCL runtimes of this machine at run time; a test that finds none skips itself.
 * Include it in one file of a program only.
 */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include <CL/cl_icd.h>

/* ThreadSanitizer does not see the locks inside drivers, so its reports about drivers are wrong. */
#if defined(__SANITIZE_THREAD__)
#define OPENCL_IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OPENCL_IS_WATCHED 1
#endif
#endif
#ifndef OPENCL_IS_WATCHED
#define OPENCL_IS_WATCHED 0
#endif

/* LeakSanitizer calls this to learn which leaks to ignore: those of drivers. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libintelocl.so\n"
           "leak:libpocl.so\n"
           "leak:libLLVM\n";
}

/* X(function): the functions that tests and the tested code call. */
#define OPENCL_FUNCTIONS(X)                                                                        \
    X(clBuildProgram)                                                                              \
    X(clCreateBuffer)                                                                              \
    X(clCreateCommandQueue)                                                                        \
    X(clCreateContext)                                                                             \
    X(clCreateKernel)                                                                              \
    X(clCreateKernelsInProgram)                                                                    \
    X(clCreateProgramWithBinary)                                                                   \
    X(clCreateProgramWithSource)                                                                   \
    X(clEnqueueNDRangeKernel)                                                                      \
    X(clEnqueueReadBuffer)                                                                         \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clGetKernelArgInfo)                                                                          \
    X(clGetKernelInfo)                                                                             \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetProgramBuildInfo)                                                                       \
    X(clGetProgramInfo)                                                                            \
    X(clReleaseCommandQueue)                                                                       \
    X(clReleaseContext)                                                                            \
    X(clReleaseKernel)                                                                             \
    X(clReleaseMemObject)                                                                          \
    X(clReleaseProgram)                                                                            \
    X(clSetKernelArg)

#define OPENCL_PLATFORMS_MAX 8

typedef struct opencl_platform {
    char name[256];
    cl_device_id device; /* the first device of the platform */
    cl_context context;
    cl_command_queue queue;
} opencl_platform;

typedef struct opencl_platforms {
    cl_icd_dispatch cl;
    opencl_platform platforms[OPENCL_PLATFORMS_MAX];
    size_t count;
} opencl_platforms;

/* The loader is never closed, because drivers do not survive that. */
static inline bool opencl_find_functions(cl_icd_dispatch *ret_cl)
{
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loader) {
        return false;
    }
    bool found_all = true;
    /* POSIX guarantees that an object pointer can be converted to a function pointer. */
#define OPENCL_FIND(name)                                                                          \
    *(void **)&ret_cl->name = dlsym(loader, #name);                                                \
    found_all = found_all && ret_cl->name;
    OPENCL_FUNCTIONS(OPENCL_FIND)
#undef OPENCL_FIND
    return found_all;
}

static inline bool opencl_open_platform(const cl_icd_dispatch *cl, cl_platform_id id,
                                        opencl_platform *ret_platform)
{
    cl_int error = CL_SUCCESS;
    opencl_platform made = {.name = ""};
    if (cl->clGetPlatformInfo(id, CL_PLATFORM_NAME, sizeof made.name, made.name, NULL) !=
            CL_SUCCESS ||
        cl->clGetDeviceIDs(id, CL_DEVICE_TYPE_ALL, 1, &made.device, NULL) != CL_SUCCESS) {
        return false;
    }
    made.context = cl->clCreateContext(NULL, 1, &made.device, NULL, NULL, &error);
    if (!made.context) {
        return false;
    }
    made.queue = cl->clCreateCommandQueue(made.context, made.device, 0, &error);
    if (!made.queue) {
        cl->clReleaseContext(made.context);
        return false;
    }
    *ret_platform = made;
    return true;
}

/* Finds every platform that has a device. If there is none, or under ThreadSanitizer, the count is
 * 0. */
static inline void opencl_open(opencl_platforms *ret_found)
{
    *ret_found = (opencl_platforms){.count = 0};
    cl_platform_id ids[OPENCL_PLATFORMS_MAX];
    cl_uint count = 0;
    if (OPENCL_IS_WATCHED || !opencl_find_functions(&ret_found->cl) ||
        ret_found->cl.clGetPlatformIDs(OPENCL_PLATFORMS_MAX, ids, &count) != CL_SUCCESS) {
        return;
    }
    for (cl_uint i = 0; i < count && i < OPENCL_PLATFORMS_MAX; i++) {
        if (opencl_open_platform(&ret_found->cl, ids[i], &ret_found->platforms[ret_found->count])) {
            ret_found->count++;
        }
    }
}

static inline void opencl_close(opencl_platforms *found)
{
    for (size_t i = 0; i < found->count; i++) {
        found->cl.clReleaseCommandQueue(found->platforms[i].queue);
        found->cl.clReleaseContext(found->platforms[i].context);
    }
    found->count = 0;
}
