/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over NVRTC and the CUDA driver.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/nvrtc/description.h"
#include "device/nvrtc/device.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/inputs.h"
#include "device/nvrtc/options.h"
#include "device/nvrtc/results.h"
#include "device/nvrtc/watch.h"
#include "device/opencl/includes.h"
#include "key/parts.h"

/* What a program goes by where its source has no name. */
#define NO_NAME "program.cu"

/* ---- the key ---- */

static kiln_status identity(void *device, kiln_key_builder *key)
{
    const kiln_nvrtc_device *d = device;
    return kilni_nvrtc_add_identity(&d->nvrtc, key, NULL);
}

/* The source as NVRTC is to get it: with a closing zero. KILN_OK; KILN_E_BUILD: it is no text;
 * KILN_E_NO_MEMORY. */
static kiln_status copy_source(const kiln_program_source *source, char **ret_text)
{
    const char *code = source->code.size > 0 ? source->code.data : "";
    if (source->form != KILN_SOURCE_TEXT || memchr(code, '\0', source->code.size)) {
        return KILN_E_BUILD;
    }
    *ret_text = strndup(code, source->code.size);
    return *ret_text ? KILN_OK : KILN_E_NO_MEMORY;
}

static kilni_nvrtc_inputs inputs_of(const kiln_nvrtc_device *d, const char *source,
                                    const kilni_nvrtc_options *options)
{
    return (kilni_nvrtc_inputs){
        .source = source,
        .name = NO_NAME,
        .header_count = d->header_count,
        .headers = (const char *const *)d->headers,
        .header_names = (const char *const *)d->header_names,
        .expression_count = options->expression_count,
        .expressions = (const char *const *)options->expressions,
        .option_count = options->count,
        .options = (const char *const *)options->items,
    };
}

static kiln_status add_texts(const kilni_nvrtc_inputs *inputs, const kilni_nvrtc_options *options,
                             kilni_opencl_includes *includes, kiln_error *error)
{
    kiln_status status = kilni_opencl_includes_add_text(
        includes, options->defines.bytes, options->defines.length, "the options", error);
    if (status == KILN_OK) {
        status = kilni_opencl_includes_add_text(includes, inputs->source, strlen(inputs->source),
                                                "the source", error);
    }
    for (size_t i = 0; i < inputs->header_count && status == KILN_OK; i++) {
        status = kilni_opencl_includes_add_header(includes, inputs->headers[i],
                                                  strlen(inputs->headers[i]),
                                                  inputs->header_names[i], error);
    }
    return status;
}

/* What is included is told without NVRTC, which would have to compile to tell it. */
static kiln_status add_includes(const kilni_nvrtc_inputs *inputs,
                                const kilni_nvrtc_options *options, kiln_key_builder *key,
                                kiln_error *error)
{
    kilni_opencl_includes *includes;
    kiln_status status =
        kilni_opencl_includes_new(options->folders, options->folder_count, &includes);
    if (status != KILN_OK) {
        return status;
    }
    status = add_texts(inputs, options, includes, error);
    if (status == KILN_OK) {
        status = kilni_opencl_includes_follow(includes, error);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_includes_add_to_key(includes, key);
    }
    kilni_opencl_includes_free(&includes);
    return status;
}

/* ---- a program, taken apart ---- */

typedef struct request {
    char *text;
    kilni_nvrtc_options options;
    kilni_nvrtc_inputs inputs; /* borrows the two */
    kiln_key *key;             /* of all but the files; NULL: that can't be told */
    kilni_clock_words words;   /* of the texts that were given */
} request;

static void request_done(request *r)
{
    kiln_key_release(&r->key);
    kilni_nvrtc_options_done(&r->options);
    free(r->text);
}

static kiln_status add_inputs(const kiln_nvrtc_device *d, request *r, kiln_key_builder *key,
                              kiln_error *error)
{
    kiln_status status = kilni_nvrtc_add_environment((const char *const *)d->variables, key, error);
    if (status == KILN_OK) {
        status = kilni_nvrtc_add_inputs(&r->inputs, &r->words, key, error);
    }
    return status == KILN_OK && kilni_clock_words_tell_time(&r->words)
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "__DATE__, __TIME__ or the like")
               : status;
}

