/* SPDX-License-Identifier: Apache-2.0 */
#include "cached_build.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/cancellation_guard.h"
#include "../shared/included_files.h"
#include "../shared/session.h"
#include "../shared/trace.h"
#include "../shared/upgrade.h"
#include "base/error.h"
#include "device/opencl/binary.h"
#include "program_entry.h"
#include "program_inputs.h"
#include "target.h"

/* ---- keys ---- */

static const char *platform_obstacle(platform *known)
{
    if (!known) {
        return "the platform is unknown";
    }
    if (known->traits->capture_cost != KILN_CAPTURE_CHEAP && !known->traits->own_cache_switch) {
        return "captures are expensive on this driver";
    }
    if (platform_is_exposed(known)) {
        return "an extension function that may inspect programs is in use";
    }
    if (!platform_is_unchanged(known)) {
        return "a file of the driver has changed since the program started";
    }
    if (session_is_forked()) {
        return "the process is a forked child";
    }
    return session_requests() ? NULL : "no memory for the cache";
}

static kiln_status find_devices(cached_build *build, kiln_error *error)
{
    device_keys *keys = &build->keys;
    kiln_status status;
    if (build->device_count > 0) {
        status = program_devices_copy(build->device_count, build->devices, &keys->devices);
        keys->count = build->device_count;
    } else if (build->record) {
        status = program_devices_of(build->program, &keys->devices, &keys->count);
    } else {
        status = program_devices_of_context(build->context, &keys->devices, &keys->count);
    }
    return status == KILN_OK && (keys->count == 0 || keys->count > KILNI_REQUEST_KEYS_MAX)
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                 "%u devices, but 1 to %u are supported", keys->count,
                                 KILNI_REQUEST_KEYS_MAX)
               : status;
}

static kiln_status make_key(cached_build *build, cl_device_id device, kiln_key **ret_key,
                            kiln_error *error)
{
    const kilni_opencl_environment environment = {.variables = session_config()->key_variables};
    kiln_key *identity = NULL;
    kiln_status status = platform_get_identity(build->platform, device, &identity, error);
    if (status == KILN_OK) {
        const kilni_opencl_site site = {
            .identity = identity,
            .platform_name = build->platform->name,
            .environment = &environment,
        };
        status = build->kind->make_key(build, &site, device, ret_key, error);
    }
    kiln_key_release(&identity);
    return status;
}

static kiln_status make_keys(cached_build *build, kiln_error *error)
{
    kiln_status status = find_devices(build, error);
    if (status == KILN_OK && build->kind->read_inputs) {
        status = build->kind->read_inputs(build);
    }
    if (status != KILN_OK) {
        return status;
    }
    build->keys.keys = calloc(build->keys.count, sizeof(kiln_key *));
    if (!build->keys.keys) {
        return KILN_E_NO_MEMORY;
    }
    for (cl_uint i = 0; status == KILN_OK && i < build->keys.count; i++) {
        status = make_key(build, build->keys.devices[i], &build->keys.keys[i], error);
    }
    return status;
}

static int has_its_key(cached_build *build, size_t index)
{
    if (build->why_not_kept || !(build->may_key_change || build->texts.may_read)) {
        return !build->why_not_kept;
    }
    kiln_key *now = NULL;
    const int has = make_key(build, build->keys.devices[index], &now, NULL) == KILN_OK &&
                    kiln_key_equals(now, build->keys.keys[index]);
    kiln_key_release(&now);
    return has;
}

int cached_build_has_its_keys(cached_build *build)
{
    for (cl_uint i = 0; i < build->keys.count; i++) {
        if (!has_its_key(build, i)) {
            return 0;
        }
    }
    return 1;
}

/* ---- the request's ops ---- */

static kiln_status load(void *user, const kiln_entry *const *entries)
{
    cached_build *build = user;
    const char *changed = NULL;
    const kiln_status status =
        program_load(build->platform, build->context, build->keys.count, build->keys.devices,
                     entries, build->texts.may_read, build->options, &build->made, &changed);
    if (status == KILN_MISS && changed) {
        trace_changed(build->keys.keys[0], changed);
    }
    return status;
}

