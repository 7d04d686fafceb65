/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a build, as the application passed them: the source, the options and the headers.
 * Only the compiler knows which files a build includes: see watched_build.h.
 */
#pragma once

#include <stdbool.h>

#include <kiln/device.h>
#include <kiln/key.h>

#include "refused_words.h"

/* The words in the texts of a build, and whether these texts show that the build might read
 * files. */
typedef struct kilni_opencl_texts {
    bool may_read; /* the texts contain an include, or something else that makes a compiler look at
                      files */
    bool has_source_end; /* the key has the number 0 in the place of the number in the source's
                            defeating constant */
    kilni_words words;
} kilni_opencl_texts;

/* The embedded headers of clCompileProgram. All members are borrowed. A zeroed structure has
 * none. */
typedef struct kilni_opencl_headers {
    size_t count;
    const char *const *names; /* the name of each header in #include directives */
    const kiln_bytes *texts;
} kilni_opencl_headers;

/* Appends "options", "source" or "il", and the headers. Also appends the working directory if the
 * result might contain it. Also appends "reads" if the build might read files; the entry of such a
 * build lists these files.
 *
 * @can_watch  whether the driver's compiler can be watched; if not, builds that might read files
 *             are refused
 * @ret_texts  [out] the words in the texts, and whether the build might read files
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error, such as "__TIME__": the result
 * might depend on more than the inputs, for example because of __DATE__, or of an option whose
 * inputs are unknown; KILN_E_NO_MEMORY. Threads: any. */
kiln_status kilni_opencl_add_inputs(const kiln_program_source *source,
                                    const kilni_opencl_headers *headers, bool can_watch,
                                    kiln_key_builder *key, kilni_opencl_texts *ret_texts,
                                    kiln_error *error);

/* Appends the inputs of a link: "options", and an "input" for each compiled program, in order. Each
 * "input" contains the encoding of the program's key.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option might name a file, or asks for a library as the
 * result; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error);
