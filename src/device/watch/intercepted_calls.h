/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for the C library's functions by which compilers read files. Each reports the call,
 * and then does what the original does.
 */
#pragma once

/* Returns the replacement for a function, or NULL if it needs none. */
void *kilni_call_find(const char *name);

/* Whether a library that calls a function of that name may read files without Kiln noticing. */
int kilni_call_is_unobserved(const char *name);
