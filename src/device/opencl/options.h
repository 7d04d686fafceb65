/* SPDX-License-Identifier: Apache-2.0
 *
 * Build options, as far as what they do is known: they name folders and files of includes, or no
 * file at all.
 */
#pragma once

#include <kiln/status.h>

/* @text   NULL: nothing
 * @where  for @error, such as "the options"
 * Returns KILN_OK; KILN_E_UNSUPPORTED: there is an option whose inputs are not known, named in
 * @error. */
kiln_status kilni_opencl_options_check(const char *text, const char *where, kiln_error *error);

/* The same of a link's. Options of compilers are not for linkers: -I and -D say nothing that is
 * known of a link. */
kiln_status kilni_opencl_link_options_check(const char *text, kiln_error *error);
