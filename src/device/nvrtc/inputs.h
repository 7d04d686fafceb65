/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program is compiled from, as it was given: source, name, headers, name expressions,
 * options. Not the files that it includes: see reads.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

#include "device/nvrtc/clock_words.h"

/* Borrowed. */
typedef struct kilni_nvrtc_inputs {
    const char *source;
    const char *name; /* NULL and "" are "default_program" to NVRTC */
    size_t header_count;
    const char *const *headers;
    const char *const *header_names;
    size_t expression_count;
    const char *const *expressions; /* in the order in which they were added */
    size_t option_count;
    const char *const *options;
} kilni_nvrtc_inputs;

/* Appends all of it, and the working directory where the result may hold it.
 *
 * @words  [in, out] what the texts say of the time is added
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option for results that are different every time, or that
 * go elsewhere, named in @error; KILN_E_NO_MEMORY. */
kiln_status kilni_nvrtc_add_inputs(const kilni_nvrtc_inputs *inputs, kilni_clock_words *words,
                                   kiln_key_builder *key, kiln_error *error);