static kiln_status make_key(const kiln_nvrtc_device *d, request *r, kiln_error *error)
{
    kiln_key_builder *builder = NULL;
    kiln_status status = kiln_key_builder_new(&builder);
    if (status == KILN_OK) {
        status = add_inputs(d, r, builder, error);
    }
    if (status == KILN_OK) {
        status = kiln_key_builder_finish(builder, &r->key);
    }
    kiln_key_builder_free(&builder);
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "inputs that no key can hold")
               : status;
}

/* KILN_OK also where it has no key, and @error says why; KILN_E_BUILD: it is nothing that could be
 * compiled. request_done in each case. */
static kiln_status take_apart(const kiln_nvrtc_device *d, const kiln_program_source *source,
                              request *r, kiln_error *error)
{
    kiln_status status = copy_source(source, &r->text);
    if (status == KILN_E_BUILD) {
        return kilni_error_set(error, status, 0, "NVRTC compiles source, without zero bytes");
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_options_parse(d->architecture, source->options, &r->options, error);
    }
    if (status == KILN_OK) {
        r->inputs = inputs_of(d, r->text, &r->options);
        status = make_key(d, r, error);
    }
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

/* ---- what it depends on beside that ---- */

static kiln_status add_generation(const kiln_nvrtc_device *d, const request *r,
                                  kiln_key_builder *key, kiln_error *error)
{
    const kiln_digest program = kiln_key_digest(r->key);
    uint64_t generation = 0;
    const char *why = "";
    kiln_status status = kilni_nvrtc_known_reads_ask(d->known, &program, &generation, &why);
    if (status == KILN_E_UNSUPPORTED) {
        return kilni_error_set(error, status, 0, "%s", why);
    }
    return status == KILN_OK && generation > 0
               ? kiln_key_builder_add_number(key, "files.generation", generation)
               : status;
}

static kiln_status add_files(const kiln_nvrtc_device *d, const request *r, kiln_key_builder *key,
                             kiln_error *error)
{
    if (d->known) {
        return add_generation(d, r, key, error);
    }
    return r->options.may_name_files
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                                 "options for NVRTC's compilers that may name a file")
               : add_includes(&r->inputs, &r->options, key, error);
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    const kiln_nvrtc_device *d = device;
    request r = {0};
    kiln_status status = take_apart(d, source, &r, error);
    if (status == KILN_OK && !r.key) {
        status = KILN_E_UNSUPPORTED;
    }
    if (status == KILN_OK) {
        status = kilni_key_parts_add(r.key, key);
    }
    if (status == KILN_OK) {
        status = add_files(d, &r, key, error);
    }
    request_done(&r);
    /* It won't build; that is for the build to say. */
    return status == KILN_E_BUILD ? KILN_E_UNSUPPORTED : status;
}

/* ---- the driver ---- */

static kiln_status status_of_driver(int result)
{
    switch (result) {
    case KILNI_CUDA_SUCCESS:
        return KILN_OK;
    case KILNI_CUDA_OUT_OF_MEMORY:
        return KILN_E_RESOURCES;
    case KILNI_CUDA_INVALID_IMAGE:
    case KILNI_CUDA_NO_BINARY_FOR_GPU:
    case KILNI_CUDA_INVALID_PTX:
    case KILNI_CUDA_UNSUPPORTED_PTX_VERSION:
        return KILN_E_REFUSED;
    case KILNI_CUDA_NOT_FOUND:
        return KILN_MISS;
    default:
        return KILN_E_IO;
    }
}

static int load_code(const kilni_cuda_driver *driver, const void *code, kilni_nvrtc_built *built)
{
    return driver->load_library
               ? driver->load_library(&built->library, code, NULL, NULL, 0, NULL, NULL, 0)
               : driver->load_module(&built->module, code);
}

/* CUBIN and PTX can be loaded; the rest is for linkers. */
static kiln_status load_into_context(const kiln_nvrtc_device *d, kilni_nvrtc_built *built)
{
    const kilni_nvrtc_output code = kilni_nvrtc_outputs_code(&built->outputs);
    if (!d->context || (code != KILNI_NVRTC_CUBIN && code != KILNI_NVRTC_PTX)) {
        return KILN_OK;
    }
    kilni_cuda_context_handle unused;
    int result = d->driver.push_context(d->context);
    if (result == KILNI_CUDA_SUCCESS) {
        result = load_code(&d->driver, built->outputs.answers[code].bytes.data, built);
        d->driver.pop_context(&unused);
    }
    return status_of_driver(result);
}

