/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "check_options.h"
#include "key/builder.h"
#include "traits.h"

/* ---- texts ---- */

/* Scans the options as they are, and again without the characters that drivers might remove. */
static kiln_status scan_options(const char *options, kilni_words *seen)
{
    if (!options) {
        return KILN_OK;
    }
    char *bare = strdup(options), *end = bare;
    if (!bare) {
        return KILN_E_NO_MEMORY;
    }
    for (const char *c = options; *c; c++) {
        if (*c != '"' && *c != '\\' && *c != '\'') {
            *end++ = *c;
        }
    }
    kilni_words_scan(seen, options, strlen(options));
    kilni_words_scan(seen, bare, (size_t)(end - bare));
    free(bare);
    return KILN_OK;
}

static kiln_status scan_all_options(const kiln_program_source *source, kilni_words *seen,
                                    kiln_error *error)
{
    kiln_status status = kilni_opencl_check_options(source->options, "the options", error);
    if (status == KILN_OK) {
        status = scan_options(source->options, seen);
    }
    for (const char *const *name = kilni_opencl_option_variables; *name && status == KILN_OK;
         name++) {
        status = kilni_opencl_check_options(getenv(*name), *name, error);
        if (status == KILN_OK) {
            status = scan_options(getenv(*name), seen);
        }
    }
    return status;
}

static kiln_status see_texts(const kiln_program_source *source, const kilni_opencl_headers *headers,
                             kilni_words *seen, kiln_error *error)
{
    const kiln_status status = scan_all_options(source, seen, error);
    if (status != KILN_OK || source->form != KILN_SOURCE_TEXT) {
        return status;
    }
    kilni_words_scan(seen, source->code.data, source->code.size);
    for (size_t i = 0; i < headers->count; i++) {
        kilni_words_scan(seen, headers->texts[i].data, headers->texts[i].size);
    }
    const char *refusal = kilni_opencl_words_refusal(seen);
    return refusal ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "%s", refusal) : KILN_OK;
}

/* ---- the key ---- */

static void add_given(const kiln_program_source *source, const kilni_opencl_headers *headers,
                      kiln_key_builder *key)
{
    const char *name = source->form == KILN_SOURCE_IL ? "il" : "source";
    if (source->options) {
        kiln_key_builder_add_text(key, "options", source->options);
    }
    kiln_key_builder_add(key, name, source->code.data, source->code.size);
    for (size_t i = 0; i < headers->count; i++) {
        kiln_key_builder_add_text(key, "header", headers->names[i]);
        kiln_key_builder_add(key, "header.content", headers->texts[i].data, headers->texts[i].size);
    }
}

static kiln_status add_working_directory(kiln_key_builder *key)
{
    char *path = getcwd(NULL, 0);
    const kiln_status status =
        path ? kiln_key_builder_add_text(key, "working directory", path) : KILN_E_UNSUPPORTED;
    free(path);
    return status;
}

kiln_status kilni_opencl_add_inputs(const kiln_program_source *source,
                                    const kilni_opencl_headers *headers, bool can_watch,
                                    kiln_key_builder *key, kilni_opencl_texts *ret_texts,
                                    kiln_error *error)
{
    kilni_opencl_texts texts = {.words.list = &kilni_opencl_words};
    kiln_status status = see_texts(source, headers, &texts.words, error);
    if (status != KILN_OK) {
        return status;
    }
    const bool is_text = source->form == KILN_SOURCE_TEXT;
    texts.may_read = is_text && kilni_opencl_words_may_read(&texts.words);
    if (texts.may_read && !can_watch) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "it may include files, and this driver can't be watched");
    }
    add_given(source, headers, key);
    if (is_text && kilni_opencl_words_ask_place(&texts.words)) {
        status = add_working_directory(key);
    }
    if (texts.may_read) {
        status = kiln_key_builder_add_text(key, "reads", "in the entry");
    }
    status = kilni_key_builder_fail(key, status);
    *ret_texts = texts;
    /* If the inputs are too many or too large for a key, the build is not cached, but does not
     * fail. */
    return status == KILN_E_TOO_LARGE
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error)
{
    kiln_status status = kilni_opencl_link_options_check(options, error);
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
