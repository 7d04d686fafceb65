/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a build as they were passed: source, options, headers. Which files it includes, its
 * compiler alone can tell: watched_build.h.
 */
#pragma once

#include <stdbool.h>

#include <kiln/device.h>
#include <kiln/key.h>

#include "device/watch/words.h"

/* What the texts of a build say about the files that it may read. */
typedef struct kilni_opencl_texts {
    bool may_read; /* an include, or anything else by which a compiler looks at files */
    kilni_words words;
} kilni_opencl_texts;

/* The embedded headers of clCompileProgram. Borrowed. A zeroed structure has none. */
typedef struct kilni_opencl_headers {
    size_t count;
    const char *const *names; /* the name that #include uses for each */
    const kiln_bytes *texts;
} kilni_opencl_headers;

/* Appends "options", "source" or "il", and the headers; the working directory, if the result may
 * say it; and "reads", if the build may read files, so that its entry has to tell which.
 *
 * @can_watch  whether the driver's compiler can be watched; if not, builds that may read files are
 *             refused
 * @ret_texts  [out]
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the result may depend on more (an option whose inputs are
 * unknown, __DATE__, …), with the reason in @error, such as "__TIME__"; KILN_E_NO_MEMORY. Threads:
 * any. */
kiln_status kilni_opencl_add_inputs(const kiln_program_source *source,
                                    const kilni_opencl_headers *headers, bool can_watch,
                                    kiln_key_builder *key, kilni_opencl_texts *ret_texts,
                                    kiln_error *error);

/* Why the result of texts with these words can't be kept, whatever they read; NULL: it can. */
const char *kilni_opencl_words_refusal(const kilni_words *words);

/* Whether texts with these words ask for the name of a file: drivers answer with paths that begin
 * with the working directory. */
bool kilni_opencl_words_ask_place(const kilni_words *words);

/* What is looked for in all texts, and in the files that they include. */
extern const kilni_word_list kilni_opencl_words;

/* Appends the inputs of a link: "options", and for each compiled program, in order, "input": the
 * encoding of its key.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option that may name a file, or makes a library;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error);
