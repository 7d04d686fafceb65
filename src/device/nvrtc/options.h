/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's options, parsed from one text: see kiln/nvrtc.h.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

typedef struct kilni_nvrtc_options {
    char **items; /* options for NVRTC */
    size_t count;
    char **expressions;
    size_t expression_count;
} kilni_nvrtc_options;

/* Parses a text of options. A zeroed structure has no options.
 *
 * @architecture  inserted before the text, as -arch, unless the text names an architecture; NULL:
 *                none is inserted
 * @text          NULL: no options
 * Returns KILN_OK; KILN_E_BUILD: an unterminated quote; KILN_E_NO_MEMORY. In each case, the caller
 * must call kilni_nvrtc_options_done. */
kiln_status kilni_nvrtc_options_parse(const char *architecture, const char *text,
                                      kilni_nvrtc_options *ret_options, kiln_error *error);
void kilni_nvrtc_options_done(kilni_nvrtc_options *options);
