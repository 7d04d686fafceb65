/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a program as one text, taken apart: see kiln/nvrtc.h.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

typedef struct kilni_nvrtc_options {
    char **items; /* NVRTC's */
    size_t count;
    char **expressions;
    size_t expression_count;
} kilni_nvrtc_options;

/* Takes a text apart; zeroed, options are empty.
 *
 * @architecture  goes first, as -arch, where the text says none; NULL: none
 * @text          NULL: nothing
 * Returns KILN_OK; KILN_E_BUILD: an open quote; KILN_E_NO_MEMORY. In each case it is given back. */
kiln_status kilni_nvrtc_options_parse(const char *architecture, const char *text,
                                      kilni_nvrtc_options *ret_options, kiln_error *error);
void kilni_nvrtc_options_done(kilni_nvrtc_options *options);
