/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables that affect a compiler. The functions read the environment of the process.
 * While one of them runs, no other thread is allowed to change the environment. The C library has
 * the same rule.
 *
 * A pattern is a name, or a prefix of names followed by '*'. A pattern that begins with '!'
 * excludes variables that another pattern matches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

/* Variables that are set, each as "NAME=VALUE", sorted. The strings are borrowed from the
 * environment. */
typedef struct kilni_variables {
    const char **items; /* freed by the caller */
    size_t count;
} kilni_variables;

bool kilni_variable_matches(const char *pattern, const char *setting);

/* Returns true if a pattern matches the setting and no excluding pattern matches it. @patterns is
 * NULL-terminated, or NULL. */
bool kilni_variable_counts(const char *const *patterns, const char *setting);

/* Finds the variables that at least one of the two lists selects. Returns KILN_OK or
 * KILN_E_NO_MEMORY. */
kiln_status kilni_variables_find(const char *const *patterns, const char *const *more,
                                 kilni_variables *ret_variables);

/* Returns the length of the variable's name. */
size_t kilni_variable_name_length(const char *setting);

/* Appends a part whose name is @prefix followed by @name. Returns KILN_OK; KILN_E_UNSUPPORTED: the
 * name is empty, or too long for a key; KILN_E_NO_MEMORY; KILN_E_TOO_LARGE. */
kiln_status kilni_variable_add_part(kiln_key_builder *key, const char *prefix, const char *name,
                                    size_t length, const void *bytes, size_t size,
                                    kiln_error *error);

/* Appends each variable as the part "env.NAME". Returns the same statuses as
 * kilni_variable_add_part. */
kiln_status kilni_variables_add_to_key(const kilni_variables *variables, kiln_key_builder *key,
                                       kiln_error *error);
