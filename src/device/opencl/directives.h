/* SPDX-License-Identifier: Apache-2.0
 *
 * The preprocessor directives of one text: what it includes and what it defines. Conditionals are
 * not evaluated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "hazards.h"
#include "macros.h"
#include "scan.h"

/* What stands behind an #include or in a __has_include. Points into the text. */
typedef struct kilni_include {
    const char *text;
    size_t length;
    bool computed; /* tokens to be expanded; else a header name with its delimiters */
} kilni_include;

typedef struct kilni_directives {
    kilni_include *includes;
    size_t count;
    size_t capacity;
} kilni_directives;

/* Reads a text that outlives what is read.
 *
 * @macros, @hazards  [in, out] what is found is added
 * Returns KILN_OK; KILN_E_UNSUPPORTED: @ret_refusal (static) says why; KILN_E_NO_MEMORY. In both
 * cases @ret_directives is to be given back too. */
kiln_status kilni_directives_read(const kilni_clean_text *text, kilni_macros *macros,
                                  kilni_hazards *hazards, kilni_directives *ret_directives,
                                  const char **ret_refusal);
void kilni_directives_done(kilni_directives *directives);
