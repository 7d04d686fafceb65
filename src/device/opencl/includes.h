/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a build may include.
 *
 * Drivers differ in where they look first. So each name is looked for in every place that any of
 * them looks in, and all that is found counts. What is recorded is the list of names in the order
 * in which they come up, each with what was found for it: two builds with equal texts and equal
 * records read the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/key.h>
#include <kiln/status.h>

typedef struct kilni_opencl_includes kilni_opencl_includes;

/* @folders  the search folders of -I, in order; borrowed until kilni_opencl_includes_free */
kiln_status kilni_opencl_includes_new(char *const *folders, size_t folder_count,
                                      kilni_opencl_includes **ret_includes);
void kilni_opencl_includes_free(kilni_opencl_includes **includes);

/* Adds a text that is no file: the source, the options as lines of C.
 *
 * @name  for @error, such as "the source"
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_includes_add_text(kilni_opencl_includes *includes, const void *bytes,
                                           size_t size, const char *name, kiln_error *error);

/* Adds an embedded header, which drivers find by its name as if it were a file there: what it
 * includes is looked for beside it too.
 *
 * @name  borrowed until kilni_opencl_includes_free
 * Returns KILN_OK; KILN_E_UNSUPPORTED; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_includes_add_header(kilni_opencl_includes *includes, const void *bytes,
                                             size_t size, const char *name, kiln_error *error);

/* Looks for what the texts include, and for what that includes.
 *
 * Returns KILN_OK; KILN_E_UNSUPPORTED: it can't be told, @error says why; KILN_E_NO_MEMORY. */
kiln_status kilni_opencl_includes_follow(kilni_opencl_includes *includes, kiln_error *error);

/* Appends each name that was looked for as "include", and for each place that has it
 * "include.place" with "include.content", or "include.same": that file's content came up before,
 * as the text of that number. */
kiln_status kilni_opencl_includes_add_to_key(const kilni_opencl_includes *includes,
                                             kiln_key_builder *key);
