/* SPDX-License-Identifier: Apache-2.0
 *
 * clCompileProgram. Compiled objects exist only to be linked, and only links are cached. So the
 * driver always compiles. The layer remembers the key of each compile, because the key of a link
 * consists of the keys of the link's inputs.
 */
#include <stdlib.h>

#include "build.h"
#include "cached_build.h"
#include "calls.h"
#include "program_inputs.h"
#include "target.h"

typedef struct compile_inputs {
    program_inputs program;

    /* The headers as the application passed them. */
    cl_uint header_count;
    const cl_program *headers;
    const char **header_names;

    char **header_codes; /* owned; header_texts points into these texts */
    kiln_bytes *header_texts;
} compile_inputs;

static void free_inputs(compile_inputs *inputs)
{
    for (cl_uint i = 0; inputs->header_codes && i < inputs->header_count; i++) {
        free(inputs->header_codes[i]);
    }
    free(inputs->header_codes);
    free(inputs->header_texts);
    program_inputs_done(&inputs->program);
}

/* ---- the kind ---- */

/* A driver is allowed to skip a second compile with the same options. So only a program's first
 * compile certainly uses the current content of the files that the program includes. */
static const char *obstacle(const cached_build *build)
{
    const program_origin origin = build->record->origin;
    if (origin != ORIGIN_SOURCE && origin != ORIGIN_IL) {
        return "the program is made of neither source nor intermediate language";
    }
    if (records_is_native(build->record)) {
        return "the driver has built this program before";
    }
    return build->platform && !build->platform->traits->links_reload
               ? "links are not cached on this driver"
               : NULL;
}

/* Embedded headers are programs whose source the driver reads. */
static kiln_status read_header(const cached_build *build, compile_inputs *inputs, cl_uint index)
{
    program_record *header = records_hold(inputs->headers[index]);
    kiln_program_source source = {0};
    kiln_status status = KILN_E_UNSUPPORTED;
    if (inputs->header_names[index] && header && header->origin == ORIGIN_SOURCE &&
        header->context == build->context) {
        status = program_read_code(header, NULL, &inputs->header_codes[index], &source);
    }
    records_release(header);
    inputs->header_texts[index] = source.code;
    return status;
}

static kiln_status read_inputs(cached_build *build)
{
    compile_inputs *inputs = build->inputs;
    const size_t room = (size_t)inputs->header_count + 1;
    inputs->header_codes = calloc(room, sizeof *inputs->header_codes);
    inputs->header_texts = calloc(room, sizeof *inputs->header_texts);
    if (!inputs->header_codes || !inputs->header_texts) {
        return KILN_E_NO_MEMORY;
    }
    kiln_status status = program_inputs_read(build->record, build->options, &inputs->program);
    for (cl_uint i = 0; status == KILN_OK && i < inputs->header_count; i++) {
        status = read_header(build, inputs, i);
    }
    return status;
}

static kiln_status make_key(cached_build *build, const kilni_opencl_site *site, cl_device_id device,
                            kiln_key **ret_key, kiln_error *error)
{
    const compile_inputs *inputs = build->inputs;
    const kilni_opencl_headers headers = {inputs->header_count, inputs->header_names,
                                          inputs->header_texts};
    (void)device;
    return kilni_opencl_compile_key(site, &inputs->program.source, &headers,
                                    &inputs->program.constants, &build->texts, ret_key, error);
}

static void ask_driver(cached_build *build)
{
    const compile_inputs *inputs = build->inputs;
    build->error = layer_target()->clCompileProgram(
        build->program, build->device_count, build->devices, build->options, inputs->header_count,
        inputs->headers, inputs->header_names, build->notify, build->user_data);
}

static const build_kind kind = {
    .call = "clCompileProgram",
    .obstacle = obstacle,
    .read_inputs = read_inputs,
    .make_key = make_key,
    .ask_driver = ask_driver,
};

/* ---- the call ---- */

/* Adds to the keys of a compile the files that it has read. These keys become parts of the keys of
 * links. */
static int add_reads_to_keys(device_keys *keys)
{
    const kiln_bytes reads = {keys->reads.bytes, keys->reads.length};
    for (cl_uint i = 0; i < keys->count; i++) {
        kiln_key *whole = NULL;
        if (kilni_opencl_compiled_key(keys->keys[i], reads, &whole) != KILN_OK) {
            return 0;
        }
        kiln_key_release(&keys->keys[i]);
        keys->keys[i] = whole;
    }
    return 1;
}

static void run(cached_build *build)
{
    if (records_has_kernels(build->record)) {
        build->error = CL_INVALID_OPERATION;
        return;
    }
    build_natively(build->record, "the program is compiled after it was built");
    if (cached_build_without_lookup(build, "compiled by the driver: only links are cached") &&
        (!build->texts.may_read || add_reads_to_keys(&build->keys))) {
        records_set_compiled(build->record, build->generation, build->keys);
        build->keys = (device_keys){0};
    }
}

cl_int CL_API_CALL layer_compile_program(cl_program program, cl_uint device_count,
                                         const cl_device_id *devices, const char *options,
                                         cl_uint header_count, const cl_program *headers,
                                         const char **header_names, build_callback notify,
                                         void *user_data)
{
    if (records_is_released(program) || records_any_released(header_count, headers)) {
        return CL_INVALID_PROGRAM;
    }
    compile_inputs inputs = {
        .header_count = header_count, .headers = headers, .header_names = header_names};
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
    const int has_headers = header_count > 0;
    const int is_well_formed = (device_count == 0) == (devices == NULL) &&
                               has_headers == (headers != NULL) &&
                               has_headers == (header_names != NULL) && (notify || !user_data);
    const cl_int error = cached_build_of_program(&build, is_well_formed, run);
    cached_build_done(&build);
    free_inputs(&inputs);
    return error;
}
