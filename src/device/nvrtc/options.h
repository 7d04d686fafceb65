/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a program as one text, taken apart: see kiln/nvrtc.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/status.h>

#include "base/text.h"

typedef struct kilni_nvrtc_options {
    char **items; /* NVRTC's */
    size_t count;
    char **expressions;
    size_t expression_count;
    char **folders; /* of -I, as they are among the items */
    size_t folder_count;
    kilni_text defines;  /* -D and -include as lines of C */
    bool may_name_files; /* what is handed on to the compilers within NVRTC, which can read any */
} kilni_nvrtc_options;

/* Takes a text apart; zeroed, options are empty.
 *
 * @architecture  goes first, as -arch, where the text says none; NULL: none
 * @text          NULL: nothing
 * Returns KILN_OK; KILN_E_BUILD: an open quote; KILN_E_NO_MEMORY. In each case it is given back. */
kiln_status kilni_nvrtc_options_parse(const char *architecture, const char *text,
                                      kilni_nvrtc_options *ret_options, kiln_error *error);
void kilni_nvrtc_options_done(kilni_nvrtc_options *options);
