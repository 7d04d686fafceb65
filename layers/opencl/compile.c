/* SPDX-License-Identifier: Apache-2.0
 *
 * clCompileProgram: it goes to the driver, and what was compiled is remembered as a key, so that
 * links of it can be found.
 */
#include "calls.h"

#include <stdlib.h>

#include "base/error.h"
#include "build.h"
#include "device/opencl/inputs.h"
#include "layer.h"
#include "program_entry.h"
#include "program_key.h"
#include "records.h"
#include "trace.h"

/* One call of clCompileProgram, as far as its key goes. */
typedef struct compile_call {
    program_record *record; /* held by the caller */
    cl_uint header_count;
    const char **header_names; /* the application's */

    char *code;
    kiln_program_source source;
    char **header_codes; /* owned, also each of them */
    kiln_bytes *headers; /* the same without what ends them */
    cl_device_id *devices;
    cl_uint device_count;
    kiln_key **keys; /* one for each device */
} compile_call;

/* ---- what is to be compiled ---- */

/* Embedded headers are programs that the driver takes the source of. */
static kiln_status use_header(cl_program program, char **ret_code, kiln_bytes *ret_header)
{
    program_record *record = records_hold(program);
    if (!record || record->origin != ORIGIN_SOURCE) {
        records_release(record);
        return KILN_E_UNSUPPORTED;
    }
    kiln_program_source source;
    const kiln_status status = program_key_code(record, NULL, ret_code, &source);
    records_release(record);
    if (status == KILN_OK) {
        *ret_header = source.code;
    }
    return status;
}

static kiln_status use_headers(compile_call *call, const cl_program *headers)
{
    call->header_codes = calloc(call->header_count + 1, sizeof *call->header_codes);
    call->headers = calloc(call->header_count + 1, sizeof *call->headers);
    kiln_status status = call->header_codes && call->headers ? KILN_OK : KILN_E_NO_MEMORY;
    for (cl_uint i = 0; status == KILN_OK && i < call->header_count; i++) {
        status = call->header_names[i]
                     ? use_header(headers[i], &call->header_codes[i], &call->headers[i])
                     : KILN_E_UNSUPPORTED;
    }
    return status;
}

static kiln_status use_devices(compile_call *call, cl_uint count, const cl_device_id *devices)
{
    if (count == 0) {
        return program_devices_of(call->record->program, &call->devices, &call->device_count);
    }
    call->device_count = count;
    return program_devices_copy(count, devices, &call->devices);
}

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

