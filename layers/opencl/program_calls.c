/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include "records.h"
#include "target.h"

cl_program CL_API_CALL layer_create_program_with_source(cl_context context, cl_uint count,
                                                        const char **strings, const size_t *lengths,
                                                        cl_int *ret_error)
{
    cl_program program =
        layer_target()->clCreateProgramWithSource(context, count, strings, lengths, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_SOURCE);
    }
    return program;
}

cl_program CL_API_CALL layer_create_program_with_il(cl_context context, const void *il,
                                                    size_t length, cl_int *ret_error)
{
    cl_program program = layer_target()->clCreateProgramWithIL(context, il, length, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_IL);
    }
    return program;
}

cl_program CL_API_CALL layer_create_program_with_binary(cl_context context, cl_uint device_count,
                                                        const cl_device_id *devices,
                                                        const size_t *lengths,
                                                        const unsigned char **binaries,
                                                        cl_int *ret_statuses, cl_int *ret_error)
{
    cl_program program = layer_target()->clCreateProgramWithBinary(
        context, device_count, devices, lengths, binaries, ret_statuses, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_BINARY);
    }
    return program;
}

cl_program CL_API_CALL layer_create_program_with_built_in_kernels(cl_context context,
                                                                  cl_uint device_count,
                                                                  const cl_device_id *devices,
                                                                  const char *names,
                                                                  cl_int *ret_error)
{
    cl_program program = layer_target()->clCreateProgramWithBuiltInKernels(
        context, device_count, devices, names, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_BUILT_IN);
    }
    return program;
}

cl_int CL_API_CALL layer_retain_program(cl_program program)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    const cl_int error = layer_target()->clRetainProgram(program);
    if (error == CL_SUCCESS) {
        records_retain_program(program);
    }
    return error;
}

cl_int CL_API_CALL layer_release_program(cl_program program)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    records_release_program(program);
    return layer_target()->clReleaseProgram(program);
}

cl_int CL_API_CALL layer_set_specialization_constant(cl_program program, cl_uint id, size_t size,
                                                     const void *value)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    const cl_int error =
        layer_target()->clSetProgramSpecializationConstant(program, id, size, value);
    if (error == CL_SUCCESS) {
        records_set_constant(program, id, size, value);
    }
    return error;
}
