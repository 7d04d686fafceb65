/* SPDX-License-Identifier: Apache-2.0
 *
 * Device ops over NVRTC and the CUDA driver.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/nvrtc/description.h"
#include "device/nvrtc/device.h"
#include "device/nvrtc/identity.h"
#include "device/nvrtc/inputs.h"
#include "device/nvrtc/options.h"
#include "device/opencl/includes.h"

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

static kiln_status add_inputs(const kilni_nvrtc_inputs *inputs, const kilni_nvrtc_options *options,
                              kiln_key_builder *key, kiln_error *error)
{
    kilni_clock_words words = {0};
    if (options->may_name_files) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "options for NVRTC's compilers that may name a file");
    }
    kiln_status status = kilni_nvrtc_add_inputs(inputs, &words, key, error);
    if (status == KILN_OK && kilni_clock_words_tell_time(&words)) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "__DATE__, __TIME__ or the like");
    }
    if (status == KILN_OK) {
        status = add_includes(inputs, options, key, error);
    }
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "inputs that no key can hold")
               : status;
}

static kiln_status describe(void *device, const kiln_program_source *source, kiln_key_builder *key,
                            kiln_error *error)
{
    const kiln_nvrtc_device *d = device;
    kilni_nvrtc_options options = {0};
    char *text = NULL;
    kiln_status status = copy_source(source, &text);
    if (status == KILN_E_BUILD) {
        kilni_error_set(error, status, 0, "NVRTC compiles source, without zero bytes");
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_options_parse(d->architecture, source->options, &options, error);
    }
    if (status == KILN_OK) {
        status = kilni_nvrtc_add_environment((const char *const *)d->variables, key, error);
    }
    if (status == KILN_OK) {
        const kilni_nvrtc_inputs inputs = inputs_of(d, text, &options);
        status = add_inputs(&inputs, &options, key, error);
    }
    kilni_nvrtc_options_done(&options);
    free(text);
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

static kiln_status build_parsed(const kiln_nvrtc_device *d, const char *text,
                                const kilni_nvrtc_options *options, kilni_nvrtc_built *built,
                                char **ret_log)
{
    const kilni_nvrtc_inputs inputs = inputs_of(d, text, options);
    kiln_status status = compile_and_take(d, &inputs, built, ret_log);
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
    kilni_nvrtc_options options = {0};
    char *text = NULL;
    kilni_nvrtc_built *built = calloc(1, sizeof *built);
    kiln_status status = built ? copy_source(source, &text) : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = kilni_nvrtc_options_parse(d->architecture, source->options, &options, NULL);
    }
    if (status == KILN_OK) {
        status =
            kilni_nvrtc_describe_device(&d->nvrtc, options.items, options.count, &built->device);
    }
    if (status == KILN_OK) {
        status = build_parsed(d, text, &options, built, ret_log);
    }
    kilni_nvrtc_options_done(&options);
    free(text);
    if (status == KILN_OK) {
        *ret_program = built;
    } else if (built) {
        release_program(device, built);
    }
    return status;
}

/* ---- entries ---- */

/* A copy of @size bytes with a zero behind them. */
static kiln_status copy_out(const kilni_text *from, void **ret_bytes, size_t *ret_size)
{
    char *copy = malloc(from->length + 1);
    if (!copy) {
        return KILN_E_NO_MEMORY;
    }
    if (from->length > 0) {
        memcpy(copy, from->bytes, from->length);
    }
    copy[from->length] = '\0';
    *ret_bytes = copy;
    *ret_size = from->length;
    return KILN_OK;
}

static kiln_status describe_for_people(const kilni_nvrtc_built *built, kiln_capture *captured)
{
    const kiln_bytes *log = &built->outputs.answers[KILNI_NVRTC_LOG].bytes;
    captured->device = strdup(built->device.bytes);
    captured->log = log->size > 0 ? strndup(log->data, log->size) : strdup("");
    return captured->device && captured->log ? KILN_OK : KILN_E_NO_MEMORY;
}

static kiln_status capture(void *device, void *program, kiln_capture *ret_capture)
{
    (void)device;
    const kilni_nvrtc_built *built = program;
    kiln_capture captured = {0};
    kiln_status status = copy_out(&built->code, &captured.payload, &captured.payload_size);
    if (status == KILN_OK) {
        status = copy_out(&built->encoded, &captured.answers, &captured.answers_size);
    }
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

static kiln_status load(void *device, const kiln_program_source *source, const kiln_entry *entry,
                        void **ret_program)
{
    (void)source;
    kilni_nvrtc_built *built = calloc(1, sizeof *built);
    kiln_status status = built ? KILN_OK : KILN_E_NO_MEMORY;
    if (status == KILN_OK) {
        status = kilni_text_append(&built->device, kiln_entry_provenance(entry).device);
    }
    if (status == KILN_OK) {
        status = copy_in(kiln_entry_answers(entry), &built->encoded);
    }
    if (status == KILN_OK) {
        status = copy_in(kiln_entry_payload(entry), &built->code);
    }
    if (status == KILN_OK) {
        status = decode(built);
    }
    if (status == KILN_OK) {
        status = load_into_context(device, built);
    }
    if (status == KILN_OK) {
        *ret_program = built;
    } else if (built) {
        release_program(device, built);
    }
    return status == KILN_E_CORRUPT ? KILN_E_REFUSED : status;
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