static kiln_status make_key(const compile_call *call, cl_device_id device, kiln_key **ret_key,
                            kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = program_key_begin(call->record->platform, device, &builder, error);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "step", "compile");
    }
    if (status == KILN_OK) {
        status = kilni_opencl_add_inputs_with_headers(
            &call->source, call->header_count, call->header_names, call->headers, builder, error);
    }
    if (status == KILN_OK) {
        status = add_constants(call->record, builder);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status make_keys(compile_call *call, kiln_error *error)
{
    call->keys = calloc(call->device_count, sizeof(kiln_key *));
    kiln_status status = call->keys ? KILN_OK : KILN_E_NO_MEMORY;
    for (cl_uint i = 0; status == KILN_OK && i < call->device_count; i++) {
        status = make_key(call, call->devices[i], &call->keys[i], error);
    }
    return status;
}

static void free_call(compile_call *call)
{
    for (cl_uint i = 0; call->header_codes && i < call->header_count; i++) {
        free(call->header_codes[i]);
    }
    free(call->header_codes);
    free(call->headers);
    free(call->code);
    program_keys_free(call->keys, call->device_count);
    free(call->devices);
}

/* ---- its key ---- */

/* Drivers may take a compile with equal options for one that they have done: so only a program's
 * first is sure to be of what it reads now. */
static const char *reason_to_have_no_key(program_record *record)
{
    if (!record) {
        return "a program that isn't tracked";
    }
    if (record->origin != ORIGIN_SOURCE && record->origin != ORIGIN_IL) {
        return "neither source nor intermediate language";
    }
    if (records_is_native(record)) {
        return "the driver has built this program before";
    }
    const char *obstacle = program_key_obstacle(record->platform);
    return obstacle || record->platform->traits->links_reload
               ? obstacle
               : "links of this driver aren't looked up";
}

/* Calls whose arguments are wrong are the driver's to refuse. */
static int is_well_formed(cl_uint device_count, const cl_device_id *devices, cl_uint header_count,
                          const cl_program *headers, const char **header_names)
{
    return (device_count == 0) == (devices == NULL) && (header_count == 0) == (headers == NULL) &&
           (header_count == 0) == (header_names == NULL);
}

/* Included files may have changed while the driver read them. */
static int has_same_keys(const compile_call *call)
{
    int same = 1;
    for (cl_uint i = 0;
         same && kilni_opencl_inputs_include_files(&call->source) && i < call->device_count; i++) {
        kiln_key *again = NULL;
        same = make_key(call, call->devices[i], &again, NULL) == KILN_OK &&
               kiln_key_equals(again, call->keys[i]);
        kiln_key_release(&again);
    }
    return same;
}

/* Before the driver compiles: 1 where the call has keys, else @error says why not. */
static int find_keys(compile_call *call, const char *options, cl_uint device_count,
                     const cl_device_id *devices, const cl_program *headers, kiln_error *error)
{
    kiln_status status = use_devices(call, device_count, devices);
    if (status == KILN_OK) {
        status = program_key_code(call->record, options, &call->code, &call->source);
    }
    if (status == KILN_OK) {
        status = use_headers(call, headers);
    }
    if (status == KILN_OK) {
        status = make_keys(call, error);
    }
    if (status != KILN_OK && !error->text[0]) {
        kilni_error_set(error, status, 0, "%s", kiln_status_text(status));
    }
    return status == KILN_OK;
}

/* After the driver compiled: from now on links of it can be found. */
static void keep_keys(compile_call *call, unsigned generation)
{
    if (program_status(call->record->program, call->device_count, call->devices) != KILN_OK ||
        !has_same_keys(call)) {
        return;
    }
    records_set_compiled(call->record, generation,
                         (device_keys){call->device_count, call->devices, call->keys});
    call->devices = NULL;
    call->keys = NULL;
}

/* ---- the call ---- */

static cl_int refuse_or_make_native(program_record *record)
{
    if (records_has_kernels(record)) {
        return CL_INVALID_OPERATION;
    }
    build_natively(record, "compiled after it was built");
    return CL_SUCCESS;
}

static void pass_through(const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed("clCompileProgram", reason);
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
    if (record && refuse_or_make_native(record) != CL_SUCCESS) {
        records_release(record);
        return CL_INVALID_OPERATION;
    }
    compile_call call = {
        .record = record, .header_count = header_count, .header_names = header_names};
    kiln_error error = {.struct_size = sizeof error};
    const char *reason = reason_to_have_no_key(record);
    int has_keys = 0;
    if (!reason && is_well_formed(device_count, devices, header_count, headers, header_names)) {
        has_keys = find_keys(&call, options, device_count, devices, headers, &error);
    }
    pass_through(reason          ? reason
                 : has_keys      ? "compiled by the driver; links of it are found"
                 : error.text[0] ? error.text
                                 : "wrong arguments");

    /* From now on P is the driver's: what a later build makes of it depends on the headers of this
     * compile. */
    const unsigned generation = record ? records_begin_native(record) : 0;
    if (has_keys) {
        records_hold_at_driver(record);
    }
    const cl_int answer =
        layer_target()->clCompileProgram(program, device_count, devices, options, header_count,
                                         headers, header_names, notify, user_data);
    if (has_keys && generation == 1 && answer == CL_SUCCESS) {
        keep_keys(&call, generation);
    }
    if (has_keys) {
        records_release_at_driver(record);
    }
    free_call(&call);
    records_release(record);
    return answer;
}
