/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/trace.h"
#include "base/error.h"
#include "deferred_compile.h"
#include "device/opencl/inputs.h"
#include "helper.h"
#include "layer.h"
#include "platforms.h"
#include "program_entry.h"
#include "program_key.h"

/* One call of clBuildProgram. */
typedef struct build_call {
    program_record *record; /* held */
    cl_program program;
    cl_uint argument_count; /* devices as the application passed them */
    const cl_device_id *argument_devices;
    const char *options;
    build_callback notify;
    void *user_data;

    cl_device_id *devices; /* the same, or all of the program's; owned */
    cl_uint device_count;
    char *code; /* source or intermediate language; owned */
    kiln_program_source source;
    kilni_opencl_constants constants;
    kiln_key **keys; /* one for each device; owned */

    twin *made;          /* what a hit made */
    int was_at_driver;   /* the driver was asked to build */
    unsigned generation; /* of that build */
    cl_int error;        /* what it answered */
    int is_callback_due; /* by the layer: the driver wasn't asked */
} build_call;

/* ---- what is to be built ---- */

static kiln_status use_devices(build_call *call)
{
    if (call->argument_count == 0) {
        return program_devices_of(call->program, &call->devices, &call->device_count);
    }
    call->device_count = call->argument_count;
    return program_devices_copy(call->argument_count, call->argument_devices, &call->devices);
}

static kiln_status make_key(const build_call *call, cl_device_id device, kiln_key **ret_key,
                            kiln_error *error)
{
    return program_key_of_build(call->record->platform, device, &call->source, &call->constants,
                                ret_key, error);
}

static kiln_status make_keys(build_call *call, kiln_error *error)
{
    call->keys = calloc(call->device_count, sizeof(kiln_key *));
    kiln_status status = call->keys ? KILN_OK : KILN_E_NO_MEMORY;
    for (cl_uint i = 0; status == KILN_OK && i < call->device_count; i++) {
        status = make_key(call, call->devices[i], &call->keys[i], error);
    }
    return status;
}

static void free_call(build_call *call)
{
    program_keys_free(call->keys, call->device_count);
    free(call->devices);
    free(call->code);
    kilni_opencl_constants_done(&call->constants);
    records_release(call->record);
}

/* Why a build of this program passes through, as far as the record tells; NULL: it doesn't. */
static const char *reason_to_pass(program_record *record)
{
    static const char *const by_origin[] = {
        [ORIGIN_BINARY] = "a binary of the application's",
        [ORIGIN_BUILT_IN] = "built-in kernels",
        [ORIGIN_LINKED] = "a linked program",
    };
    if (record->origin != ORIGIN_SOURCE && record->origin != ORIGIN_IL) {
        return by_origin[record->origin];
    }
    if (records_is_native(record)) {
        return "the driver has built this program before";
    }
    return program_key_obstacle(record->platform);
}

/* ---- the request's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    build_call *call = user;
    return program_load(call->record->context, call->device_count, call->devices, entries,
                        call->options, &call->made);
}

static void build_at_driver(build_call *call)
{
    call->generation = records_begin_native(call->record);
    records_set_phase(call->record, BUILD_AT_DRIVER);
    call->was_at_driver = 1;
    call->error =
        layer_target()->clBuildProgram(call->program, call->argument_count, call->argument_devices,
                                       call->options, call->notify, call->user_data);
}

/* The application may build the program again from its callback, or compile it meanwhile: then
 * what it holds is no longer this build's. */
static kiln_status check_generation(const build_call *call)
{
    return records_is_generation(call->record, call->generation) ? KILN_OK : KILN_E_UNSUPPORTED;
}

static kiln_status build(void *user, kiln_error *error)
{
    build_call *call = user;
    build_at_driver(call);
    if (call->error != CL_SUCCESS) {
        return kilni_error_set(error, KILN_E_BUILD, 0, "the driver answered %d", call->error);
    }
    const kiln_status status = check_generation(call);
    return status == KILN_OK ? program_status(call->program, call->device_count, call->devices)
                             : status;
}

/* Included files may have changed while the driver read them: then what was built is not what the
 * key says. */
