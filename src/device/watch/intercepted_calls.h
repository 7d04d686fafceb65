/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements for the C library's functions by which compilers read files. Each replacement
 * reports the call, or what the call returned, and otherwise does the same as the original
 * function. fopen returns a stream with a copy of the file: see file_stream.h.
 *
 * A library "opens streams" if it calls a function for which kilni_call_opens_stream returns 1.
 * Some functions, which take a stream or a descriptor, matter only to these libraries.
 */
#pragma once

int kilni_call_opens_stream(const char *name);

/* Returns the replacement for a function, or NULL if it needs none.
 *
 * @opens_streams  1 if the library that calls the function opens streams, else 0 */
void *kilni_call_find(const char *name, int opens_streams);

/* Returns 1 if a library that calls a function with this name might read files without Kiln
 * noticing, or might crash. */
int kilni_call_is_unobserved(const char *name, int opens_streams);