static void release_program(void *device, void *program)
{
    const kiln_nvrtc_device *d = device;
    kilni_nvrtc_built *built = program;
    kilni_cuda_context_handle unused;
    const int is_loaded = built->library || built->module;
    if (is_loaded && d->driver.push_context(d->context) == KILNI_CUDA_SUCCESS) {
        if (built->library) {
            d->driver.unload_library(built->library);
        } else {
            d->driver.unload_module(built->module);
        }
        d->driver.pop_context(&unused);
    }
    kilni_nvrtc_outputs_done(&built->outputs);
    kilni_text_done(&built->device);
    kilni_text_done(&built->reads);
    kilni_text_done(&built->encoded);
    kilni_text_done(&built->code);
    free(built);
}

/* ---- building ---- */

/* Only what the source itself is to blame for is an answer for all who ask. */
static kiln_status status_of_compilation(int result)
{
    switch (result) {
    case KILNI_NVRTC_SUCCESS:
        return KILN_OK;
    case KILNI_NVRTC_OUT_OF_MEMORY:
        return KILN_E_RESOURCES;
    case KILNI_NVRTC_INVALID_OPTION:
    case KILNI_NVRTC_COMPILATION:
        return KILN_E_BUILD;
    default:
        return KILN_E_IO;
    }
}

static char *copy_log(const kilni_nvrtc_functions *nvrtc, kilni_nvrtc_program program)
{
    size_t size = 0;
    nvrtc->size[KILNI_NVRTC_LOG](program, &size);
    char *log = calloc(1, size + 1);
    if (log && size > 0) {
        nvrtc->get[KILNI_NVRTC_LOG](program, log);
    }
    return log;
}

static kiln_status compile(const kiln_nvrtc_device *d, const kilni_nvrtc_inputs *inputs,
                           kilni_nvrtc_program program, char **ret_log)
{
    int result = KILNI_NVRTC_SUCCESS;
    for (size_t i = 0; i < inputs->expression_count && result == KILNI_NVRTC_SUCCESS; i++) {
        result = d->nvrtc.add_name(program, inputs->expressions[i]);
    }
    if (result == KILNI_NVRTC_SUCCESS) {
        result = d->nvrtc.compile(program, (int)inputs->option_count, inputs->options);
    }
    const kiln_status status = status_of_compilation(result);
    if (status != KILN_OK) {
        *ret_log = copy_log(&d->nvrtc, program);
    }
    return status;
}

static kiln_status decode(kilni_nvrtc_built *built)
{
    return kilni_nvrtc_outputs_decode((kiln_bytes){built->encoded.bytes, built->encoded.length},
                                      (kiln_bytes){built->code.bytes, built->code.length}, NO_NAME,
                                      &built->outputs);
}

/* Compiles and takes what NVRTC answers, which is all that is needed of it then. */
static kiln_status compile_and_take(const kiln_nvrtc_device *d, const kilni_nvrtc_inputs *inputs,
                                    kilni_nvrtc_built *built, char **ret_log)
{
    kilni_nvrtc_program program = NULL;
    bool moves = false;
    kiln_status status = status_of_compilation(
        d->nvrtc.create(&program, inputs->source, inputs->name, (int)inputs->header_count,
                        inputs->headers, inputs->header_names));
    if (status != KILN_OK) {
        return status;
    }
    status = compile(d, inputs, program, ret_log);
    if (status == KILN_OK) {
        status = kilni_nvrtc_outputs_take(&d->nvrtc, program, inputs->name, false,
                                          inputs->expression_count, inputs->expressions,
                                          &built->encoded, &built->code, &moves);
    }
    d->nvrtc.destroy(&program);
    return status == KILN_OK ? decode(built) : status;
}

