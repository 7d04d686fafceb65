/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a build from source: its options, and the files that it includes, found as the
 * driver finds them. Where that can't be told, says so and why.
 */
#pragma once

#include <kiln/device.h>
#include <kiln/key.h>

#include "includes.h"

/* Appends "options", "source" or "il", and for source the contents of every file that it may
 * include, under the names by which it may be found: includes of includes; "…", <…> and macros
 * that -D or a #define gives; __has_include; conditionals are not evaluated, so that files of
 * branches not taken count too.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: can't be told (an option whose inputs are unknown,
 * __DATE__, an include that no macro explains, too many files, …), with the reason for the trace
 * in @error, such as "__TIME__ in the source"; KILN_E_NO_MEMORY. Threads: any. Blocks: on reading
 * files. */
kiln_status kilni_opencl_add_inputs(const kiln_program_source *source, kiln_key_builder *key,
                                    kiln_error *error);

/* The embedded headers of clCompileProgram. Borrowed. Zeroed, there are none. */
typedef struct kilni_opencl_headers {
    size_t count;
    const char *const *names; /* what #include says for each */
    const kiln_bytes *texts;
} kilni_opencl_headers;

/* The same for clCompileProgram. Its embedded headers go before files. */
kiln_status kilni_opencl_add_inputs_with_headers(const kiln_program_source *source,
                                                 const kilni_opencl_headers *headers,
                                                 kiln_key_builder *key, kiln_error *error);

/* Appends the inputs of a link: "options", and for each compiled program that goes in, in order,
 * "input": the encoding of its key.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: an option that may name a file, or makes a library;
 * KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_add_link_inputs(const char *options, size_t count,
                                         const kiln_key *const *inputs, kiln_key_builder *key,
                                         kiln_error *error);

/* 1 where the inputs include files, so that they may change while the build runs. */
int kilni_opencl_inputs_include_files(const kiln_program_source *source);
