/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/driver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

#define LIBRARY "libcuda.so.1"

/* ISO C has no cast from an object pointer to a function pointer. */
static int find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);
    memcpy(ret_function, &address, sizeof address);
    return address != NULL;
}

static void find_libraries(void *library, kilni_cuda_driver *driver)
{
    if (!find(library, "cuLibraryLoadData", &driver->load_library) ||
        !find(library, "cuLibraryUnload", &driver->unload_library) ||
        !find(library, "cuLibraryGetKernel", &driver->get_kernel)) {
        driver->load_library = NULL;
        driver->unload_library = NULL;
        driver->get_kernel = NULL;
    }
}

kiln_status kilni_cuda_open(kilni_cuda_driver *ret_driver, kiln_error *error)
{
    kilni_cuda_driver driver = {0};
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "no CUDA driver: %s", dlerror());
    }
    if (!find(library, "cuCtxPushCurrent_v2", &driver.push_context) ||
        !find(library, "cuCtxPopCurrent_v2", &driver.pop_context) ||
        !find(library, "cuCtxGetDevice", &driver.get_device) ||
        !find(library, "cuDeviceGetAttribute", &driver.get_attribute) ||
        !find(library, "cuModuleLoadData", &driver.load_module) ||
        !find(library, "cuModuleUnload", &driver.unload_module) ||
        !find(library, "cuModuleGetFunction", &driver.get_function)) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, LIBRARY ": %s", dlerror());
    }
    find_libraries(library, &driver);
    *ret_driver = driver;
    return KILN_OK;
}
