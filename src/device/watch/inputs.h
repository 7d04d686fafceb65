/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a compilation, as the caller passed them: the source, its name, headers, name
 * expressions, and options. For the files that a compilation includes, see read_files.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <kiln/key.h>

#include "device/watch/compiler.h"
#include "device/watch/words.h"

/* Characters that a compiler ignores around an option. */
#define KILNI_OPTION_BLANKS " \t\n\v\f\r"

/* All members are borrowed. */
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

/* Returns the length of the folder in a program's name, including the last slash. Returns 0 if the
 * name is not an absolute path. Many programs compile each source in a separate temporary folder,
 * so this folder is not itself a part of the key. */
size_t kilni_program_folder_length(const char *name);

/* Returns true if a text contains the last component of the program's folder, followed by a slash.
 * An #include with such a name might lead into the folder by a different path, and would still lead
 * there if the program moved to a different folder. */
bool kilni_text_has_program_folder(const char *name, const void *text, size_t size);

/* Returns true if, judging by the inputs, the result would be the same if the program were in a
 * different folder. */
bool kilni_inputs_may_move(const kilni_inputs *inputs);

/* Appends all inputs except the folder of the name. Also appends the working directory if the
 * result might contain it.
 *
 * @words  [in, out] the function adds the compiler's words that the texts contain
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option or a word makes each result different, an option
 * writes results elsewhere, or the inputs are too large for a key; KILN_E_NO_MEMORY. If an option
 * or a word is the reason, @error names it. */
kiln_status kilni_inputs_add_to_key(const kilni_inputs *inputs, kilni_words *words,
                                    kiln_key_builder *key, kiln_error *error);
