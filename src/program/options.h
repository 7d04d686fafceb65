/* SPDX-License-Identifier: Apache-2.0
 *
 * Combines build options from three sources: the device image, the environment and the caller.
 */
#pragma once

#include <kiln/program.h>

/* Combines the options of a compiler or of a linker, separated by spaces. The image's options come
 * first, or the options that replace them. The options that the environment appends come next, and
 * the caller's options come last.
 *
 * @ret_options  [out] to be freed with free(); NULL if all sources are NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_options_combine(const char *image, const char *replaced, const char *appended,
                                  const char *caller, char **ret_options);

/* Joins the options of a build that is a single step: first the compiler's options, then the
 * linker's. In other respects, does the same as kilni_options_combine. */
kiln_status kilni_options_join(const char *compile, const char *link, char **ret_options);
