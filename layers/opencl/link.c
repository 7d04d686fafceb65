/* SPDX-License-Identifier: Apache-2.0
 *
 * clLinkProgram under the cache. A link is found by what was compiled into its inputs. There is no
 * program of the driver's own to stand in for: after a hit the application holds the one that was
 * made of the binary.
 */
#include "calls.h"

#include <pthread.h>
#include <stdlib.h>

#include "../shared/trace.h"
#include "base/error.h"
#include "build.h"
#include "deferred_compile.h"
#include "device/opencl/inputs.h"
#include "layer.h"
#include "link_notice.h"
#include "program_entry.h"
#include "program_key.h"
#include "records.h"

/* One call of clLinkProgram. */
typedef struct link_call {
    cl_context context;
    cl_uint argument_count; /* devices as the application passed them */
    const cl_device_id *argument_devices;
    const char *options;
    cl_uint input_count;
    const cl_program *inputs;
    link_callback notify;
    void *user_data;

    platform *platform;
    cl_device_id *devices; /* the same, or all of the context's; owned */
    cl_uint device_count;
    kiln_key **keys; /* one for each device; owned */

    twin *made;          /* what a hit made */
    link_notice *notice; /* holds the callback back while the driver links; NULL: there is none */
    cl_program program;  /* what the driver linked; may come with an error */
    int was_at_driver;   /* the driver was asked to link */
    cl_int error;        /* what it answered */
} link_call;

/* ---- what is to be linked ---- */

static kiln_status use_devices(link_call *call)
{
    if (call->argument_count == 0) {
        return program_devices_of_context(call->context, &call->devices, &call->device_count);
    }
    call->device_count = call->argument_count;
    return program_devices_copy(call->argument_count, call->argument_devices, &call->devices);
}

static kiln_status find_inputs(const link_call *call, cl_device_id device, kiln_key **inputs,
                               kiln_error *error)
{
    for (cl_uint i = 0; i < call->input_count; i++) {
        inputs[i] = records_find_compiled(call->inputs[i], call->context, device);
        if (!inputs[i]) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                   "what input %u was compiled from isn't known", i + 1);
        }
    }
    return KILN_OK;
}

static kiln_status add_inputs(const link_call *call, cl_device_id device, kiln_key_builder *builder,
                              kiln_error *error)
{
    kiln_key **inputs = calloc(call->input_count, sizeof *inputs);
    if (!inputs) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = find_inputs(call, device, inputs, error);
    if (status == KILN_OK) {
        status = kilni_opencl_add_link_inputs(call->options, call->input_count,
                                              (const kiln_key *const *)inputs, builder, error);
    }
    program_keys_free(inputs, call->input_count);
    return status;
}

static kiln_status make_key(const link_call *call, cl_device_id device, kiln_key **ret_key,
                            kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = program_key_begin(call->platform, device, &builder, error);
    if (status == KILN_OK) {
        status = kiln_key_builder_add_text(builder, "step", "link");
    }
    if (status == KILN_OK) {
        status = add_inputs(call, device, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, ret_key);
    }
    kiln_key_builder_free(&builder);
    return status;
}

static kiln_status make_keys(link_call *call, kiln_error *error)
{
    call->keys = calloc(call->device_count, sizeof(kiln_key *));
    kiln_status status = call->keys ? KILN_OK : KILN_E_NO_MEMORY;
    for (cl_uint i = 0; status == KILN_OK && i < call->device_count; i++) {
        status = make_key(call, call->devices[i], &call->keys[i], error);
    }
    return status;
}

static void free_call(link_call *call)
{
    program_keys_free(call->keys, call->device_count);
    free(call->devices);
}

static int names_device_twice(const link_call *call)
{
    for (cl_uint i = 1; i < call->argument_count; i++) {
        for (cl_uint before = 0; before < i; before++) {
            if (call->argument_devices[before] == call->argument_devices[i]) {
                return 1;
            }
        }
    }
    return 0;
}

/* Calls whose arguments are wrong are the driver's to refuse. */
static const char *reason_to_pass(const link_call *call)
{
    if (call->input_count == 0 || !call->inputs || (!call->notify && call->user_data) ||
        (call->argument_count == 0) != (call->argument_devices == NULL)) {
        return "wrong arguments";
    }
    const char *obstacle = program_key_obstacle(call->platform);
    if (!obstacle && names_device_twice(call)) {
        return "a device that is named twice";
    }
    if (!obstacle && !call->platform->traits->links_reload) {
        return "how linked programs of this driver reload isn't known";
    }
    return obstacle;
}

/* ---- the request's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    link_call *call = user;
    return program_load(call->context, call->device_count, call->devices, entries, call->options,
                        &call->made);
}

/* What the driver links has to be its own. */
static void make_inputs_native(const link_call *call)
{
    for (cl_uint i = 0; call->inputs && i < call->input_count; i++) {
        program_record *record = records_hold(call->inputs[i]);
        if (record) {
            compile_natively(record, "input of a link");
            build_natively(record, "input of a link");
            records_release(record);
        }
    }
}