static kiln_status check_inputs(const build_call *call, size_t index)
{
    if (!kilni_opencl_inputs_include_files(&call->source)) {
        return KILN_OK;
    }
    kiln_key *again = NULL;
    kiln_status status = make_key(call, call->devices[index], &again, NULL);
    if (status == KILN_OK && !kiln_key_equals(again, call->keys[index])) {
        status = KILN_E_UNSUPPORTED;
    }
    kiln_key_release(&again);
    return status;
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry)
{
    (void)replaced; /* OpenCL's entries are of what their keys say */
    build_call *call = user;
    kiln_entry *entry = NULL;
    kiln_status status = check_generation(call);
    if (status == KILN_OK) {
        status = check_inputs(call, index);
    }
    if (status == KILN_OK) {
        status = program_capture(call->record->platform, call->program, call->devices[index],
                                 call->keys[index], build_ns, &entry);
    }
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

static const kilni_request_ops captures_at_once = {
    .load = load, .build = build, .capture = capture};
static const kilni_request_ops captures_elsewhere = {.load = load, .build = build};

static int is_captured_at_once(const build_call *call)
{
    return call->record->platform->traits->capture_cost == KILN_CAPTURE_CHEAP;
}

/* What was built, for the application's own question for its binaries. */
static void remember_uncaptured(const build_call *call, uint64_t build_ns)
{
    device_keys built = {.count = call->device_count};
    built.keys = calloc(built.count, sizeof(kiln_key *));
    if (!built.keys ||
        program_devices_copy(built.count, call->devices, &built.devices) != KILN_OK) {
        free(built.keys);
        return;
    }
    for (cl_uint i = 0; i < built.count; i++) {
        built.keys[i] = kiln_key_retain(call->keys[i]);
    }
    records_set_uncaptured(call->record, call->generation, built, build_ns);
}

static void request_capture(const build_call *call, uint64_t build_ns)
{
    const kilni_opencl_described_build built = {
        .cl = layer_target(),
        .platform_name = call->record->platform->name,
        .device_count = call->device_count,
        .devices = call->devices,
        .keys = (const kiln_key *const *)call->keys,
        .source = &call->source,
        .constants = &call->constants,
        .key_environment = layer_key_environment(),
        .build_ns = build_ns,
    };
    helper_request(&built, call->record->platform->traits);
}

/* Leaves what was built to be captured by another process, or with the application's help. */
static void leave_uncaptured(const build_call *call, uint64_t build_ns)
{
    kiln_status status = session_can_store() ? KILN_OK : KILN_MISS;
    for (cl_uint i = 0; status == KILN_OK && i < call->device_count; i++) {
        status = check_inputs(call, i);
    }
    if (status == KILN_OK && check_generation(call) == KILN_OK) {
        remember_uncaptured(call, build_ns);
        request_capture(call, build_ns);
    }
}

/* ---- ways through a call ---- */

static cl_int pass_through(build_call *call, const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed("clBuildProgram", reason);
    build_at_driver(call);
    return call->error;
}

static cl_int request(build_call *call)
{
    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES,
        .is_alone = call->notify != NULL,
        .keys = (const kiln_key *const *)call->keys,
        .key_count = call->device_count,
        .ops = is_captured_at_once(call) ? &captures_at_once : &captures_elsewhere,
        .user = call,
    };
    kilni_request_result result = {0};
    records_hold_at_driver(call->record);
    const kiln_status status = kilni_request_run(session_requests(), &wanted, &result, NULL);
    if (call->made) {
        records_set_twin(call->record, call->made);
        if (platform_is_seen_through(call->record->platform)) {
            build_natively(call->record, "an extension function that sees programs is in use");
        }
        call->is_callback_due = 1;
    } else if (!call->was_at_driver) {
        build_at_driver(call);
    }
    if (status == KILN_OK && result.source == KILNI_FROM_BUILD && !is_captured_at_once(call)) {
        leave_uncaptured(call, result.build_ns);
    }
    if (!is_captured_at_once(call)) {
        helper_look_for_waiting();
    }
    records_release_at_driver(call->record);
    trace_request(call->keys[0], &result, status);
    return call->error;
}

static cl_int look_up_or_build(build_call *call)
{
    const char *reason = reason_to_pass(call->record);
    if (reason) {
        return pass_through(call, reason);
    }
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = use_devices(call);
    if (status == KILN_OK &&
        (call->device_count == 0 || call->device_count > KILNI_REQUEST_KEYS_MAX)) {
        return pass_through(call, "no devices, or too many");
    }
    if (status == KILN_OK) {
        status = program_key_code(call->record, call->options, &call->code, &call->source);
    }
    if (status == KILN_OK) {
        status = records_copy_constants(call->record, &call->constants);
    }
    if (status == KILN_OK) {
        status = make_keys(call, &error);
    }
    if (status != KILN_OK) {
        return pass_through(call, error.text[0] ? error.text : kiln_status_text(status));
    }
    return request(call);
}

/* ---- building again what has a twin ---- */

static int has_same_options(const build_call *call, const twin *of)
{
    return call->options && of->options ? strcmp(call->options, of->options) == 0
                                        : call->options == of->options;
}

/* Whether the call names the same devices as the twin, in any order. */
static int has_same_devices(build_call *call, const twin *of)
{
    build_call named = *call;
    named.devices = NULL;
    int same = use_devices(&named) == KILN_OK && named.device_count == of->device_count;
    for (cl_uint i = 0; same && i < named.device_count; i++) {
        same = twin_find_device(of, named.devices[i]) < of->device_count;
    }
    free(named.devices);
    return same;
}

