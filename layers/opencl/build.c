/* SPDX-License-Identifier: Apache-2.0
 *
 * clBuildProgram, which the layer answers from the cache if the cache has the build.
 */
#include "build.h"

#include <stdlib.h>
#include <string.h>

#include "../shared/helper.h"
#include "../shared/session.h"
#include "../shared/trace.h"
#include "cached_build.h"
#include "calls.h"
#include "capture_request.h"
#include "program_inputs.h"
#include "target.h"

/* ---- the kind ---- */

static const char *obstacle(const cached_build *build)
{
    static const char *const by_origin[] = {
        [ORIGIN_BINARY] = "the program is a binary of the application",
        [ORIGIN_BUILT_IN] = "the program has built-in kernels",
        [ORIGIN_LINKED] = "the program is a linked one",
    };
    const program_origin origin = build->record->origin;
    if (origin != ORIGIN_SOURCE && origin != ORIGIN_IL) {
        return by_origin[origin];
    }
    return records_is_native(build->record) ? "the driver has built this program before" : NULL;
}

static kiln_status read_inputs(cached_build *build)
{
    return program_inputs_read(build->record, build->options, build->inputs);
}

static kiln_status make_key(cached_build *build, const kilni_opencl_site *site, cl_device_id device,
                            kiln_key **ret_key, kiln_error *error)
{
    const program_inputs *inputs = build->inputs;
    (void)device;
    return kilni_opencl_build_key(site, &inputs->source, &inputs->constants, &build->texts, ret_key,
                                  error);
}

static void ask_driver(cached_build *build)
{
    build->error =
        layer_target()->clBuildProgram(build->program, build->device_count, build->devices,
                                       build->options, build->notify, build->user_data);
}

static const build_kind kind = {
    .call = "clBuildProgram",
    .obstacle = obstacle,
    .read_inputs = read_inputs,
    .make_key = make_key,
    .ask_driver = ask_driver,
};

/* ---- expensive captures: left to another process, or to the application's own query ---- */

static void remember_uncaptured(const cached_build *build)
{
    device_keys built;
    if (device_keys_copy(&build->keys, &built) == KILN_OK) {
        records_set_uncaptured(build->record, build->generation, built, build->result.build_ns);
    }
}

static void request_capture(const cached_build *build)
{
    const program_inputs *inputs = build->inputs;
    const kilni_opencl_environment environment = {.variables = session_config()->key_variables};
    const kilni_opencl_described_build built = {
        .cl = layer_target(),
        .platform_name = build->platform->name,
        .device_count = build->keys.count,
        .devices = build->keys.devices,
        .keys = (const kiln_key *const *)build->keys.keys,
        .source = &inputs->source,
        .constants = &inputs->constants,
        .key_environment = &environment,
        .build_ns = build->result.build_ns,
        .tool = session_tool(),
    };
    capture_request_leave(&built, build->platform->traits);
}

static void leave_uncaptured(cached_build *build)
{
    if (build->status == KILN_OK && build->result.source == KILNI_FROM_BUILD &&
        session_can_store() && cached_build_has_its_keys(build) && cached_build_is_latest(build)) {
        remember_uncaptured(build);
        request_capture(build);
    }
    helper_look_for_requests();
}

/* ---- outcomes of a call ---- */

void build_natively(program_record *record, const char *why)
{
    loaded_program *loaded = records_hold_loaded(record);
    if (!loaded || loaded->is_held_by_application) {
        loaded_program_release(loaded);
        return;
    }
    trace_passed("program loaded from the cache", why);
    records_begin_native(record);
    const kilni_floating_point own_mode = kilni_floating_point_get();
    kilni_floating_point_set(loaded->mode);
    layer_target()->clBuildProgram(record->program, loaded->device_count, loaded->devices,
                                   loaded->options, NULL, NULL);
    kilni_floating_point_set(own_mode);
    records_drop_loaded(record);
    loaded_program_release(loaded);
}

static void look_up(cached_build *build)
{
    cached_build_look_up(build);
    if (build->made) {
        records_set_loaded(build->record, build->made);
        if (platform_is_exposed(build->platform)) {
            build_natively(build->record,
                           "an extension function that may inspect programs is in use");
        }
    }
    if (build->result.source && build->platform->traits->capture_cost != KILN_CAPTURE_CHEAP) {
        leave_uncaptured(build);
    }
}

static int has_same_options(const cached_build *build, const loaded_program *loaded)
{
    return build->options && loaded->options ? strcmp(build->options, loaded->options) == 0
                                             : build->options == loaded->options;
}

/* Returns true if the call names the same devices as the loaded program has, in any order. */
static int has_same_devices(const cached_build *build, const loaded_program *loaded)
{
    cl_device_id *all = NULL;
    cl_uint count = build->device_count;
    if (count == 0 && program_devices_of(build->program, &all, &count) != KILN_OK) {
        return 0;
    }
    const cl_device_id *named = all ? all : build->devices;
    int same = count == loaded->device_count;
    for (cl_uint i = 0; same && i < count; i++) {
        same = loaded_program_find_device(loaded, named[i]) < loaded->device_count;
    }
    free(all);
    return same;
}

/* The application builds a loaded program again. Does what the driver would do if it had built the
 * program itself. */
static void build_again(cached_build *build, const loaded_program *loaded)
{
    if (records_has_kernels(build->record)) {
        build->error = CL_INVALID_OPERATION;
        return;
    }
    const int same_devices = has_same_devices(build, loaded);
    if (same_devices && has_same_options(build, loaded) &&
        build->platform->traits->rebuild_is_no_op) {
        build->is_callback_due = 1;
        return;
    }
    if (!same_devices) {
        build_natively(build->record, "the program is built for other devices than before");
        cached_build_pass_through(build, "the program was built for other devices before");
        return;
    }
    records_drop_loaded(build->record);
    look_up(build);
}

/* A linked program cannot be built. Passes the call to the driver, which refuses it because drivers
 * do not build linked programs. If the driver tries to build anyway, and fails, the loaded program
 * no longer answers. */
static void build_linked(cached_build *build)
{
    cached_build_pass_through(build, obstacle(build));
    if (build->error != CL_INVALID_OPERATION) {
        records_drop_loaded(build->record);
    }
}

static void run(cached_build *build)
{
    helper_build_starts();
    loaded_program *loaded = records_hold_loaded(build->record);
    if (!loaded) {
        look_up(build);
    } else if (loaded->is_held_by_application) {
        build_linked(build);
    } else {
        build_again(build, loaded);
    }
    loaded_program_release(loaded);
    helper_build_ends();
}

/* ---- the call ---- */

cl_int CL_API_CALL layer_build_program(cl_program program, cl_uint device_count,
                                       const cl_device_id *devices, const char *options,
                                       build_callback notify, void *user_data)
{
    if (records_is_released(program)) {
        return CL_INVALID_PROGRAM;
    }
    program_inputs inputs = {0};
    cached_build build = {
        .kind = &kind,
        .inputs = &inputs,
        .program = program,
        .device_count = device_count,
        .devices = devices,
        .options = options,
        .notify = notify,
        .user_data = user_data,
    };
    const int is_well_formed = (device_count == 0) == (devices == NULL) && (notify || !user_data);
    const cl_int error = cached_build_of_program(&build, is_well_formed, run);
    cached_build_done(&build);
    program_inputs_done(&inputs);
    return error;
}
