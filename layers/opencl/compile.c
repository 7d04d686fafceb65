/* SPDX-License-Identifier: Apache-2.0
 *
 * clCompileProgram under the cache: after a hit the driver has compiled nothing until something
 * needs its object. What was compiled is remembered as a key too, by which links of it are found.
 */
#include "calls.h"

#include <pthread.h>
#include <stdlib.h>

#include "../shared/trace.h"
#include "base/error.h"
#include "build.h"
#include "compile_inputs.h"
#include "deferred_compile.h"
#include "layer.h"
#include "program_entry.h"
#include "program_key.h"
#include "records.h"

/* One call of clCompileProgram. */
typedef struct compile_call {
    program_record *record; /* held by the caller */
    const compile_arguments *arguments;
    compile_inputs inputs;
    device_keys keys;

    deferred_compile *made; /* what a hit made */
    int was_at_driver;      /* the driver was asked to compile */
    unsigned generation;    /* of that compile */
    cl_int error;           /* what it answered */
    int is_as_keys_say;     /* what it compiled */
    int is_callback_due;    /* by the layer: the driver wasn't asked */
} compile_call;

static void free_call(compile_call *call)
{
    compile_inputs_done(&call->inputs);
    device_keys_done(&call->keys);
}

/* Why a compile of this program passes through, as far as the record tells; NULL: it doesn't.
 * Drivers may take a compile with equal options for one that they have done: so only a program's
 * first is sure to be of what it reads now. */
static const char *reason_to_pass(program_record *record)
{
    if (record->origin != ORIGIN_SOURCE && record->origin != ORIGIN_IL) {
        return "neither source nor intermediate language";
    }
    if (records_is_native(record)) {
        return "the driver has built this program before";
    }
    const char *obstacle = program_key_obstacle(record->platform);
    if (!obstacle && !record->platform->traits->links_reload) {
        return "links of this driver aren't looked up";
    }
    return obstacle;
}

static cl_int call_driver(cl_program program, const compile_arguments *arguments)
{
    return layer_target()->clCompileProgram(program, arguments->device_count, arguments->devices,
                                            arguments->options, arguments->header_count,
                                            arguments->headers, arguments->header_names,
                                            arguments->notify, arguments->user_data);
}

/* ---- the request's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    compile_call *call = user;
    return deferred_compile_new(&call->inputs, entries, &call->made);
}

static void compile_at_driver(compile_call *call)
{
    call->generation = records_begin_native(call->record);
    records_set_phase(call->record, BUILD_AT_DRIVER);
    call->was_at_driver = 1;
    call->error = call_driver(call->record->program, call->arguments);
}

/* The application may compile the program again from its callback, or build it meanwhile: then
 * what it holds is no longer of this compile. */
static kiln_status check_generation(const compile_call *call)
{
    return records_is_generation(call->record, call->generation) ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status build(void *user, kiln_error *error)
{
    compile_call *call = user;
    compile_at_driver(call);
    if (call->error != CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_BUILD, 0, "the driver answered %d", call->error);
    }
    kiln_status status = check_generation(call);
    if (status == KILN_OK) {
        status =
            program_status(call->record->program, call->inputs.device_count, call->inputs.devices);
    }
    call->is_as_keys_say =
        status == KILN_OK && compile_inputs_have_keys(&call->inputs, call->record, &call->keys);
    return status;
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry)
{
    (void)replaced; /* OpenCL's entries are of what their keys say */
    compile_call *call = user;
    if (!call->is_as_keys_say) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_entry *entry = NULL;
    kiln_status status =
        deferred_compile_capture(&call->inputs, call->record->program, call->keys.devices[index],
                                 call->keys.keys[index], build_ns, &entry);
    if (status == KILN_OK) {
        status = check_generation(call);
    }
    if (status != KILN_OK) {
        kiln_entry_release(&entry);
        return status;
    }
    *ret_entry = entry;
    return KILN_OK;
}

static const kilni_request_ops request_ops = {.load = load, .build = build, .capture = capture};

/* ---- ways through a call ---- */

static void count_passed(const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed("clCompileProgram", reason);
}

static cl_int pass_through(compile_call *call, const char *reason)
{
    count_passed(reason);
    compile_at_driver(call);
    return call->error;
}

static device_keys take_keys(compile_call *call)
{
    const device_keys taken = call->keys;
    call->keys = (device_keys){0};
    return taken;
}

static cl_int request(compile_call *call)
{
    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES,
        .is_alone = call->arguments->notify != NULL,
        .keys = (const kiln_key *const *)call->keys.keys,
        .key_count = call->keys.count,
        .ops = &request_ops,
        .user = call,
    };
    kilni_request_result result = {0};
    records_hold_at_driver(call->record);
    /* A thread that is cancelled half-way would leave those who wait for it waiting for ever. */
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const kiln_status status = kilni_request_run(session_requests(), &wanted, &result, NULL);
    if (!call->made && !call->was_at_driver) {
        compile_at_driver(call);
    }
    trace_request(call->keys.keys[0], &result, status);
    if (call->made) {
        records_set_deferred(call->record, call->made, take_keys(call));
        if (platform_is_seen_through(call->record->platform)) {
            compile_natively(call->record, "an extension function that sees programs is in use");
        }
        call->is_callback_due = 1;
    } else if (call->is_as_keys_say) {
        records_set_compiled(call->record, call->generation, take_keys(call));
    }
    records_release_at_driver(call->record);
    pthread_setcancelstate(cancel_state, &cancel_state);
    return call->error;
}

