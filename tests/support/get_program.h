/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains programs of a context by their sources.
 */
#pragma once

#include <kiln/program.h>

/* Makes a description and gets its program. */
static inline kiln_status get_program(kiln_program_context *context,
                                      const kiln_program_source *source, kiln_program **ret_program,
                                      kiln_program_result *ret_result, kiln_error *error)
{
    const kiln_program_desc_params params = {
        .struct_size = sizeof params,
        .form = source->form,
        .code = source->code,
        .options.compile = source->options,
        .name = source->name,
        .constants = source->constants,
        .constant_count = source->constant_count,
    };
    kiln_program_desc *desc = NULL;
    kiln_status status = kiln_program_desc_new(context, &params, &desc, error);
    if (status == KILN_OK) {
        status = kiln_program_get(desc, ret_program, ret_result, error);
    }
    kiln_program_desc_release(&desc);
    return status;
}
