/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred_compile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/trace.h"
#include "device/opencl/answers.h"
#include "device/opencl/binary.h"
#include "layer.h"

/* ---- entries ---- */

/* A text that a program answers with; NULL where it gives none, or one with a zero in it. */
static char *build_text(cl_program program, cl_device_id device, cl_program_build_info what)
{
    const cl_icd_dispatch *cl = layer_target();
    size_t size = 0;
    if (cl->clGetProgramBuildInfo(program, device, what, 0, NULL, &size) != CL_SUCCESS) {
        return NULL;
    }
    char *text = calloc(1, size + 1);
    if (text && (cl->clGetProgramBuildInfo(program, device, what, size, text, NULL) != CL_SUCCESS ||
                 strlen(text) + 1 != size)) {
        free(text);
        return NULL;
    }
    return text;
}

static const char *options_of(const compile_inputs *inputs)
{
    return inputs->options ? inputs->options : "";
}

static int answers_as_deferred(const compile_inputs *inputs, cl_program program,
                               cl_device_id device)
{
    cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;
    if (layer_target()->clGetProgramBuildInfo(program, device, CL_PROGRAM_BINARY_TYPE, sizeof type,
                                              &type, NULL) != CL_SUCCESS ||
        type != CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT) {
        return 0;
    }
    char *options = build_text(program, device, CL_PROGRAM_BUILD_OPTIONS);
    const int same = options && strcmp(options, options_of(inputs)) == 0;
    free(options);
    return same;
}

kiln_status deferred_compile_capture(const compile_inputs *inputs, cl_program program,
                                     cl_device_id device, const kiln_key *key, uint64_t build_ns,
                                     kiln_entry **ret_entry)
{
    char *log = answers_as_deferred(inputs, program, device)
                    ? build_text(program, device, CL_PROGRAM_BUILD_LOG)
                    : NULL;
    if (!log) {
        return KILN_E_UNSUPPORTED;
    }
    char *device_text = kilni_opencl_device_text(layer_target(), device);
    const kiln_entry_params params = {
        .struct_size = sizeof params,
        .key = key,
        .kind = KILN_ENTRY_PROGRAM,
        .provenance = {.struct_size = sizeof params.provenance,
                       .device = device_text,
                       .name = "(compiled, to be linked)",
                       .build_ns = build_ns},
        .log = {log, strlen(log)},
    };
    const kiln_status status = kiln_entry_new(&params, ret_entry);
    free(device_text);
    free(log);
    return status;
}

/* ---- life ---- */

static void free_deferred(deferred_compile *of)
{
    for (cl_uint i = 0; of->logs && i < of->inputs.device_count; i++) {
        free(of->logs[i]);
    }
    free(of->logs);
    compile_inputs_done(&of->inputs);
    pthread_mutex_destroy(&of->lock);
    free(of);
}

static kiln_status copy_logs(char **logs, cl_uint count, const kiln_entry *const *entries)
{
    for (cl_uint i = 0; i < count; i++) {
        const kiln_bytes log = kiln_entry_log(entries[i]);
        logs[i] = strndup(log.size > 0 ? log.data : "", log.size);
        if (!logs[i]) {
            return KILN_E_NO_MEMORY;
        }
    }
    return KILN_OK;
}

kiln_status deferred_compile_new(compile_inputs *inputs, const kiln_entry *const *entries,
                                 deferred_compile **ret_deferred)
{
    deferred_compile *made = calloc(1, sizeof *made);
    if (!made) {
        return KILN_E_NO_MEMORY;
    }
    pthread_mutex_init(&made->lock, NULL);
    atomic_init(&made->holds, 1);
    made->logs = calloc(inputs->device_count, sizeof *made->logs);
    if (!made->logs || copy_logs(made->logs, inputs->device_count, entries) != KILN_OK) {
        made->inputs.device_count = inputs->device_count;
        free_deferred(made);
        return KILN_E_NO_MEMORY;
    }
    made->inputs = *inputs;
    *inputs = (compile_inputs){0};
    *ret_deferred = made;
    return KILN_OK;
}

void deferred_compile_release(deferred_compile *held)
{
    if (held && atomic_fetch_sub_explicit(&held->holds, 1, memory_order_acq_rel) == 1) {
        free_deferred(held);
    }
}

/* ---- answers ---- */

int deferred_compile_answer(const deferred_compile *of, cl_device_id device,
                            cl_program_build_info what, size_t room, void *ret_value,
                            size_t *ret_size, cl_int *ret_error)
{
    static const cl_build_status status = CL_BUILD_SUCCESS;
    static const cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT;
    const compile_inputs *inputs = &of->inputs;
    cl_uint place = 0;
    while (place < inputs->device_count && inputs->devices[place] != device) {
        place++;
    }
    if (place == inputs->device_count) {
        return 0;
    }
    kiln_bytes value;
    switch (what) {
    case CL_PROGRAM_BUILD_STATUS:
        value = (kiln_bytes){&status, sizeof status};
        break;
    case CL_PROGRAM_BUILD_OPTIONS:
        value = (kiln_bytes){options_of(inputs), strlen(options_of(inputs)) + 1};
        break;
    case CL_PROGRAM_BUILD_LOG:
        value = (kiln_bytes){of->logs[place], strlen(of->logs[place]) + 1};
        break;
    case CL_PROGRAM_BINARY_TYPE:
        value = (kiln_bytes){&type, sizeof type};
        break;
    default:
        return 0;
    }
    *ret_error = kilni_opencl_reply(value.data, value.size, room, ret_value, ret_size);
    return 1;
}

/* ---- compiling after all ---- */

typedef struct late_compile {
    const deferred_compile *of;
    program_record *record;
} late_compile;

/* The keys are made anew: what the driver reads now may differ from what the cache was asked
 * for. The floating-point mode is that of the call. */
static void compile_now(void *user)
{
    const deferred_compile *of = ((const late_compile *)user)->of;
    program_record *record = ((const late_compile *)user)->record;
    const kilni_floating_point own_mode = kilni_floating_point_get();
    device_keys keys = {0};
    kilni_floating_point_set(of->inputs.mode);
    int has_keys = compile_inputs_make_keys(&of->inputs, record, &keys, NULL, NULL) == KILN_OK;
    records_hold_at_driver(record);
    if (compile_inputs_compile(&of->inputs, record) != CL_SUCCESS ||
        !(has_keys && compile_inputs_have_keys(&of->inputs, record, &keys))) {
        device_keys_done(&keys);
    }
    kilni_floating_point_set(own_mode);
    records_end_deferred(record, of, keys);
    records_release_at_driver(record);
}

void compile_natively(program_record *record, const char *why)
{
    deferred_compile *of = records_hold_deferred(record);
    if (!of) {
        return;
    }
    /* A thread that is cancelled half-way would leave those who wait for it waiting for ever. */
    int cancel_state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&of->lock);
    if (records_has_deferred(record, of)) {
        trace_passed("clCompileProgram, found before", why);
        late_compile late = {.of = of, .record = record};
        working_directory_run(&of->inputs.directory, compile_now, &late);
    }
    pthread_mutex_unlock(&of->lock);
    deferred_compile_release(of);
    pthread_setcancelstate(cancel_state, &cancel_state);
}

void compile_natively_of(cl_program program, const char *why)
{
    program_record *record = records_hold(program);
    if (record) {
        compile_natively(record, why);
        records_release(record);
    }
}
