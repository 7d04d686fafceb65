/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL calls that the layer replaces. Programs reach the layer's functions through the
 * loader's table (layer.c), or obtain them by name (extensions.c).
 */
#pragma once

#include <stddef.h>

#include <CL/cl_icd.h>

/* X(OpenCL's function, the layer's) */
#define INTERCEPTED_CALLS(X)                                                                       \
    X(clCreateProgramWithSource, layer_create_program_with_source)                                 \
    X(clCreateProgramWithIL, layer_create_program_with_il)                                         \
    X(clCreateProgramWithBinary, layer_create_program_with_binary)                                 \
    X(clCreateProgramWithBuiltInKernels, layer_create_program_with_built_in_kernels)               \
    X(clRetainProgram, layer_retain_program)                                                       \
    X(clReleaseProgram, layer_release_program)                                                     \
    X(clSetProgramSpecializationConstant, layer_set_specialization_constant)                       \
    X(clBuildProgram, layer_build_program)                                                         \
    X(clCompileProgram, layer_compile_program)                                                     \
    X(clLinkProgram, layer_link_program)                                                           \
    X(clGetProgramInfo, layer_get_program_info)                                                    \
    X(clGetProgramBuildInfo, layer_get_program_build_info)                                         \
    X(clGetContextInfo, layer_get_context_info)                                                    \
    X(clCreateKernel, layer_create_kernel)                                                         \
    X(clCreateKernelsInProgram, layer_create_kernels_in_program)                                   \
    X(clCloneKernel, layer_clone_kernel)                                                           \
    X(clRetainKernel, layer_retain_kernel)                                                         \
    X(clReleaseKernel, layer_release_kernel)                                                       \
    X(clGetKernelInfo, layer_get_kernel_info)                                                      \
    X(clGetKernelArgInfo, layer_get_kernel_arg_info)                                               \
    X(clGetExtensionFunctionAddressForPlatform, layer_get_extension_function_for_platform)         \
    X(clGetExtensionFunctionAddress, layer_get_extension_function)

/* Declares each of the layer's functions with the type of its entry in the loader's table. */
#define DECLARE_CALL(name, own) __typeof__(*((cl_icd_dispatch *)NULL)->name) own;
INTERCEPTED_CALLS(DECLARE_CALL)
#undef DECLARE_CALL