/* A deferred compile reads its files when the driver's object is needed, so they must stay what
 * they are until then. They are taken to, where nobody has touched them since this process started;
 * and names that go by the working directory are looked for in the one of this call. */
static int can_be_deferred(compile_call *call, const kilni_opencl_files *files)
{
    if (files->names_are_used || files->changed_ns >= session_start_ns()) {
        return 0;
    }
    return !files->are_relative || (working_directory_can_be_kept() &&
                                    working_directory_note(&call->inputs.directory) == KILN_OK);
}

static cl_int compile_with_keys(compile_call *call)
{
    count_passed("files that may change yet; links of it are looked up");
    records_hold_at_driver(call->record);
    build(call, NULL);
    if (call->is_as_keys_say) {
        records_set_compiled(call->record, call->generation, take_keys(call));
    }
    records_release_at_driver(call->record);
    return call->error;
}

static cl_int look_up_or_compile(compile_call *call)
{
    const char *reason = reason_to_pass(call->record);
    if (reason) {
        return pass_through(call, reason);
    }
    kiln_error error = {.struct_size = sizeof error};
    kilni_opencl_files files = {0};
    kiln_status status = compile_inputs_copy(call->record, call->arguments, &call->inputs);
    if (status == KILN_OK &&
        (call->inputs.device_count == 0 || call->inputs.device_count > KILNI_REQUEST_KEYS_MAX)) {
        return pass_through(call, "no devices, or too many");
    }
    if (status == KILN_OK) {
        status = compile_inputs_make_keys(&call->inputs, call->record, &call->keys, &files, &error);
    }
    if (status != KILN_OK) {
        return pass_through(call, error.text[0] ? error.text : kiln_status_text(status));
    }
    return can_be_deferred(call, &files) ? request(call) : compile_with_keys(call);
}

static cl_int compile_tracked(compile_call *call)
{
    if (records_has_kernels(call->record)) {
        return CL_INVALID_OPERATION;
    }
    build_natively(call->record, "compiled after it was built");
    return look_up_or_compile(call);
}

/* ---- the call ---- */

/* Calls whose arguments are wrong are the driver's to refuse. */
static int is_well_formed(const compile_arguments *arguments)
{
    const int has_headers = arguments->header_count > 0;
    return (arguments->device_count == 0) == (arguments->devices == NULL) &&
           has_headers == (arguments->headers != NULL) &&
           has_headers == (arguments->header_names != NULL) &&
           (arguments->notify || !arguments->user_data);
}

/* Should the driver take them all the same, P is its own. */
static cl_int refuse_by_driver(program_record *record, const compile_arguments *arguments)
{
    const cl_int error = call_driver(record->program, arguments);
    if (error == CL_SUCCESS) {
        records_begin_native(record);
        records_drop_twin(record);
    }
    return error;
}

/* A compile on a program that the layer keeps track of. */
static cl_int compile(program_record *record, const compile_arguments *arguments)
{
    compile_natively(record, "compiled again");
    if (!is_well_formed(arguments) ||
        !program_has_devices(record->program, arguments->device_count, arguments->devices)) {
        return refuse_by_driver(record, arguments);
    }
    const build_phase before = records_start_building(record);
    if (before == BUILD_LOOKED_UP) {
        return CL_INVALID_OPERATION;
    }
    if (before == BUILD_AT_DRIVER) {
        records_begin_native(record);
        return call_driver(record->program, arguments);
    }
    compile_call call = {.record = record, .arguments = arguments};
    const cl_int error = compile_tracked(&call);
    records_set_phase(record, BUILD_NONE);
    if (call.is_callback_due && arguments->notify) {
        arguments->notify(record->program, arguments->user_data);
    }
    free_call(&call);
    return error;
}

cl_int CL_API_CALL layer_compile_program(cl_program program, cl_uint device_count,
                                         const cl_device_id *devices, const char *options,
                                         cl_uint header_count, const cl_program *headers,
                                         const char **header_names,
                                         void(CL_CALLBACK *notify)(cl_program, void *),
                                         void *user_data)
{
    const compile_arguments arguments = {
        .device_count = device_count,
        .devices = devices,
        .options = options,
        .header_count = header_count,
        .headers = headers,
        .header_names = header_names,
        .notify = notify,
        .user_data = user_data,
    };
    if (records_is_let_go(program) || records_has_let_go(header_count, headers)) {
        return CL_INVALID_PROGRAM;
    }
    program_record *record = records_hold(program);
    if (!record) {
        count_passed("a program that isn't tracked");
        return call_driver(program, &arguments);
    }
    const cl_int error = compile(record, &arguments);
    records_release(record);
    return error;
}
