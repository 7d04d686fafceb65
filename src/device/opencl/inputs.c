/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "includes.h"
#include "options.h"
#include "traits.h"

static kiln_status parse_options(const kiln_program_source *source, kilni_opencl_options *options,
                                 kiln_error *error)
{
    kiln_status status = kilni_opencl_options_parse(options, source->options, "the options", error);
    const char *const *name = kilni_opencl_option_variables;
    for (; *name && status == KILN_OK; name++) {
        status = kilni_opencl_options_parse(options, getenv(*name), *name, error);
    }
    return status;
}

static kiln_status add_texts(const kiln_program_source *source, const kilni_opencl_headers *headers,
                             const kilni_opencl_options *options, kilni_opencl_includes *includes,
                             kiln_error *error)
{
    kiln_status status = kilni_opencl_includes_add_text(
        includes, options->defines.bytes, options->defines.length, "the options", error);
    if (status == KILN_OK) {
        status = kilni_opencl_includes_add_text(includes, source->code.data, source->code.size,
                                                "the source", error);
    }
    for (size_t i = 0; i < headers->count && status == KILN_OK; i++) {
        status = kilni_opencl_includes_add_header(includes, headers->texts[i].data,
                                                  headers->texts[i].size, headers->names[i], error);
    }
    return status;
}

static kiln_status add_includes(const kiln_program_source *source,
                                const kilni_opencl_headers *headers,
                                const kilni_opencl_options *options, kiln_key_builder *key,
                                kiln_error *error)
{
    kilni_opencl_includes *includes;
    kiln_status status =
        kilni_opencl_includes_new(options->folders, options->folder_count, &includes);
    if (status != KILN_OK) {
        return status;
    }
    status = add_texts(source, headers, options, includes, error);
    if (status == KILN_OK) {
        status = kilni_opencl_includes_follow(includes, error);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_includes_add_to_key(includes, key);
    }
    kilni_opencl_includes_free(&includes);
    return status;
}

static kiln_status add_given(const kiln_program_source *source, const kilni_opencl_headers *headers,
                             kiln_key_builder *key)
{
    const char *name = source->form == KILN_SOURCE_IL ? "il" : "source";
    if (source->options) {
        kiln_key_builder_add_text(key, "options", source->options);
    }
    kiln_status status = kiln_key_builder_add(key, name, source->code.data, source->code.size);
    for (size_t i = 0; i < headers->count; i++) {
        kiln_key_builder_add_text(key, "header", headers->names[i]);
        status = kiln_key_builder_add(key, "header.content", headers->texts[i].data,
                                      headers->texts[i].size);
    }
    return status;
}

kiln_status kilni_opencl_add_inputs_with_headers(const kiln_program_source *source,
                                                 const kilni_opencl_headers *headers,
                                                 kiln_key_builder *key, kiln_error *error)
{
    kilni_opencl_options options = {0};
    kiln_status status = parse_options(source, &options, error);
    if (status == KILN_OK) {
        status = add_given(source, headers, key);
    }
    if (status == KILN_OK && source->form == KILN_SOURCE_TEXT) {
        status = add_includes(source, headers, &options, key, error);
    }
    kilni_opencl_options_done(&options);
    /* If there are more parts than a key may have, or larger ones, the build still works; only its
     * result cannot be cached. */
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

kiln_status kilni_opencl_add_inputs(const kiln_program_source *source, kiln_key_builder *key,
                                    kiln_error *error)
{
    return kilni_opencl_add_inputs_with_headers(source, &(kilni_opencl_headers){0}, key, error);
}

/* Compiler options such as -I and -D have no known meaning for a link, so they are refused. */
static kiln_status check_link_options(const char *text, kiln_error *error)
{
    kilni_opencl_options options = {0};
    kiln_status status = kilni_opencl_options_parse(&options, text, "the link options", error);
    if (status == KILN_OK && (options.folder_count > 0 || options.defines.length > 0)) {
        status = kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "compiler options for a link");
    }
    kilni_opencl_options_done(&options);
    return status;
}

kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error)
{
    kiln_status status = check_link_options(options, error);
    if (status == KILN_OK && options) {
        status = kiln_key_builder_add_text(key, "options", options);
    }
    for (size_t i = 0; i < count && status == KILN_OK; i++) {
        size_t size = 0;
        const void *encoding = kiln_key_encoding(inputs[i], &size);
        status = kiln_key_builder_add(key, "input", encoding, size);
    }
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

static int has_word(const void *bytes, size_t size, const char *word)
{
    return size > 0 && memmem(bytes, size, word, strlen(word)) != NULL;
}

/* A line splice within a word can hide the word. */
static int has_spliced_word(const kiln_bytes *code)
{
    const char *bytes = code->data;
    for (size_t i = 1; i + 1 < code->size; i++) {
        if (bytes[i] == '\\' && strchr(" \t\r\n\v\f", bytes[i + 1]) && bytes[i - 1] >= 'a' &&
            bytes[i - 1] <= 'z') {
            return 1;
        }
    }
    return 0;
}

int kilni_opencl_inputs_include_files(const kiln_program_source *source)
{
    if (source->form != KILN_SOURCE_TEXT) {
        return 0;
    }
    if (source->options && strstr(source->options, "-include")) {
        return 1;
    }
    for (const char *const *name = kilni_opencl_option_variables; *name; name++) {
        const char *value = getenv(*name);
        if (value && strstr(value, "-include")) {
            return 1;
        }
    }
    const kiln_bytes *code = &source->code;
    return has_word(code->data, code->size, "include") ||
           has_word(code->data, code->size, "import") || has_spliced_word(code);
}
