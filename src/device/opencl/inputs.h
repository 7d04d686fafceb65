/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the inputs of a build from source: its options, and the files that it includes, found as
 * the driver would find them. If the files cannot be determined, reports that with the reason.
 */
#pragma once

#include <kiln/device.h>
#include <kiln/key.h>

#include "includes.h"

/* Appends "options", "source" or "il", and for source the contents of every file that it may
 * include, under the names by which it may be found. This covers includes within included files;
 * "…", <…> and macros that -D or a #define defines; and __has_include. Conditionals are not
 * evaluated, so files of untaken branches count too.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: the inputs cannot be determined (an option whose inputs are
 * unknown, __DATE__, an include that no macro explains, too many files, …), with the reason for the
 * trace in @error, such as "__TIME__ in the source"; KILN_E_NO_MEMORY. Threads: any. Blocks: on
 * reading files. */
kiln_status kilni_opencl_add_inputs(const kiln_program_source *source, kiln_key_builder *key,
                                    kiln_error *error);

/* The embedded headers of clCompileProgram. Borrowed. A zeroed structure has none. */
typedef struct kilni_opencl_headers {
    size_t count;
    const char *const *names; /* the name that #include uses for each */
    const kiln_bytes *texts;
} kilni_opencl_headers;

/* Does the same for clCompileProgram. Embedded headers take precedence over files. */
kiln_status kilni_opencl_add_inputs_with_headers(const kiln_program_source *source,
                                                 const kilni_opencl_headers *headers,
                                                 kiln_key_builder *key, kiln_error *error);

/* Appends the inputs of a link: "options", and for each compiled program, in order, "input": the
 * encoding of its key.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option that may name a file, or makes a library;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error);

/* Returns 1 if the source includes files, which may change while the build runs. */
int kilni_opencl_inputs_include_files(const kiln_program_source *source);
