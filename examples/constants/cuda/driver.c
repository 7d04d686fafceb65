/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <string.h>

/* ISO C has no cast from the address of an object to the address of a function. */
static int find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

const cuda_driver *cuda_open(const char **ret_why)
{
    static cuda_driver driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        *ret_why = "no CUDA driver";
        return NULL;
    }
#define FIND(name, parameters)                                                                     \
    if (!find(library, #name, &driver.name)) {                                                     \
        *ret_why = "a CUDA driver without " #name;                                                 \
        return NULL;                                                                               \
    }
    CUDA_FUNCTIONS(FIND)
#undef FIND
    int count = 0;
    if (driver.cuInit(0) != CUDA_SUCCESS || driver.cuDeviceGetCount(&count) != CUDA_SUCCESS ||
        count == 0) {
        *ret_why = "no GPU";
        return NULL;
    }
    return &driver;
}