/* What the next who asks is to know of the files, also where nothing came of the compilation. */
static kiln_status note_files(const kiln_nvrtc_device *d, const request *r,
                              const kilni_nvrtc_built *built, bool changed)
{
    if (!d->known || !r->key) {
        return KILN_OK;
    }
    const kiln_digest program = kiln_key_digest(r->key);
    return kilni_nvrtc_known_reads_set(d->known, &program,
                                       (kiln_bytes){built->reads.bytes, built->reads.length},
                                       changed ? NULL : built->why);
}

static kiln_status settle_files(const kiln_nvrtc_device *d, request *r, kilni_nvrtc_reads *reads,
                                kilni_nvrtc_built *built)
{
    kiln_status status =
        kilni_nvrtc_reads_finish(reads, false, &r->words, &built->reads, &built->why);
    const bool changed = status == KILN_MISS;
    if (status == KILN_OK && kilni_clock_words_tell_time(&r->words)) {
        built->why = "__DATE__, __TIME__ or the like";
    }
    return status == KILN_E_NO_MEMORY ? status : note_files(d, r, built, changed);
}

static kiln_status build_watched(const kiln_nvrtc_device *d, request *r, kilni_nvrtc_built *built,
                                 char **ret_log)
{
    kilni_nvrtc_watch watch;
    kilni_nvrtc_reads *reads = NULL;
    kiln_status status = kilni_nvrtc_reads_new(NO_NAME, &reads);
    if (status != KILN_OK) {
        return status;
    }
    if (d->known) {
        kilni_nvrtc_watch_begin(&watch, reads);
    }
    status = compile_and_take(d, &r->inputs, built, ret_log);
    if (d->known) {
        kilni_nvrtc_watch_end(&watch);
    }
    const kiln_status settled = settle_files(d, r, reads, built);
    kilni_nvrtc_reads_free(&reads);
    return status == KILN_OK ? settled : status;
}

static kiln_status build_parsed(const kiln_nvrtc_device *d, request *r, kilni_nvrtc_built *built,
                                char **ret_log)
{
    kiln_status status = build_watched(d, r, built, ret_log);
    if (status == KILN_OK) {
        status = load_into_context(d, built);
    }
    /* Code for another device than this: the options say so. */
    return status == KILN_E_REFUSED ? KILN_E_BUILD : status;
}

static kiln_status build(void *device, const kiln_program_source *source, void **ret_program,
                         char **ret_log)
{
    const kiln_nvrtc_device *d = device;
    request r = {0};
    kilni_nvrtc_built *built = calloc(1, sizeof *built);
    kiln_status status = built ? take_apart(d, source, &r, NULL) : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = kilni_nvrtc_describe_device(&d->nvrtc, r.options.items, r.options.count,
                                             &built->device);
    }
    if (status == KILN_OK) {
        status = build_parsed(d, &r, built, ret_log);
    }
    request_done(&r);
    if (status == KILN_OK) {
        *ret_program = built;
    } else if (built) {
        release_program(device, built);
    }
    return status;
}

/* ---- entries ---- */

static kiln_status describe_for_people(const kilni_nvrtc_built *built, kiln_capture *captured)
{
    const kiln_bytes *log = &built->outputs.answers[KILNI_NVRTC_LOG].bytes;
    captured->device = strdup(built->device.bytes);
    captured->log = log->size > 0 ? strndup(log->data, log->size) : strdup("");
    return captured->device && captured->log ? KILN_OK : KILN_E_NO_MEMORY;
}

static kiln_status encode(const kilni_nvrtc_built *built, kiln_capture *captured)
{
    const kilni_nvrtc_results results = {
        .items = {{.reads = {built->reads.bytes, built->reads.length},
                   .outputs = {built->encoded.bytes, built->encoded.length},
                   .code = {built->code.bytes, built->code.length}}},
        .count = 1};
    kilni_text answers = {0}, payload = {0};
    const kiln_status status = kilni_nvrtc_results_encode(&results, &answers, &payload);
    *captured = (kiln_capture){.answers = answers.bytes,
                               .answers_size = answers.length,
                               .payload = payload.bytes,
                               .payload_size = payload.length};
    return status;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    (void)device;
    const kilni_nvrtc_built *built = program;
    kiln_capture captured = {0};
    if (built->why) {
        return KILN_E_UNSUPPORTED;
    }
    kiln_status status = encode(built, &captured);
    if (status == KILN_OK) {
        status = describe_for_people(built, &captured);
    }
    if (status != KILN_OK) {
        kiln_capture_done(&captured);
        return status;
    }
    *ret_capture = captured;
    return KILN_OK;
}

