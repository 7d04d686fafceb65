/* SPDX-License-Identifier: Apache-2.0
 *
 * What #include may come to when its name is made by macros.
 *
 * Conditionals are not evaluated, so that a name may have several definitions, or none at the
 * place in question: every combination is tried.
 */
#pragma once

#include <stddef.h>

#include <kiln/status.h>

/* One definition: #define NAME REST. Points into texts that outlive it. */
typedef struct kilni_macro {
    const char *name;
    size_t name_length;
    const char *rest; /* from the byte behind the name to the end of the line */
    size_t rest_length;
} kilni_macro;

/* All definitions. Zeroed, it is empty. */
typedef struct kilni_macros {
    kilni_macro *items; /* sorted where @sorted_count equals @count */
    size_t count;
    size_t capacity;
    size_t sorted_count;
} kilni_macros;

kiln_status kilni_macros_define(kilni_macros *macros, const kilni_macro *macro);
void kilni_macros_done(kilni_macros *macros);

/* It must add no definitions. @name is "…" or <…>, with its delimiters; lives for
 * the call. A result other than KILN_OK ends the walk and becomes its result. */
typedef kiln_status (*kilni_header_name_fn)(void *user, const char *name, size_t length);

/* Calls @found for every header name that the tokens behind an #include can come to; more than
 * once for the same name, perhaps.
 *
 * KILN_OK; KILN_E_UNSUPPORTED: @ret_refusal (static) says why; KILN_E_NO_MEMORY; what @found
 * returned. */
kiln_status kilni_macros_expand_include(kilni_macros *macros, const char *text, size_t length,
                                        kilni_header_name_fn found, void *user,
                                        const char **ret_refusal);