static void ask_driver(cached_build *build)
{
    if (build->record) {
        build->generation = records_begin_native(build->record);
        records_set_phase(build->record, BUILD_AT_DRIVER);
    }
    build->was_at_driver = 1;
    build->kind->ask_driver(build);
}

/* Returns 0 if the application has built or compiled the program again, which it might do in its
 * callback or in another thread. */
int cached_build_is_latest(const cached_build *build)
{
    return !build->record || records_is_generation(build->record, build->generation);
}

/* Returns true if the linked program has its devices in the order of the call. A program that is
 * loaded from the entries would have them in this order. */
static int has_devices_in_order(const cached_build *build)
{
    cl_device_id *devices = NULL;
    cl_uint count = 0;
    if (program_devices_of(build->program, &devices, &count) != KILN_OK) {
        return 0;
    }
    int same = count == build->keys.count;
    for (cl_uint i = 0; same && i < count; i++) {
        same = devices[i] == build->keys.devices[i];
    }
    free(devices);
    return same;
}

static kiln_status build_to_keep(cached_build *build, kiln_error *error)
{
    ask_driver(build);
    if (build->error != CL_SUCCESS || !build->program) {
        return kilni_error_set(error, KILN_E_BUILD, 0, "the driver returned error %d",
                               build->error);
    }
    if (!cached_build_is_latest(build)) {
        return KILN_E_UNSUPPORTED;
    }
    const kiln_status status =
        program_status(build->program, build->keys.count, build->keys.devices);
    return status == KILN_OK && !build->record && !has_devices_in_order(build) ? KILN_E_UNSUPPORTED
                                                                               : status;
}

/* Watches the build until the driver reports the end of the build, because drivers can compile in a
 * different thread. */
static kiln_status build_by_driver(void *user, kiln_error *error)
{
    cached_build *build = user;
    if (!build->texts.may_read) {
        return build_to_keep(build, error);
    }
    kilni_opencl_watched_build_begin(&build->watched, build->platform->id, build->platform->traits,
                                     build->options);
    kiln_status status;
    pthread_cleanup_push(kilni_opencl_watched_build_end, &build->watched);
    status = build_to_keep(build, error);
    pthread_cleanup_pop(1);
    if (status == KILN_OK &&
        kilni_opencl_watched_build_finish(&build->watched, &build->texts, &build->keys.reads,
                                          &build->why_not_kept) == KILN_OK) {
        build->why_not_kept = NULL;
        included_files_keep((kiln_bytes){build->keys.reads.bytes, build->keys.reads.length}, NULL);
    } else if (status == KILN_OK) {
        trace_passed("result", build->why_not_kept);
    }
    return status;
}

static kiln_status capture(void *user, size_t index, uint64_t build_ns, const kiln_entry *replaced,
                           kiln_entry **ret_entry)
{
    cached_build *build = user;
    if (!cached_build_is_latest(build) || !has_its_key(build, index)) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_entry *entry = NULL;
    const kiln_status status =
        program_capture(build->platform, build->program, build->keys.devices[index],
                        build->keys.keys[index], build_ns, &build->keys.reads, replaced, &entry);
    if (status == KILN_OK && !cached_build_is_latest(build)) {
        kiln_entry_release(&entry);
        return KILN_E_UNSUPPORTED;
    }
    *ret_entry = entry;
    return status;
}

/* ---- outcomes of a call ---- */

static void count_passed(const cached_build *build, const char *reason)
{
    const kiln_stats counted = {.passed_through = 1};
    session_count(&counted);
    trace_passed(build->kind->call, reason);
}

void cached_build_pass_through(cached_build *build, const char *reason)
{
    count_passed(build, reason);
    ask_driver(build);
}

/* Makes the keys. If that fails, makes the driver build without the cache, and returns 0. */
static int prepare(cached_build *build)
{
    kiln_error error = {.struct_size = sizeof error};
    const char *reason = build->kind->obstacle(build);
    if (!reason) {
        reason = platform_obstacle(build->platform);
    }
    if (!reason) {
        const kiln_status status = make_keys(build, &error);
        reason = status == KILN_OK ? NULL : error.text[0] ? error.text : kiln_status_text(status);
    }
    if (reason) {
        cached_build_pass_through(build, reason);
    }
    return !reason;
}

