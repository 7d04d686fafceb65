/* SPDX-License-Identifier: Apache-2.0 */
#include "program_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "target.h"

kiln_status program_read_code(const program_record *record, const char *options, char **ret_code,
                              kiln_program_source *ret_source)
{
    const cl_icd_dispatch *cl = layer_target();
    const int is_source = record->origin == ORIGIN_SOURCE;
    const cl_program_info what = is_source ? CL_PROGRAM_SOURCE : CL_PROGRAM_IL;
    size_t size = 0;
    if (cl->clGetProgramInfo(record->program, what, 0, NULL, &size) != CL_SUCCESS || size == 0) {
        return KILN_E_UNSUPPORTED;
    }
    *ret_code = malloc(size);
    if (!*ret_code) {
        return KILN_E_NO_MEMORY;
    }
    if (cl->clGetProgramInfo(record->program, what, size, *ret_code, NULL) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    const size_t text_size = is_source ? strnlen(*ret_code, size) : size;
    if (is_source && text_size + 1 < size) {
        return KILN_E_UNSUPPORTED; /* it is not known if a driver reads beyond a zero byte */
    }
    *ret_source = (kiln_program_source){
        .struct_size = sizeof *ret_source,
        .form = is_source ? KILN_SOURCE_TEXT : KILN_SOURCE_IL,
        .code = {*ret_code, text_size},
        .options = options,
    };
    return KILN_OK;
}

kiln_status program_inputs_read(program_record *record, const char *options, program_inputs *inputs)
{
    const kiln_status status = program_read_code(record, options, &inputs->code, &inputs->source);
    return status == KILN_OK ? records_copy_constants(record, &inputs->constants) : status;
}

void program_inputs_done(program_inputs *inputs)
{
    free(inputs->code);
    kilni_opencl_constants_done(&inputs->constants);
}

/* ---- devices ---- */

kiln_status program_devices_copy(cl_uint count, const cl_device_id *devices,
                                 cl_device_id **ret_devices)
{
    cl_device_id *copied = malloc(count * sizeof *copied);
    if (!copied) {
        return KILN_E_NO_MEMORY;
    }
    memcpy(copied, devices, count * sizeof *copied);
    *ret_devices = copied;
    return KILN_OK;
}

/* Asks the driver for the devices of a program, or of the context if @program is NULL. */
static cl_int ask_for_devices(cl_program program, cl_context context, size_t room,
                              cl_device_id *ret_devices, size_t *ret_size)
{
    const cl_icd_dispatch *cl = layer_target();
    return program ? cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, room, ret_devices, ret_size)
                   : cl->clGetContextInfo(context, CL_CONTEXT_DEVICES, room, ret_devices, ret_size);
}

static kiln_status get_devices(cl_program program, cl_context context, cl_device_id **ret_devices,
                               cl_uint *ret_count)
{
    size_t size = 0;
    if (ask_for_devices(program, context, 0, NULL, &size) != CL_SUCCESS) {
        return KILN_E_UNSUPPORTED;
    }
    cl_device_id *devices = malloc(size + 1);
    if (!devices) {
        return KILN_E_NO_MEMORY;
    }
    if (ask_for_devices(program, context, size, devices, NULL) != CL_SUCCESS) {
        free(devices);
        return KILN_E_UNSUPPORTED;
    }
    *ret_devices = devices;
    *ret_count = (cl_uint)(size / sizeof *devices);
    return KILN_OK;
}

kiln_status program_devices_of(cl_program program, cl_device_id **ret_devices, cl_uint *ret_count)
{
    return get_devices(program, NULL, ret_devices, ret_count);
}

kiln_status program_devices_of_context(cl_context context, cl_device_id **ret_devices,
                                       cl_uint *ret_count)
{
    return get_devices(NULL, context, ret_devices, ret_count);
}

int program_has_devices(cl_program program, cl_uint count, const cl_device_id *devices)
{
    cl_device_id *of_program = NULL;
    cl_uint of_program_count = 0;
    int all = program_devices_of(program, &of_program, &of_program_count) == KILN_OK;
    for (cl_uint i = 0; all && i < count; i++) {
        cl_uint place = 0;
        while (place < of_program_count && of_program[place] != devices[i]) {
            place++;
        }
        all = place < of_program_count;
    }
    free(of_program);
    return all;
}
