/* SPDX-License-Identifier: Apache-2.0
 *
 * Build options of three sources: the image, the environment, the caller.
 */
#pragma once

#include <kiln/program.h>

/* What a compiler, or a linker, is given: the environment's in place of the image's, then what the
 * environment appends, then the caller's, with a space between them.
 *
 * @ret_options  [out] to be freed with free(); NULL where none of them says anything
 * Returns KILN_OK; KILN_E_NO_MEMORY. */
kiln_status kilni_options_combine(const char *image, const char *replaced, const char *appended,
                                  const char *caller, char **ret_options);

/* What a build in one step is given: first the compiler's, then the linker's. As above. */
kiln_status kilni_options_join(const char *compile, const char *link, char **ret_options);
