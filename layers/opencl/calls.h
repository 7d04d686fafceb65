/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL calls that the layer puts its own in place of, but clBuildProgram (build.h).
 */
#pragma once

#include <CL/cl_icd.h>

/* program_calls.c */
cl_program CL_API_CALL layer_create_program_with_source(cl_context context, cl_uint count,
                                                        const char **strings, const size_t *lengths,
                                                        cl_int *ret_error);
cl_program CL_API_CALL layer_create_program_with_il(cl_context context, const void *il,
                                                    size_t length, cl_int *ret_error);
cl_program CL_API_CALL layer_create_program_with_binary(cl_context context, cl_uint device_count,
                                                        const cl_device_id *devices,
                                                        const size_t *lengths,
                                                        const unsigned char **binaries,
                                                        cl_int *ret_statuses, cl_int *ret_error);
cl_program CL_API_CALL layer_create_program_with_built_in_kernels(cl_context context,
                                                                  cl_uint device_count,
                                                                  const cl_device_id *devices,
                                                                  const char *names,
                                                                  cl_int *ret_error);
cl_int CL_API_CALL layer_retain_program(cl_program program);
cl_int CL_API_CALL layer_release_program(cl_program program);
cl_int CL_API_CALL layer_set_specialization_constant(cl_program program, cl_uint id, size_t size,
                                                     const void *value);

/* program_queries.c */
cl_int CL_API_CALL layer_get_program_info(cl_program program, cl_program_info what, size_t room,
                                          void *ret_value, size_t *ret_size);
cl_int CL_API_CALL layer_get_program_build_info(cl_program program, cl_device_id device,
                                                cl_program_build_info what, size_t room,
                                                void *ret_value, size_t *ret_size);
cl_int CL_API_CALL layer_get_context_info(cl_context context, cl_context_info what, size_t room,
                                          void *ret_value, size_t *ret_size);

/* compile.c, link.c */
cl_int CL_API_CALL layer_compile_program(cl_program program, cl_uint device_count,
                                         const cl_device_id *devices, const char *options,
                                         cl_uint header_count, const cl_program *headers,
                                         const char **header_names,
                                         void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user_data);
cl_program CL_API_CALL layer_link_program(cl_context context, cl_uint device_count,
                                          const cl_device_id *devices, const char *options,
                                          cl_uint input_count, const cl_program *inputs,
                                          void(CL_CALLBACK *notify)(cl_program, void *),
                                          void *user_data, cl_int *ret_error);

/* kernel_calls.c */
cl_kernel CL_API_CALL layer_create_kernel(cl_program program, const char *name, cl_int *ret_error);
cl_int CL_API_CALL layer_create_kernels_in_program(cl_program program, cl_uint room,
                                                   cl_kernel *ret_kernels, cl_uint *ret_count);
cl_kernel CL_API_CALL layer_clone_kernel(cl_kernel original, cl_int *ret_error);
cl_int CL_API_CALL layer_retain_kernel(cl_kernel kernel);
cl_int CL_API_CALL layer_release_kernel(cl_kernel kernel);
cl_int CL_API_CALL layer_get_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room,
                                         void *ret_value, size_t *ret_size);
cl_int CL_API_CALL layer_get_kernel_arg_info(cl_kernel kernel, cl_uint index,
                                             cl_kernel_arg_info what, size_t room, void *ret_value,
                                             size_t *ret_size);

/* extensions.c */
void *CL_API_CALL layer_get_extension_function_for_platform(cl_platform_id id, const char *name);
void *CL_API_CALL layer_get_extension_function(const char *name);
