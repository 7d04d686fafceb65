/* SPDX-License-Identifier: Apache-2.0
 *
 * Build options, as far as they decide which files a build reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

#include "base/text.h"

/* A zeroed structure has no options. */
typedef struct kilni_opencl_options {
    char **folders; /* from -I, in order */
    size_t folder_count;
    size_t folder_capacity;
    kilni_text defines; /* -D and -include as lines of C: #define NAME VALUE, #include "NAME" */
} kilni_opencl_options;

/* Adds the options of a text. May be called more than once.
 *
 * @text   NULL: no options
 * @where  for @error, such as "the options"
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option whose inputs are not known, which @error names;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_options_parse(kilni_opencl_options *options, const char *text,
                                       const char *where, kiln_error *error);
void kilni_opencl_options_done(kilni_opencl_options *options);
