/* SPDX-License-Identifier: Apache-2.0 */
#include "device/nvrtc/includes.h"

#include <string.h>

#include "base/error.h"
#include "device/opencl/includes.h"

static kiln_status add_texts(const kilni_nvrtc_request *request, kilni_opencl_includes *includes,
                             kiln_error *error)
{
    const kilni_inputs *inputs = &request->inputs;
    const kilni_text *defines = &request->options.defines;
    kiln_status status = kilni_opencl_includes_add_text(includes, defines->bytes, defines->length,
                                                        "the options", error);
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

kiln_status kilni_nvrtc_add_includes(const kilni_nvrtc_request *request, kiln_key_builder *key,
                                     kiln_error *error)
{
    const kilni_nvrtc_options *options = &request->options;
    kilni_opencl_includes *includes;
    if (options->may_name_files) {
        return kilni_error_set(error, KILN_E_UNSUPPORTED, 0,
                               "options for NVRTC's compilers that may name a file");
    }
    kiln_status status =
        kilni_opencl_includes_new(options->folders, options->folder_count, &includes);
    if (status != KILN_OK) {
        return status;
    }
    status = add_texts(request, includes, error);
    if (status == KILN_OK) {
        status = kilni_opencl_includes_follow(includes, error);
    }
    if (status == KILN_OK) {
        status = kilni_opencl_includes_add_to_key(includes, key);
    }
    kilni_opencl_includes_free(&includes);
    return status;
}