static void link_at_driver(link_call *call)
{
    call->was_at_driver = 1;
    call->notice = call->notify ? link_notice_new(call->notify, call->user_data) : NULL;
    if (call->notify && !call->notice) {
        call->error = CL_OUT_OF_HOST_MEMORY;
        return;
    }
    make_inputs_native(call);
    call->program = layer_target()->clLinkProgram(
        call->context, call->argument_count, call->argument_devices, call->options,
        call->input_count, call->inputs, call->notice ? link_notice_from_driver : NULL,
        call->notice ? call->notice : call->user_data, &call->error);
}

/* After a hit the devices come in the order of the call: so they have to without the cache. */
static int has_devices_in_order(const link_call *call)
{
    cl_device_id *devices = NULL;
    cl_uint count = 0;
    if (program_devices_of(call->program, &devices, &count) != KILN_OK) {
        return 0;
    }
    int same = count == call->device_count;
    for (cl_uint i = 0; same && i < count; i++) {
        same = devices[i] == call->devices[i];
    }
    free(devices);
    return same;
}

static kiln_status build(void *user, kiln_error *error)
{
    link_call *call = user;
    link_at_driver(call);
    if (call->error != CL_SUCCESS || !call->program) {
        return kilni_error_set(error, KILN_E_BUILD, 0, "the driver answered %d", call->error);
    }
    const kiln_status status = program_status(call->program, call->device_count, call->devices);
    return status == KILN_OK && !has_devices_in_order(call) ? KILN_E_UNSUPPORTED : status;
}

/* An input may have been built or compiled again while the driver linked: then what was linked is
 * not what the key says. Its keys go before the driver starts, and no others come. One that was
 * found, and that the driver compiled only for this link, has the keys of what it was by then. */
static kiln_status check_inputs(const link_call *call, size_t index)
{
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
    link_call *call = user;
    const kiln_status status = check_inputs(call, index);
    return status == KILN_OK ? program_capture(call->platform, call->program, call->devices[index],
                                               call->keys[index], build_ns, ret_entry)
                             : status;
}

static const kilni_request_ops request_ops = {.load = load, .build = build, .capture = capture};

/* ---- ways through a call ---- */

static void pass_through(link_call *call, const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed("clLinkProgram", reason);
    link_at_driver(call);
}

static void request(link_call *call)
{
    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES,
        .is_alone = call->notify != NULL,
        .keys = (const kiln_key *const *)call->keys,
        .key_count = call->device_count,
        .ops = &request_ops,
        .user = call,
    };
    kilni_request_result result = {0};
    /* A thread that is cancelled half-way would leave those who wait for it waiting for ever. */
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    const kiln_status status = kilni_request_run(session_requests(), &wanted, &result, NULL);
    if (!call->made && !call->was_at_driver) {
        link_at_driver(call);
    }
    trace_request(call->keys[0], &result, status);
    pthread_setcancelstate(cancel_state, &cancel_state);
}

static void look_up_or_link(link_call *call)
{
    const char *reason = reason_to_pass(call);
    if (reason) {
        pass_through(call, reason);
        return;
    }
    kiln_error error = {.struct_size = sizeof error};
    kiln_status status = use_devices(call);
    if (status == KILN_OK &&
        (call->device_count == 0 || call->device_count > KILNI_REQUEST_KEYS_MAX)) {
        pass_through(call, "no devices, or too many");
        return;
    }
    if (status == KILN_OK) {
        status = make_keys(call, &error);
    }
    if (status != KILN_OK) {
        pass_through(call, error.text[0] ? error.text : kiln_status_text(status));
        return;
    }
    request(call);
}

/* ---- the call ---- */

cl_program CL_API_CALL layer_link_program(cl_context context, cl_uint device_count,
                                          const cl_device_id *devices, const char *options,
                                          cl_uint input_count, const cl_program *inputs,
                                          void(CL_CALLBACK *notify)(cl_program, void *),
                                          void *user_data, cl_int *ret_error)
{
    if (records_has_let_go(input_count, inputs)) {
        if (ret_error) {
            *ret_error = CL_INVALID_PROGRAM;
        }
        return NULL;
    }
    link_call call = {
        .context = context,
        .argument_count = device_count,
        .argument_devices = devices,
        .options = options,
        .input_count = input_count,
        .inputs = inputs,
        .notify = notify,
        .user_data = user_data,
        .platform = platform_of_context(context),
        .error = CL_SUCCESS,
    };
    look_up_or_link(&call);
    cl_program program = call.made ? call.made->program : call.program;
    if (call.made) {
        records_add_linked(program, context, call.made);
    } else if (program) {
        records_add_program(program, context, ORIGIN_LINKED);
    }
    if (ret_error) {
        *ret_error = call.error;
    }
    if (call.notice) {
        link_notice_let_go(call.notice);
    } else if (call.made && notify) {
        notify(program, user_data);
    }
    free_call(&call);
    return program;
}
