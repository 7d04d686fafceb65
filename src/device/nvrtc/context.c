/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/context.h"

static kiln_status status_of_driver(int result)
{
    switch (result) {
    case KILNI_CUDA_SUCCESS:
        return KILN_OK;
    case KILNI_CUDA_OUT_OF_MEMORY:
        return KILN_E_RESOURCES;
    case KILNI_CUDA_INVALID_IMAGE:
    case KILNI_CUDA_NO_BINARY_FOR_GPU:
    case KILNI_CUDA_INVALID_PTX:
    case KILNI_CUDA_UNSUPPORTED_PTX_VERSION:
        return KILN_E_REFUSED;
    case KILNI_CUDA_NOT_FOUND:
        return KILN_MISS;
    default:
        return KILN_E_IO;
    }
}

static int load_code(const kilni_cuda_driver *driver, const void *code,
                     kilni_nvrtc_compiled_program *built)
{
    return driver->load_library
               ? driver->load_library(&built->library, code, NULL, NULL, 0, NULL, NULL, 0)
               : driver->load_module(&built->module, code);
}

/* CUBIN and PTX can be loaded; the other outputs are for linkers. */
kiln_status kilni_nvrtc_context_load(const kiln_nvrtc_device *device,
                                     kilni_nvrtc_compiled_program *built)
{
    const kilni_nvrtc_output code = kilni_nvrtc_outputs_code(&built->outputs);
    if (!device->context || (code != KILNI_NVRTC_CUBIN && code != KILNI_NVRTC_PTX)) {
        return KILN_OK;
    }
    kilni_cuda_context_handle unused;
    int result = device->driver.push_context(device->context);
    if (result == KILNI_CUDA_SUCCESS) {
        result = load_code(&device->driver, built->outputs.answers[code].bytes.data, built);
        device->driver.pop_context(&unused);
    }
    return status_of_driver(result);
}

void kilni_nvrtc_context_unload(const kiln_nvrtc_device *device,
                                kilni_nvrtc_compiled_program *built)
{
    kilni_cuda_context_handle unused;
    const int is_loaded = built->library || built->module;
    if (is_loaded && device->driver.push_context(device->context) == KILNI_CUDA_SUCCESS) {
        if (built->library) {
            device->driver.unload_library(built->library);
        } else {
            device->driver.unload_module(built->module);
        }
        device->driver.pop_context(&unused);
    }
}

kiln_status kilni_nvrtc_context_get_kernel(const kiln_nvrtc_device *device,
                                           const kilni_nvrtc_compiled_program *built,
                                           const char *name, void **ret_kernel)
{
    const char *lowered = name;
    kilni_cuda_context_handle unused;
    kilni_cuda_kernel_handle found = NULL;
    if (!built->library && !built->module) {
        return KILN_E_UNSUPPORTED;
    }
    if (kiln_nvrtc_get_lowered_name(built, name, &lowered) != KILN_OK) {
        lowered = name;
    }
    int result = device->driver.push_context(device->context);
    if (result == KILNI_CUDA_SUCCESS) {
        result = built->library ? device->driver.get_kernel(&found, built->library, lowered)
                                : device->driver.get_function(&found, built->module, lowered);
        device->driver.pop_context(&unused);
    }
    const kiln_status status = status_of_driver(result);
    if (status == KILN_OK) {
        *ret_kernel = found;
    }
    return status;
}
