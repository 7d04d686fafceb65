/* SPDX-License-Identifier: Apache-2.0 */
#include "compile_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "device/opencl/inputs.h"
#include "layer.h"
#include "program_key.h"

/* ---- copying ---- */

/* Embedded headers are programs that the driver takes the source of. */
static kiln_status copy_header(const program_record *record, cl_program header, char **ret_code,
                               kiln_bytes *ret_header)
{
    program_record *of_header = records_hold(header);
    kiln_program_source source = {0};
    kiln_status status = KILN_E_UNSUPPORTED;
    if (of_header && of_header->origin == ORIGIN_SOURCE && of_header->context == record->context) {
        status = program_key_code(of_header, NULL, ret_code, &source);
    }
    records_release(of_header);
    if (status == KILN_OK) {
        *ret_header = source.code;
    }
    return status;
}

static kiln_status copy_headers(const program_record *record, const compile_arguments *arguments,
                                compile_inputs *inputs)
{
    const size_t room = (size_t)arguments->header_count + 1;
    inputs->header_count = arguments->header_count;
    inputs->header_names = calloc(room, sizeof *inputs->header_names);
    inputs->header_codes = calloc(room, sizeof *inputs->header_codes);
    inputs->headers = calloc(room, sizeof *inputs->headers);
    if (!inputs->header_names || !inputs->header_codes || !inputs->headers) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = KILN_OK;
    for (cl_uint i = 0; status == KILN_OK && i < inputs->header_count; i++) {
        if (!arguments->header_names[i]) {
            return KILN_E_UNSUPPORTED;
        }
        inputs->header_names[i] = strdup(arguments->header_names[i]);
        status = inputs->header_names[i]
                     ? copy_header(record, arguments->headers[i], &inputs->header_codes[i],
                                   &inputs->headers[i])
                     : KILN_E_NO_MEMORY;
    }
    return status;
}

static kiln_status copy_devices(const program_record *record, const compile_arguments *arguments,
                                compile_inputs *inputs)
{
    inputs->names_devices = arguments->device_count > 0;
    if (!inputs->names_devices) {
        return program_devices_of(record->program, &inputs->devices, &inputs->device_count);
    }
    inputs->device_count = arguments->device_count;
    return program_devices_copy(arguments->device_count, arguments->devices, &inputs->devices);
}

kiln_status compile_inputs_copy(const program_record *record, const compile_arguments *arguments,
                                compile_inputs *inputs)
{
    *inputs = (compile_inputs){.mode = kilni_floating_point_get()};
    if (arguments->options) {
        inputs->options = strdup(arguments->options);
        if (!inputs->options) {
            return KILN_E_NO_MEMORY;
        }
    }
    kiln_status status = copy_devices(record, arguments, inputs);
    if (status == KILN_OK) {
        status = program_key_code(record, inputs->options, &inputs->code, &inputs->source);
    }
    return status == KILN_OK ? copy_headers(record, arguments, inputs) : status;
}

static void free_texts(char **texts, cl_uint count)
{
    for (cl_uint i = 0; texts && i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

void compile_inputs_done(compile_inputs *inputs)
{
    free(inputs->options);
    free(inputs->devices);
    free_texts(inputs->header_names, inputs->header_count);
    free_texts(inputs->header_codes, inputs->header_count);
    free(inputs->headers);
    free(inputs->code);
    working_directory_done(&inputs->directory);
    *inputs = (compile_inputs){0};
}

/* ---- keys ---- */

static kiln_status add_constants(program_record *record, kiln_key_builder *builder)
{
    kilni_opencl_constants constants = {0};
    kiln_status status = records_copy_constants(record, &constants);
    if (status == KILN_OK) {
        status = kilni_opencl_constants_add_to_key(&constants, builder);
    }
    kilni_opencl_constants_done(&constants);
    return status;
}

static kiln_status make_key(const compile_inputs *inputs, program_record *record,
                            cl_device_id device, kiln_key **ret_key, kilni_opencl_files *ret_files,
                            kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = program_key_begin(record->platform, device, &builder, error);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "step", "compile");
    }
    if (status == KILN_OK) {
        status = kilni_opencl_add_inputs_with_headers(&inputs->source, inputs->header_count,
                                                      (const char *const *)inputs->header_names,
                                                      inputs->headers, builder, ret_files, error);
    }
    if (status == KILN_OK) {
        status = add_constants(record, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

kiln_status compile_inputs_make_keys(const compile_inputs *inputs, program_record *record,
                                     device_keys *ret_keys, kilni_opencl_files *ret_files,
                                     kiln_error *error)
{
    device_keys made = {.count = inputs->device_count};
    made.keys = calloc(made.count, sizeof(kiln_key *));
    kiln_status status = made.keys
                             ? program_devices_copy(made.count, inputs->devices, &made.devices)
                             : KILN_E_NO_MEMORY;
    if (status != KILN_OK) {
        free(made.keys);
        return status;
    }
    for (cl_uint i = 0; status == KILN_OK && i < made.count; i++) {
        status = make_key(inputs, record, made.devices[i], &made.keys[i], ret_files, error);
    }
    if (status != KILN_OK) {
        device_keys_done(&made);
        return status;
    }
    *ret_keys = made;
    return KILN_OK;
}

int compile_inputs_have_keys(const compile_inputs *inputs, program_record *record,
                             const device_keys *keys)
{
    if (!kilni_opencl_inputs_include_files(&inputs->source)) {
        return 1;
    }
    device_keys now = {0};
    int same = compile_inputs_make_keys(inputs, record, &now, NULL, NULL) == KILN_OK;
    for (cl_uint i = 0; same && i < keys->count; i++) {
        same = kiln_key_equals(now.keys[i], keys->keys[i]);
    }
    device_keys_done(&now);
    return same;
}

/* ---- compiling ---- */

static void release_programs(cl_program *programs, cl_uint count)
{
    for (cl_uint i = 0; programs && i < count; i++) {
        if (programs[i]) {
            layer_target()->clReleaseProgram(programs[i]);
        }
    }
    free(programs);
}

static cl_int make_headers(const compile_inputs *inputs, const program_record *record,
                           cl_program **ret_headers)
{
    cl_program *made = calloc((size_t)inputs->header_count + 1, sizeof(cl_program));
    cl_int error = made ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; error == CL_SUCCESS && i < inputs->header_count; i++) {
        const char *text = inputs->header_codes[i];
        made[i] = layer_target()->clCreateProgramWithSource(record->context, 1, &text,
                                                            &inputs->headers[i].size, &error);
    }
    if (error != CL_SUCCESS) {
        release_programs(made, inputs->header_count);
        return error;
    }
    *ret_headers = made;
    return CL_SUCCESS;
}

cl_int compile_inputs_compile(const compile_inputs *inputs, const program_record *record)
{
    cl_program *headers = NULL;
    cl_int error = make_headers(inputs, record, &headers);
    if (error == CL_SUCCESS) {
        const int has_headers = inputs->header_count > 0;
        const char **names = (void *)inputs->header_names;
        error = layer_target()->clCompileProgram(
            record->program, inputs->names_devices ? inputs->device_count : 0,
            inputs->names_devices ? inputs->devices : NULL, inputs->options, inputs->header_count,
            has_headers ? headers : NULL, has_headers ? names : NULL, NULL, NULL);
    }
    release_programs(headers, inputs->header_count);
    return error;
}
