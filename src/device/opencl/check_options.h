/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts only build options whose effect is known: those that name include folders or included
 * files, and those that name no file.
 */
#pragma once

#include <kiln/status.h>

/* @text   NULL: no options
 * @where  a description of @text for messages in @error, such as "the options"
 * Returns KILN_OK; KILN_E_UNSUPPORTED, with the reason in @error: the text cannot be parsed, or the
 * inputs of an option are unknown. */
kiln_status kilni_opencl_check_options(const char *text, const char *where, kiln_error *error);

/* Does the same as kilni_opencl_check_options for the options of a link. Also refuses compiler
 * options such as -I and -D, whose effect on a link is unknown. */
kiln_status kilni_opencl_link_options_check(const char *text, kiln_error *error);