/* As the driver would take a further build of what it had built before. */
static cl_int build_again(build_call *call, const twin *of)
{
    if (records_has_kernels(call->record)) {
        return CL_INVALID_OPERATION;
    }
    const int same_devices = has_same_devices(call, of);
    if (same_devices && has_same_options(call, of) &&
        call->record->platform->traits->rebuild_is_no_op) {
        call->is_callback_due = 1;
        return CL_SUCCESS;
    }
    if (!same_devices) {
        build_natively(call->record, "a build for other devices than before");
        return pass_through(call, "built for other devices before");
    }
    records_drop_twin(call->record);
    return look_up_or_build(call);
}

/* A linked program has nothing to be built of. What its driver says to that, it says to one that is
 * made of the binary too; and where it tries and fails, nothing is left to answer for. */
static cl_int build_linked(build_call *call)
{
    const cl_int error = pass_through(call, reason_to_pass(call->record));
    if (error != CL_INVALID_OPERATION) {
        records_drop_twin(call->record);
    }
    return error;
}

void build_natively(program_record *record, const char *why)
{
    twin *of = records_hold_twin(record);
    if (!of || of->is_program_itself) {
        twin_release(of);
        return;
    }
    trace_passed("twin dropped", why);
    records_begin_native(record);
    const kilni_floating_point own_mode = kilni_floating_point_get();
    kilni_floating_point_set(of->mode);
    layer_target()->clBuildProgram(record->program, of->device_count, of->devices, of->options,
                                   NULL, NULL);
    kilni_floating_point_set(own_mode);
    records_drop_twin(record);
    twin_release(of);
}

/* ---- the call ---- */

/* Calls whose arguments are wrong are the driver's to refuse. */
static int is_well_formed(cl_uint device_count, const cl_device_id *devices, build_callback notify,
                          const void *user_data)
{
    return (device_count == 0) == (devices == NULL) && (notify || !user_data);
}

/* A build that goes to the driver as it is, on a program that the layer keeps track of. */
static cl_int build_past_cache(program_record *record, const build_call *call)
{
    if (record) {
        records_begin_native(record);
    }
    return layer_target()->clBuildProgram(call->program, call->argument_count,
                                          call->argument_devices, call->options, call->notify,
                                          call->user_data);
}

/* Arguments that the driver will not take. Should it take them all the same, P is its own. */
static cl_int refuse_by_driver(program_record *record, const build_call *call)
{
    const cl_int error =
        layer_target()->clBuildProgram(call->program, call->argument_count, call->argument_devices,
                                       call->options, call->notify, call->user_data);
    if (error == CL_SUCCESS) {
        records_begin_native(record);
        records_drop_twin(record);
    }
    return error;
}

static cl_int build_tracked(build_call *call)
{
    twin *of = records_hold_twin(call->record);
    cl_int error;
    if (!of) {
        error = look_up_or_build(call);
    } else if (of->is_program_itself) {
        error = build_linked(call);
    } else {
        error = build_again(call, of);
    }
    twin_release(of);
    return error;
}

cl_int CL_API_CALL layer_build_program(cl_program program, cl_uint device_count,
                                       const cl_device_id *devices, const char *options,
                                       build_callback notify, void *user_data)
{
    const build_call given = {
        .program = program,
        .argument_count = device_count,
        .argument_devices = devices,
        .options = options,
        .notify = notify,
        .user_data = user_data,
    };
    if (records_is_let_go(program)) {
        return CL_INVALID_PROGRAM;
    }
    build_call call = given;
    call.record = records_hold(program);
    if (!call.record) {
        return build_past_cache(NULL, &given);
    }
    compile_natively(call.record, "built after it was compiled");
    cl_int error = CL_SUCCESS;
    if (!is_well_formed(device_count, devices, notify, user_data) ||
        !program_has_devices(program, device_count, devices)) {
        error = refuse_by_driver(call.record, &given);
        free_call(&call);
        return error;
    }
    const build_phase before = records_start_building(call.record);
    if (before != BUILD_NONE) {
        error = before == BUILD_AT_DRIVER ? build_past_cache(call.record, &given)
                                          : CL_INVALID_OPERATION;
        free_call(&call);
        return error;
    }
    /* A thread that is cancelled half-way would leave those who wait for it waiting for ever, and
     * the helper waiting for the end of its build. */
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    helper_build_starts();
    error = build_tracked(&call);
    helper_build_ends();
    records_set_phase(call.record, BUILD_NONE);
    pthread_setcancelstate(cancel_state, &cancel_state);
    if (call.is_callback_due && notify) {
        notify(program, user_data);
    }
    free_call(&call);
    return error;
}
