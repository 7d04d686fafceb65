/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include "build.h"
#include "layer.h"
#include "records.h"
#include "trace.h"

static void count_passed(const char *call, const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed(call, reason);
}

cl_int CL_API_CALL layer_compile_program(cl_program program, cl_uint device_count,
                                         const cl_device_id *devices, const char *options,
                                         cl_uint header_count, const cl_program *headers,
                                         const char **header_names,
                                         void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user_data)
{
    if (records_is_let_go(program)) {
        return CL_INVALID_PROGRAM;
    }
    program_record *record = records_hold(program);
    if (record) {
        const int is_refused = records_has_kernels(record);
        if (!is_refused) {
            build_natively(record, "compiled after it was built");
            /* What a later build makes of it depends on the headers of this compile. */
            records_begin_native(record);
        }
        records_release(record);
        if (is_refused) {
            return CL_INVALID_OPERATION;
        }
    }
    count_passed("clCompileProgram", "compile and link");
    return layer_target()->clCompileProgram(program, device_count, devices, options, header_count,
                                            headers, header_names, notify, user_data);
}

cl_program CL_API_CALL layer_link_program(cl_context context, cl_uint device_count,
                                          const cl_device_id *devices, const char *options,
                                          cl_uint input_count, const cl_program *inputs,
                                          void(CL_CALLBACK *notify)(cl_program, void *),
                                          void *user_data, cl_int *ret_error)
{
    for (cl_uint i = 0; inputs && i < input_count; i++) {
        if (records_is_let_go(inputs[i])) {
            if (ret_error) {
                *ret_error = CL_INVALID_PROGRAM;
            }
            return NULL;
        }
        program_record *record = records_hold(inputs[i]);
        if (record) {
            build_natively(record, "input of a link");
            records_release(record);
        }
    }
    count_passed("clLinkProgram", "compile and link");
    cl_program program = layer_target()->clLinkProgram(
        context, device_count, devices, options, input_count, inputs, notify, user_data, ret_error);
    if (program) {
        records_add_program(program, context, ORIGIN_LINKED);
    }
    return program;
}
