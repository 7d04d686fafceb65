/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that steer a compiler. The process's environment is read as it is at the call;
 * a program that changes it from another thread meanwhile breaks the C library's own rules too.
 *
 * A pattern is a name, or with a star at its end what names begin with; with a '!' before it, those
 * that don't count though another pattern fits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

/* Variables that are set, each as "NAME=VALUE", sorted; borrowed from the environment. */
typedef struct kilni_variables {
    const char **items; /* freed by the caller */
    size_t count;
} kilni_variables;

bool kilni_variable_fits(const char *pattern, const char *setting);

/* Whether any pattern fits and no exception does. @patterns NULL-ended, or NULL. */
bool kilni_variable_counts(const char *const *patterns, const char *setting);

/* Finds those that count by either list. KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_variables_find(const char *const *patterns, const char *const *more,
                                 kilni_variables *ret_variables);

/* Characters of the name. */
size_t kilni_variable_name_length(const char *setting);

/* Appends a part by the name of PREFIX and @name. KILN_OK; KILN_E_UNSUPPORTED: the name is too long
 * for a key; KILN_E_NO_MEMORY; KILN_E_TOO_LARGE. */
kiln_status kilni_variable_add_part(kiln_key_builder *key, const char *prefix, const char *name,
                                    size_t length, const void *bytes, size_t size,
                                    kiln_error *error);

/* Appends each as "env.NAME". The same statuses. */
kiln_status kilni_variables_add_to_key(const kilni_variables *variables, kiln_key_builder *key,
                                       kiln_error *error);
