/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/nvrtc/compiler.h"
#include "device/nvrtc/identity.h"

/* Copies the source and terminates it with a zero byte. Returns KILN_OK; KILN_E_BUILD: it is not
 * text; KILN_E_NO_MEMORY. */
static kiln_status copy_source(const kiln_program_source *source, char **ret_text)
{
    const char *code = source->code.size > 0 ? source->code.data : "";
    if (source->form != KILN_SOURCE_TEXT || memchr(code, '\0', source->code.size)) {
        return KILN_E_BUILD;
    }
    *ret_text = strndup(code, source->code.size);
    return *ret_text ? KILN_OK : KILN_E_NO_MEMORY;
}

static kilni_inputs inputs_of(const kiln_nvrtc_device *d, const char *source,
                              const kilni_nvrtc_options *options)
{
    return (kilni_inputs){
        .compiler = &kilni_nvrtc_compiler,
        .source = source,
        .name = KILNI_NVRTC_NO_NAME,
        .header_count = d->header_count,
        .headers = (const char *const *)d->headers,
        .header_names = (const char *const *)d->header_names,
        .expression_count = options->expression_count,
        .expressions = (const char *const *)options->expressions,
        .option_count = options->count,
        .options = (const char *const *)options->items,
    };
}

static kiln_status add_inputs(const kiln_nvrtc_device *d, kilni_nvrtc_request *r,
                              kiln_key_builder *key, kiln_error *error)
{
    kiln_status status = kilni_nvrtc_add_environment((const char *const *)d->variables, key, error);
    if (status == KILN_OK) {
        status = kilni_inputs_add_to_key(&r->inputs, &r->words, key, error);
    }
    return status;
}

static kiln_status make_key(const kiln_nvrtc_device *d, kilni_nvrtc_request *r, kiln_error *error)
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
               ? kilni_error_set(error, KILN_E_UNSUPPORTED, 0, "the inputs are too large for a key")
               : status;
}

kiln_status kilni_nvrtc_request_begin(const kiln_nvrtc_device *device,
                                      const kiln_program_source *source,
                                      kilni_nvrtc_request *ret_request, kiln_error *error)
{
    kilni_nvrtc_request *r = ret_request;
    *r = (kilni_nvrtc_request){.revision = source->revision, .words.list = &kilni_clock_words};
    kiln_status status = copy_source(source, &r->text);
    if (status == KILN_E_BUILD) {
        return kilni_error_set(error, status, 0, "NVRTC compiles only text without zero bytes");
    }
    if (status == KILN_OK) {
        status =
            kilni_nvrtc_options_parse(device->architecture, source->options, &r->options, error);
    }
    if (status == KILN_OK) {
        r->inputs = inputs_of(device, r->text, &r->options);
        status = make_key(device, r, error);
    }
    return status == KILN_E_UNSUPPORTED ? KILN_OK : status;
}

void kilni_nvrtc_request_done(kilni_nvrtc_request *request)
{
    kiln_key_release(&request->key);
    kilni_nvrtc_options_done(&request->options);
    free(request->text);
}
