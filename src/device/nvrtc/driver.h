/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver's functions that load programs, found in libcuda at run time.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

/* CUresult: the values are the driver's own. */
typedef enum kilni_cuda_result {
    KILNI_CUDA_SUCCESS = 0,
    KILNI_CUDA_OUT_OF_MEMORY = 2,
    KILNI_CUDA_INVALID_IMAGE = 200,
    KILNI_CUDA_NO_BINARY_FOR_GPU = 209,
    KILNI_CUDA_INVALID_PTX = 218,
    KILNI_CUDA_UNSUPPORTED_PTX_VERSION = 222,
    KILNI_CUDA_NOT_FOUND = 500
} kilni_cuda_result;

enum { KILNI_CUDA_CAPABILITY_MAJOR = 75, KILNI_CUDA_CAPABILITY_MINOR = 76 };

typedef struct kilni_cuda_context *kilni_cuda_context_handle;
typedef struct kilni_cuda_module *kilni_cuda_module_handle;
typedef struct kilni_cuda_library *kilni_cuda_library_handle;
typedef struct kilni_cuda_kernel *kilni_cuda_kernel_handle;

/* CUDA 12 added the functions for libraries. Either all three of them are set, or all three are
 * NULL. */
typedef struct kilni_cuda_driver {
    int (*push_context)(kilni_cuda_context_handle context);
    int (*pop_context)(kilni_cuda_context_handle *context);
    int (*get_device)(int *device);
    int (*get_attribute)(int *value, int attribute, int device);
    int (*load_module)(kilni_cuda_module_handle *module, const void *image);
    int (*unload_module)(kilni_cuda_module_handle module);
    int (*get_function)(kilni_cuda_kernel_handle *function, kilni_cuda_module_handle module,
                        const char *name);
    int (*load_library)(kilni_cuda_library_handle *library, const void *code, int *jit_options,
                        void **jit_values, unsigned jit_count, int *library_options,
                        void **library_values, unsigned library_count);
    int (*unload_library)(kilni_cuda_library_handle library);
    int (*get_kernel)(kilni_cuda_kernel_handle *kernel, kilni_cuda_library_handle library,
                      const char *name);
} kilni_cuda_driver;

/* Opens libcuda.so.1. The library stays open until the process ends. Returns KILN_OK;
 * KILN_E_UNSUPPORTED: the library is not installed, or lacks a required function.
 */
kiln_status kilni_cuda_open(kilni_cuda_driver *ret_driver, kiln_error *error);
