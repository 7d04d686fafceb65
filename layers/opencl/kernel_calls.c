/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <stdlib.h>

#include "records.h"
#include "target.h"

static cl_kernel fail(cl_int error, cl_int *ret_error)
{
    if (ret_error) {
        *ret_error = error;
    }
    return NULL;
}

/* ---- making kernels ---- */

static cl_kernel create_loaded_kernel(program_record *record, loaded_program *loaded,
                                      const char *name, cl_int *ret_error)
{
    const cl_icd_dispatch *cl = layer_target();
    cl_kernel kernel = cl->clCreateKernel(loaded->program, name, ret_error);
    if (kernel && records_add_kernel(kernel, record, loaded) != KILN_OK) {
        cl->clReleaseKernel(kernel);
        return fail(CL_OUT_OF_HOST_MEMORY, ret_error);
    }
    return kernel;
}

cl_kernel CL_API_CALL layer_create_kernel(cl_program program, const char *name, cl_int *ret_error)
{
    if (records_is_released(program)) {
        return fail(CL_INVALID_PROGRAM, ret_error);
    }
    program_record *record = records_hold(program);
    loaded_program *loaded = records_hold_loaded(record);
    cl_kernel kernel = loaded ? create_loaded_kernel(record, loaded, name, ret_error)
                              : layer_target()->clCreateKernel(program, name, ret_error);
    loaded_program_release(loaded);
    records_release(record);
    return kernel;
}

static cl_int create_loaded_kernels(program_record *record, loaded_program *loaded, cl_uint room,
                                    cl_kernel *ret_kernels, cl_uint *ret_count)
{
    cl_uint own_count = 0;
    cl_uint *count = ret_count ? ret_count : &own_count;
    const cl_int error =
        layer_target()->clCreateKernelsInProgram(loaded->program, room, ret_kernels, count);
    if (error != CL_SUCCESS) {
        return error;
    }
    for (cl_uint i = 0; ret_kernels && i < *count; i++) {
        if (records_add_kernel(ret_kernels[i], record, loaded) != KILN_OK) {
            for (cl_uint made = 0; made < *count; made++) {
                made < i ? layer_release_kernel(ret_kernels[made])
                         : layer_target()->clReleaseKernel(ret_kernels[made]);
            }
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    return CL_SUCCESS;
}

cl_int CL_API_CALL layer_create_kernels_in_program(cl_program program, cl_uint room,
                                                   cl_kernel *ret_kernels, cl_uint *ret_count)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    program_record *record = records_hold(program);
    loaded_program *loaded = records_hold_loaded(record);
    const cl_int error =
        loaded ? create_loaded_kernels(record, loaded, room, ret_kernels, ret_count)
               : layer_target()->clCreateKernelsInProgram(program, room, ret_kernels, ret_count);
    loaded_program_release(loaded);
    records_release(record);
    return error;
}

cl_kernel CL_API_CALL layer_clone_kernel(cl_kernel original, cl_int *ret_error)
{
    const cl_icd_dispatch *cl = layer_target();
    cl_kernel clone = cl->clCloneKernel(original, ret_error);
    if (clone && records_add_clone(clone, original) == KILN_E_NO_MEMORY) {
        cl->clReleaseKernel(clone);
        return fail(CL_OUT_OF_HOST_MEMORY, ret_error);
    }
    return clone;
}

/* ---- references ---- */

cl_int CL_API_CALL layer_retain_kernel(cl_kernel kernel)
{
    const cl_int error = layer_target()->clRetainKernel(kernel);
    if (error == CL_SUCCESS) {
        records_retain_kernel(kernel);
    }
    return error;
}

cl_int CL_API_CALL layer_release_kernel(cl_kernel kernel)
{
    program_record *record = records_release_kernel(kernel);
    const cl_int error = layer_target()->clReleaseKernel(kernel);
    if (record) {
        records_release_kernel_hold(record);
    }
    return error;
}

/* ---- queries ---- */

/* Returns the kernel's name, as the driver reports it; the caller frees it. */
static char *name_of(cl_kernel kernel)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    if (cl->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size) != CL_SUCCESS) {
        return NULL;
    }
    char *name = calloc(1, size + 1);
    if (name &&
        cl->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, size, name, NULL) != CL_SUCCESS) {
        free(name);
        return NULL;
    }
    return name;
}

static cl_int reply(const kilni_opencl_answer *answer, size_t room, void *ret_value,
                    size_t *ret_size)
{
    return answer->status == CL_SUCCESS
               ? kilni_opencl_return_info(answer->value.data, answer->value.size, room, ret_value,
                                          ret_size)
               : answer->status;
}

cl_int CL_API_CALL layer_get_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t room,
                                         void *ret_value, size_t *ret_size)
{
    cl_program program = NULL;
    loaded_program *loaded = NULL;
    const int is_recorded = what == CL_KERNEL_PROGRAM || what == CL_KERNEL_ATTRIBUTES;
    if (!is_recorded || !records_find_kernel(kernel, &program, &loaded)) {
        return layer_target()->clGetKernelInfo(kernel, what, room, ret_value, ret_size);
    }
    kilni_opencl_answer answer = {CL_SUCCESS, {&program, sizeof program}};
    kiln_status status = KILN_OK;
    if (what == CL_KERNEL_ATTRIBUTES) {
        char *name = name_of(kernel);
        status =
            name ? kilni_opencl_answers_attributes(loaded->answers[0], name, &answer) : KILN_MISS;
        free(name);
    }
    const cl_int error = status == KILN_OK ? reply(&answer, room, ret_value, ret_size)
                                           : layer_target()->clGetKernelInfo(kernel, what, room,
                                                                             ret_value, ret_size);
    loaded_program_release(loaded);
    return error;
}

cl_int CL_API_CALL layer_get_kernel_arg_info(cl_kernel kernel, cl_uint index,
                                             cl_kernel_arg_info what, size_t room, void *ret_value,
                                             size_t *ret_size)
{
    cl_program program = NULL;
    loaded_program *loaded = NULL;
    kilni_opencl_answer answer;
    kiln_status status = KILN_MISS;
    if (records_find_kernel(kernel, &program, &loaded)) {
        char *name = name_of(kernel);
        status = name
                     ? kilni_opencl_answers_argument(loaded->answers[0], name, index, what, &answer)
                     : KILN_MISS;
        free(name);
    }
    const cl_int error =
        status == KILN_OK
            ? reply(&answer, room, ret_value, ret_size)
            : layer_target()->clGetKernelArgInfo(kernel, index, what, room, ret_value, ret_size);
    loaded_program_release(loaded);
    return error;
}
