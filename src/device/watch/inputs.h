/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program is compiled from, as it was given: source, name, headers, name expressions,
 * options. Not the files that it includes: see reads.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

#include "device/watch/clock_words.h"
#include "device/watch/compiler.h"

/* A compiler ignores these around an option. */
#define KILNI_OPTION_BLANKS " \t\n\v\f\r"

/* Borrowed. */
typedef struct kilni_inputs {
    const kilni_compiler *compiler;
    const char *source;
    const char *name; /* may be NULL or "" */
    size_t header_count;
    const char *const *headers;
    const char *const *header_names;
    size_t expression_count;
    const char *const *expressions; /* in the order in which they were added */
    size_t option_count;
    const char *const *options;
} kilni_inputs;

/* The folder of a program's name, with its slash: what a path begins with. 0 where the name is no
 * path from the root. Programs that give each source a folder of its own, made for the occasion,
 * are common: by itself it is no part of the key. */
size_t kilni_program_folder_length(const char *name);

/* Whether a text has the folder's own name, before a slash: an include by it may lead into the
 * folder from elsewhere, and does not follow it when the program has another. */
bool kilni_names_program_folder(const char *name, const void *text, size_t size);

/* Whether the result may be the same in another folder, as far as the inputs tell. */
bool kilni_inputs_may_move(const kilni_inputs *inputs);

/* Appends all of it, but for the folder of the name, and the working directory where the result may
 * hold it.
 *
 * @words  [in, out] what the texts say of the time is added
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option for results that are different every time, or that
 * go elsewhere, named in @error; KILN_E_NO_MEMORY. */
kiln_status kilni_inputs_add_to_key(const kilni_inputs *inputs, kilni_clock_words *words,
                                    kiln_key_builder *key, kiln_error *error);
