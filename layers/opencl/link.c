/* SPDX-License-Identifier: Apache-2.0
 *
 * clLinkProgram, which the layer answers from the cache if the cache has the link. The key of a
 * link consists of the keys of its inputs. After a hit, the application holds the program that was
 * loaded from the binary, since the driver has not linked a program.
 */
#include <stdlib.h>

#include "../shared/cancellation_guard.h"
#include "base/error.h"
#include "build.h"
#include "cached_build.h"
#include "calls.h"
#include "deferred_callback.h"
#include "target.h"

typedef struct link_inputs {
    cl_uint count;
    const cl_program *programs;
    deferred_callback
        *deferred; /* delays the callback while the driver links; NULL: there is no callback */
} link_inputs;

/* ---- the kind ---- */

static int names_device_twice(const cached_build *build)
{
    for (cl_uint i = 1; i < build->device_count; i++) {
        for (cl_uint before = 0; before < i; before++) {
            if (build->devices[before] == build->devices[i]) {
                return 1;
            }
        }
    }
    return 0;
}

/* Returns true if environment variables add options. A driver adds these options when it builds a
 * program from a stored binary, and reports them as the program's options. A driver does not add
 * them when it links. */
static int variables_add_options(void)
{
    for (const char *const *name = kilni_opencl_option_variables; *name; name++) {
        const char *value = getenv(*name);
        if (value && *value) {
            return 1;
        }
    }
    return 0;
}

/* Calls with wrong arguments are passed to the driver, which refuses them. */
static const char *obstacle(const cached_build *build)
{
    const link_inputs *inputs = build->inputs;
    if (inputs->count == 0 || !inputs->programs || (!build->notify && build->user_data) ||
        (build->device_count == 0) != (build->devices == NULL)) {
        return "wrong arguments";
    }
    if (names_device_twice(build)) {
        return "a device is named twice";
    }
    if (variables_add_options()) {
        return "a variable adds options to builds";
    }
    return build->platform && !build->platform->traits->links_reload
               ? "links are not cached on this driver"
               : NULL;
}

static kiln_status find_compiled(const cached_build *build, cl_device_id device, kiln_key **keys,
                                 kiln_error *error)
{
    const link_inputs *inputs = build->inputs;
    for (cl_uint i = 0; i < inputs->count; i++) {
        keys[i] = records_find_compiled(inputs->programs[i], build->context, device);
        if (!keys[i]) {
            return kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the key of input %u is not known",
                                   i + 1);
        }
    }
    return KILN_OK;
}

/* The application can build or compile an input again while the driver links. Before the driver
 * starts that build, the input loses its key and gets no new key. From then on, the link's key can
 * no longer be made. */
static kiln_status make_key(cached_build *build, const kilni_opencl_site *site, cl_device_id device,
                            kiln_key **ret_key, kiln_error *error)
{
    const link_inputs *inputs = build->inputs;
    kiln_key **compiled = calloc(inputs->count, sizeof *compiled);
    if (!compiled) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = find_compiled(build, device, compiled, error);
    if (status == KILN_OK) {
        status = kilni_opencl_link_key(site, build->options, inputs->count,
                                       (const kiln_key *const *)compiled, ret_key, error);
    }
    for (cl_uint i = 0; i < inputs->count; i++) {
        kiln_key_release(&compiled[i]);
    }
    free(compiled);
    return status;
}

/* The driver can link only programs that it has built itself, so this makes it build all inputs. */
static void make_inputs_native(const link_inputs *inputs)
{
    for (cl_uint i = 0; inputs->programs && i < inputs->count; i++) {
        program_record *record = records_hold(inputs->programs[i]);
        if (record) {
            build_natively(record, "the program is an input of a link");
            records_release(record);
        }
    }
}

static void ask_driver(cached_build *build)
{
    link_inputs *inputs = build->inputs;
    inputs->deferred =
        build->notify ? deferred_callback_new(build->notify, build->user_data) : NULL;
    if (build->notify && !inputs->deferred) {
        build->error = CL_OUT_OF_HOST_MEMORY;
        return;
    }
    make_inputs_native(inputs);
    build->program = layer_target()->clLinkProgram(
        build->context, build->device_count, build->devices, build->options, inputs->count,
        inputs->programs, inputs->deferred ? deferred_callback_from_driver : NULL,
        inputs->deferred ? inputs->deferred : build->user_data, &build->error);
}

static const build_kind kind = {
    .call = "clLinkProgram",
    .obstacle = obstacle,
    .make_key = make_key,
    .ask_driver = ask_driver,
};

/* ---- the call ---- */

static void run(void *user)
{
    cached_build_look_up(user);
}

static cl_program track(cached_build *build)
{
    if (build->made) {
        build->program = build->made->program;
        records_add_linked(build->program, build->context, build->made);
    } else if (build->program) {
        records_add_program(build->program, build->context, ORIGIN_LINKED);
    }
    return build->program;
}

cl_program CL_API_CALL layer_link_program(cl_context context, cl_uint device_count,
                                          const cl_device_id *devices, const char *options,
                                          cl_uint input_count, const cl_program *programs,
                                          build_callback notify, void *user_data, cl_int *ret_error)
{
    if (records_any_released(input_count, programs)) {
        if (ret_error) {
            *ret_error = CL_INVALID_PROGRAM;
        }
        return NULL;
    }
    link_inputs inputs = {.count = input_count, .programs = programs};
    cached_build build = {
        .kind = &kind,
        .inputs = &inputs,
        .context = context,
        .platform = platform_of_context(context),
        .may_key_change = 1,
        .device_count = device_count,
        .devices = devices,
        .options = options,
        .notify = notify,
        .user_data = user_data,
    };
    run_without_cancellation(run, &build);
    cl_program program = track(&build);
    if (ret_error) {
        *ret_error = build.error;
    }
    if (inputs.deferred) {
        deferred_callback_finish(inputs.deferred);
    } else if (build.is_callback_due && notify) {
        notify(program, user_data);
    }
    cached_build_done(&build);
    return program;
}