static kiln_status copy_in(kiln_bytes from, kilni_text *to)
{
    return kilni_text_append_bytes(to, from.data, from.size);
}

static kiln_status copy_result(const kilni_nvrtc_stored *stored, kilni_nvrtc_built *built)
{
    kiln_status status = copy_in(stored->reads, &built->reads);
    if (status == KILN_OK) {
        status = copy_in(stored->outputs, &built->encoded);
    }
    return status == KILN_OK ? copy_in(stored->code, &built->code) : status;
}

/* The one result, where its files are as they were: KILN_E_REFUSED where they aren't. */
static kiln_status take_result(const kiln_entry *entry, kilni_nvrtc_built *built)
{
    kilni_nvrtc_results results;
    kiln_status status = kilni_nvrtc_results_decode(entry, &results);
    if (status == KILN_OK) {
        status = kilni_nvrtc_reads_hold(results.items[0].reads, NO_NAME, NULL);
    }
    if (status == KILN_OK) {
        status = kilni_text_append(&built->device, kiln_entry_provenance(entry).device);
    }
    if (status == KILN_OK) {
        status = copy_result(&results.items[0], built);
    }
    if (status == KILN_OK) {
        status = decode(built);
    }
    return status == KILN_E_CORRUPT || status == KILN_MISS ? KILN_E_REFUSED : status;
}

static kiln_status note_found(const kiln_nvrtc_device *d, const kiln_program_source *source,
                              const kilni_nvrtc_built *built)
{
    request r = {0};
    kiln_status status = take_apart(d, source, &r, NULL);
    if (status == KILN_OK) {
        status = note_files(d, &r, built, false);
    }
    request_done(&r);
    return status == KILN_E_BUILD ? KILN_E_REFUSED : status;
}

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    kilni_nvrtc_built *built = calloc(1, sizeof *built);
    kiln_status status = built ? take_result(entry, built) : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = note_found(device, source, built);
    }
    if (status == KILN_OK) {
        status = load_into_context(device, built);
    }
    if (status == KILN_OK) {
        *ret_program = built;
    } else if (built) {
        release_program(device, built);
    }
    return status;
}

/* ---- kernels ---- */

/* By an expression of the program's, or by the name that the code has. */
static kiln_status kernel(void *device, void *program, const char *name, void **ret_kernel)
{
    const kiln_nvrtc_device *d = device;
    const kilni_nvrtc_built *built = program;
    const char *lowered = name;
    kilni_cuda_context_handle unused;
    kilni_cuda_kernel_handle found = NULL;
    if (!built->library && !built->module) {
        return KILN_E_UNSUPPORTED;
    }
    if (kiln_nvrtc_get_lowered_name(program, name, &lowered) != KILN_OK) {
        lowered = name;
    }
    int result = d->driver.push_context(d->context);
    if (result == KILNI_CUDA_SUCCESS) {
        result = built->library ? d->driver.get_kernel(&found, built->library, lowered)
                                : d->driver.get_function(&found, built->module, lowered);
        d->driver.pop_context(&unused);
    }
    const kiln_status status = status_of_driver(result);
    if (status == KILN_OK) {
        *ret_kernel = found;
    }
    return status;
}

/* They go with their program. */
static void release_kernel(void *device, void *held_kernel)
{
    (void)device;
    (void)held_kernel;
}

/* A live program is of one context; equal devices share entries, by key. */
static int interchangeable(void *device, void *other)
{
    return device == other;
}

const kiln_device_ops *kiln_nvrtc_ops(void)
{
    static const kiln_device_ops ops = {
        .struct_size = sizeof(kiln_device_ops),
        .name = "nvrtc",
        .capture_cost = KILN_CAPTURE_CHEAP,
        .identity = identity,
        .describe = describe,
        .build = build,
        .capture = capture,
        .load = load,
        .kernel = kernel,
        .release_program = release_program,
        .release_kernel = release_kernel,
        .interchangeable = interchangeable,
    };
    return &ops;
}
