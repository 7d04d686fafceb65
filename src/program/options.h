/* SPDX-License-Identifier: Apache-2.0
 *
 * Build options from three sources: the device image, the environment, the caller.
 */
#pragma once

#include <kiln/program.h>

/* Combines the options of a compiler or of a linker, separated by spaces: first those of the image,
 * or those that replace them; then those that the environment appends; then the caller's.
 *
 * @ret_options  [out] to be freed with free(); NULL if all sources are NULL
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_options_combine(const char *image, const char *replaced, const char *appended,
                                  const char *caller, char **ret_options);

/* Joins the options of a build in one step: first the compiler's, then the linker's. Otherwise as
 * kilni_options_combine. */
kiln_status kilni_options_join(const char *compile, const char *link, char **ret_options);
