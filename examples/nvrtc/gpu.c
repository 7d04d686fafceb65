/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long gpu_address;

static struct {
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGet)(int *device, int index);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease_v2)(int device);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuMemAlloc_v2)(gpu_address *address, size_t size);
    int (*cuMemFree_v2)(gpu_address address);
    int (*cuMemcpyHtoD_v2)(gpu_address to, const void *from, size_t size);
    int (*cuMemcpyDtoH_v2)(void *to, gpu_address from, size_t size);
    int (*cuLaunchKernel)(void *kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                          unsigned threads_x, unsigned threads_y, unsigned threads_z,
                          unsigned shared_bytes, void *stream, void **arguments, void **more);
} cuda;

static int device;

#define REQUIRE(call) require(call, #call)

static void require(int answer, const char *call)
{
    if (answer != 0) {
        fprintf(stderr, "%s returned %d\n", call, answer);
        exit(1);
    }
}

/* ISO C has no cast from the address of an object to the address of a function. */
static void find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    require(address ? 0 : -1, name);
    memcpy(ret_function, &address, sizeof address);
}

/* libcuda stays open. */
static int open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return 0;
    }
#define FIND(name) find(library, #name, &cuda.name)
    FIND(cuInit);
    FIND(cuDeviceGet);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuDevicePrimaryCtxRelease_v2);
    FIND(cuCtxSetCurrent);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuLaunchKernel);
#undef FIND
    return 1;
}

void *gpu_open(void)
{
    void *context = NULL;
    if (!open_driver() || cuda.cuInit(0) != 0 || cuda.cuDeviceGet(&device, 0) != 0) {
        return NULL;
    }
    REQUIRE(cuda.cuDevicePrimaryCtxRetain(&context, device));
    REQUIRE(cuda.cuCtxSetCurrent(context));
    return context;
}

void gpu_close(void *context)
{
    if (context) {
        REQUIRE(cuda.cuDevicePrimaryCtxRelease_v2(device));
    }
}

void gpu_run(void *kernel, uint16_t *values, unsigned count)
{
    const size_t size = count * sizeof *values;
    gpu_address memory = 0;
    void *arguments[] = {&memory, &count};
    REQUIRE(cuda.cuMemAlloc_v2(&memory, size));
    REQUIRE(cuda.cuMemcpyHtoD_v2(memory, values, size));
    REQUIRE(cuda.cuLaunchKernel(kernel, 1, 1, 1, count, 1, 1, 0, NULL, arguments, NULL));
    REQUIRE(cuda.cuMemcpyDtoH_v2(values, memory, size));
    REQUIRE(cuda.cuMemFree_v2(memory));
}