int cached_build_without_lookup(cached_build *build, const char *reason)
{
    if (!prepare(build)) {
        return 0;
    }
    count_passed(build, reason);
    return build_by_driver(build, NULL) == KILN_OK && cached_build_has_its_keys(build);
}

/* The text of the device names platform, device and version, in this order. */
static void note_driver(const cached_build *build)
{
    char *text = kilni_opencl_device_text(layer_target(), build->keys.devices[0]);
    char *version = text ? strrchr(text, '/') : NULL;
    if (version) {
        version[1] = '\0';
        upgrade_note_build(build->keys.keys[0], text, NULL);
    }
    free(text);
}

void cached_build_look_up(cached_build *build)
{
    static const kilni_request_ops with_capture = {
        .load = load, .build = build_by_driver, .capture = capture};
    static const kilni_request_ops without_capture = {.load = load, .build = build_by_driver};
    if (!prepare(build)) {
        return;
    }
    const int is_cheap = build->platform->traits->capture_cost == KILN_CAPTURE_CHEAP;
    const kilni_request wanted = {
        .ending = KILNI_KEEP_ENTRIES,
        .is_alone = build->notify != NULL,
        .keys = (const kiln_key *const *)build->keys.keys,
        .key_count = build->keys.count,
        .ops = is_cheap ? &with_capture : &without_capture,
        .user = build,
    };
    build->status = kilni_request_run(session_requests(), &wanted, &build->result, NULL);
    if (!build->made && !build->was_at_driver) {
        ask_driver(build);
    }
    build->is_callback_due = build->made != NULL;
    if (build->status == KILN_OK && build->result.source == KILNI_FROM_BUILD) {
        note_driver(build);
    }
    trace_request("opencl", build->keys.keys[0], &build->result, build->status);
}

void cached_build_done(cached_build *build)
{
    kilni_opencl_watched_build_done(&build->watched);
    device_keys_done(&build->keys);
    records_release(build->record);
}

/* ---- calls on a program ---- */

/* The driver is expected to refuse these arguments. A driver that accepts them has built the
 * program itself. In that case, the layer drops the loaded program. */
static void refuse_by_driver(cached_build *build)
{
    build->kind->ask_driver(build);
    if (build->error == CL_SUCCESS) {
        records_begin_native(build->record);
        records_drop_loaded(build->record);
    }
}

typedef struct program_call {
    cached_build *build;
    void (*run)(cached_build *build);
} program_call;

/* Runs a call. Holds the program meanwhile, since the application's callback might release the
 * program. */
static void run_held(void *user)
{
    const program_call *call = user;
    program_record *record = call->build->record;
    records_hold_at_driver(record);
    call->run(call->build);
    records_release_at_driver(record);
    records_set_phase(record, BUILD_NONE);
}

cl_int cached_build_of_program(cached_build *build, int is_well_formed,
                               void (*run)(cached_build *build))
{
    program_record *record = build->record = records_hold(build->program);
    if (!record) {
        count_passed(build, "the layer does not know this program");
        build->kind->ask_driver(build);
        return build->error;
    }
    build->context = record->context;
    build->platform = record->platform;
    if (!is_well_formed ||
        !program_has_devices(build->program, build->device_count, build->devices)) {
        refuse_by_driver(build);
        return build->error;
    }
    const build_phase before = records_start_building(record);
    if (before == BUILD_LOOKED_UP) {
        return CL_INVALID_OPERATION;
    }
    if (before == BUILD_AT_DRIVER) {
        records_begin_native(record);
        build->kind->ask_driver(build);
        return build->error;
    }
    /* If this thread were cancelled during the call, the threads that wait for its result would
     * wait forever. */
    run_without_cancellation(run_held, &(program_call){build, run});
    if (build->is_callback_due && build->notify) {
        build->notify(build->program, build->user_data);
    }
    return build->error;
}
