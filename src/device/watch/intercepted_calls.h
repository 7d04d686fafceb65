/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for the C library's functions by which compilers read files. Each replacement
 * reports the call, and then does the same as the original function.
 */
#pragma once

/* Returns the replacement for a function, or NULL if it needs none. */
void *kilni_call_find(const char *name);

/* Returns 1 if a library that calls a function with this name might read files without Kiln
 * noticing. */
int kilni_call_is_unobserved(const char *name);
